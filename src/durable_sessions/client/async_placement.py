"""Work in a sandbox, for programs with an event loop."""

import logging
from collections.abc import Mapping
from typing import Any

from durable_sessions.client import artifact
from durable_sessions.client.async_session import AsyncSession
from durable_sessions.client.placement import UNPLACED
from durable_sessions.client.placement_record import (
    LOG_TYPE,
    REPLACEMENTS_MAX,
    CommandRecord,
    CommandRun,
    Prepare,
    WorkPlacement,
    given_to,
    left_behind,
    reason_of,
)
from durable_sessions.client.threads import in_thread
from durable_sessions.client.tool_record import Effect
from durable_sessions.sandbox import Backend, Sandbox, SandboxError, SandboxLostError, SandboxSpec

_LOG = logging.getLogger(__name__)


class AsyncPlacedSession(AsyncSession):
    """A session whose commands run in a sandbox, and which tells where they ran."""

    _placement: WorkPlacement | None = None

    async def to(
        self,
        backend: str | Backend = "local",
        spec: SandboxSpec | None = None,
        *,
        prepare: Prepare | None = None,
    ) -> Sandbox:
        """Open a sandbox for the commands of this work, and leave the one before; ``ds.sandbox`` tells it.

        ``backend`` is local, docker, e2b, opensandbox, or an object with ``open``. ``prepare`` is called with
        each new sandbox, also with one that replaces a lost one: there it puts what the work needs. Raises
        SandboxOpenError if there can be none. The sandbox is released at the end of the work.
        """
        await self.leave()
        placement = WorkPlacement(backend, spec, prepare)
        known = self._left_behind()
        before = [] if known is None else [left_behind(known)]
        return await self._open(placement, before, None if known is None else str(known["sandbox"]))

    @property
    def sandbox(self) -> Sandbox:
        """The present sandbox; raises SandboxError if there is none."""
        return self._present()[1]

    async def run(
        self,
        command: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the sandbox keeps it, and kills
        env: Mapping[str, str] | None = None,
        input: str | bytes | None = None,  # noqa: A002
        effect: Effect | None = None,
        key: str | None = None,
        role: str = "test_log",
    ) -> CommandRun:
        """Run a line of the shell in the sandbox, and record the call, its result and its log.

        ``effect`` and ``key`` are those of the call. When the sandbox is lost under the command, another one
        replaces it. A command that may be repeated (``effect`` none or read_only, or idempotent with a key)
        is then run again, as a new call; for others this raises SandboxLostError, and ``run`` can be used on.
        """
        for replacements in range(REPLACEMENTS_MAX + 1):
            placement, sandbox = self._present()
            await self._resume(placement, sandbox)
            record = CommandRecord(command, sandbox.id, effect, key, role, given_to(timeout, env, input))
            await self.append(record.call())
            try:
                result = await in_thread(sandbox.run, command, timeout, env, input)
            except SandboxLostError as error:
                await self._replace(error, [record.lost(error)], is_last=replacements == REPLACEMENTS_MAX)
                if not record.is_repeatable:
                    raise
            except Exception as error:
                await self.append(record.failed(error))
                raise
            else:
                log = await self._transport.send(artifact.put(record.log(result), LOG_TYPE))
                await self.append(record.ended(result, log.sha256, log.size))
                return record.run(result, log.sha256)
        raise AssertionError("the last attempt returns or raises")

    async def suspend(self, reason: str | None = None) -> None:
        """Keep the sandbox without running anything; the next ``run`` lets it go on."""
        placement, sandbox = self._present()
        await in_thread(sandbox.suspend)
        await self.append(placement.suspended(sandbox, reason))

    async def leave(self, reason: str | None = None) -> None:
        """Close the sandbox, if there is one, and say that it was released."""
        if self._placement is None or self._placement.sandbox is None:
            return
        sandbox = self._placement.sandbox
        problem = await self._close(sandbox)
        await self.append(self._placement.released(sandbox, reason or problem))

    async def _abandon(self) -> None:
        """Close the sandbox of a session that another worker has: nothing more can be said in it."""
        if self._placement is not None and self._placement.sandbox is not None:
            await self._close(self._placement.sandbox)
            self._placement.sandbox = None

    def _left_behind(self) -> Mapping[str, Any] | None:
        """Return the sandbox that a worker before this one has not released."""
        return None

    def _present(self) -> tuple[WorkPlacement, Sandbox]:
        if self._placement is None or self._placement.sandbox is None:
            raise SandboxError(UNPLACED)
        return self._placement, self._placement.sandbox

    async def _replace(self, error: SandboxLostError, before: list[dict[str, Any]], *, is_last: bool) -> None:
        """Say that the sandbox is lost, and open another one; after the last, raise the error instead."""
        placement, sandbox = self._present()
        lost = [*before, placement.lost(sandbox, error)]
        await self._close(sandbox)
        if is_last:
            await self.append(lost)
            raise error
        await self._open(placement, lost, sandbox.id)

    async def _resume(self, placement: WorkPlacement, sandbox: Sandbox) -> None:
        if placement.is_suspended:
            await in_thread(sandbox.resume)
            await self.append(placement.ready(sandbox))

    async def _open(
        self, placement: WorkPlacement, before: list[dict[str, Any]], retry_of: str | None
    ) -> Sandbox:
        self._placement = placement
        spec = placement.next_spec()
        await self.append([*before, placement.requested(spec, retry_of)])
        try:
            opened = await in_thread(placement.open, spec, unwanted=Sandbox.close)
        except BaseException as error:
            await self.append(placement.failed(spec, error))
            raise
        try:
            await self.append(placement.ready(opened))
        except BaseException:
            await self._close(opened)
            placement.sandbox = None
            raise
        return opened

    async def _close(self, sandbox: Sandbox) -> str | None:
        """Close a sandbox, and return why that failed: the work does not end with it."""
        try:
            await in_thread(sandbox.close)
        except SandboxError as error:
            _LOG.warning("the sandbox %s could not be closed: %s", sandbox.id, error)
            return reason_of(error)
        return None
