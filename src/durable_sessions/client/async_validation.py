"""Judging in a clean place, for programs with an event loop."""

from collections.abc import Callable, Iterable, Mapping

from durable_sessions.client import artifact
from durable_sessions.client.async_placement import AsyncPlacedSession
from durable_sessions.client.async_session import AsyncSession
from durable_sessions.client.placement_record import LOG_TYPE, REPLACEMENTS_MAX, Prepare, log_of
from durable_sessions.client.threads import in_thread
from durable_sessions.client.validation import FeatureCheck, Validation
from durable_sessions.sandbox import Backend, Result, SandboxLostError, SandboxSpec


async def validated(
    session: AsyncSession,
    feature: str | None,
    command: str | None,
    backend: str | Backend,
    spec: SandboxSpec | None,
    prepare: Prepare | None,
    evidence: Iterable[str],
    metrics: Callable[[Result], Mapping[str, float]] | None,
    timeout: float | None,  # noqa: ASYNC109 - the sandbox keeps it, and kills
) -> Validation:
    """Run a check in a fresh sandbox, and append its verdict."""
    check = FeatureCheck(await session.state(), feature, command, evidence)
    place = AsyncPlacedSession(session.id, session._transport, session._cache, session.incarnation)
    await place.to(backend, spec, prepare=prepare)
    try:
        for replacements in range(REPLACEMENTS_MAX + 1):
            sandbox = place.sandbox
            try:
                result, found = await in_thread(check.run, sandbox, timeout)
                break
            except SandboxLostError as error:
                await place._replace(error, [], is_last=replacements == REPLACEMENTS_MAX)
    finally:
        await place.leave()
    log = await session._transport.send(artifact.put(log_of(check.command, result), LOG_TYPE))
    events, validation = check.events(sandbox.id, result, found, log.sha256, log.size, metrics)
    await place.append(events)
    return validation
