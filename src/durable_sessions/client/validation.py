"""Judging in a clean place: a check runs in a sandbox of the judge, and its verdict says where."""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from durable_sessions.client import artifact, work_calls
from durable_sessions.client.placement import PlacedSession
from durable_sessions.client.placement_record import LOG_TYPE, REPLACEMENTS_MAX, Prepare, attached, log_of
from durable_sessions.client.session import Session
from durable_sessions.sandbox import (
    Backend,
    Result,
    Sandbox,
    SandboxLostError,
    SandboxPathError,
    SandboxSpec,
)


@dataclass(frozen=True, slots=True)
class Validation:
    """A verdict, what the check gave, and where the session tells it.

    ``evaluation`` is the id of ``ds.evaluation``, ``log`` the SHA-256 of what the check printed.
    """

    verdict: str
    result: Result
    sandbox: str
    evaluation: str
    log: str


class FeatureCheck:
    """The check of a feature: its command, and the files that must be as they were agreed."""

    def __init__(
        self,
        state: Mapping[str, Any],
        feature: str | None,
        command: str | None,
        evidence: Iterable[str],
    ) -> None:
        outcome = state["outcome"] or {"features": []}
        known: Mapping[str, Any] = next((one for one in outcome["features"] if one["id"] == feature), {})
        self.feature = feature
        chosen = command or known.get("check")
        if not chosen:
            raise ValueError(f"The feature {feature!r} has no check; give a command.")
        self.command: str = chosen
        self._evidence = list(evidence)
        self._agreed = {one["path"]: one["sha256"] for one in known.get("files") or []}
        self._id = f"check_{secrets.token_hex(12)}"

    def run(self, sandbox: Sandbox, timeout: float | None) -> tuple[Result, dict[str, str]]:
        """Run the check, and return what it gave and the digests of the files; this waits."""
        result = sandbox.run(self.command, timeout)
        return result, {path: _digest(sandbox, path) for path in self._agreed}

    def events(
        self,
        sandbox: str,
        result: Result,
        found: Mapping[str, str],
        digest: str,
        size: int,
        metrics: Callable[[Result], Mapping[str, float]] | None,
    ) -> tuple[list[dict[str, Any]], Validation]:
        """Return the events with the log and the verdict, and what the caller gets.

        A check whose files are not those that were agreed on proves nothing: it fails.
        """
        changed = sorted(path for path, sha256 in self._agreed.items() if found[path] != sha256)
        verdict = "pass" if result.exit_code == 0 and not changed else "fail"
        note = f"Not as agreed: {', '.join(changed)}."[:4_000] if changed else None
        files = [{"path": path, "sha256": sha256} for path, sha256 in found.items() if sha256]
        members = {
            "command": self.command,
            "exit_code": result.exit_code,
            "sandbox": sandbox,
            "files": files or None,
            "note": note,
            "metrics": None if metrics is None else dict(metrics(result)) or None,
        }
        refs = [{"rel": "because", "id": one} for one in self._evidence]
        log = attached(f"{self._id}-log", self.command, "test_log", digest, size, refs)
        evidence = [f"{self._id}-log", *self._evidence]
        judged = work_calls.evaluate(self.feature, verdict, evidence, members)
        return [log, {**judged, "id": self._id}], Validation(verdict, result, sandbox, self._id, digest)


def _digest(sandbox: Sandbox, path: str) -> str:
    """Return the SHA-256 of a file, or nothing if there is none."""
    try:
        return hashlib.sha256(sandbox.read(path)).hexdigest()
    except SandboxPathError:
        return ""


def validated(
    session: Session,
    feature: str | None,
    command: str | None,
    backend: str | Backend,
    spec: SandboxSpec | None,
    prepare: Prepare | None,
    evidence: Iterable[str],
    metrics: Callable[[Result], Mapping[str, float]] | None,
    timeout: float | None,
) -> Validation:
    """Run a check in a fresh sandbox, and append its verdict."""
    check = FeatureCheck(session.state(), feature, command, evidence)
    place = PlacedSession(session.id, session._transport, session._cache, session.incarnation)
    place.to(backend, spec, prepare=prepare)
    try:
        for replacements in range(REPLACEMENTS_MAX + 1):
            sandbox = place.sandbox
            try:
                result, found = check.run(sandbox, timeout)
                break
            except SandboxLostError as error:
                place._replace(error, [], is_last=replacements == REPLACEMENTS_MAX)
    finally:
        place.leave()
    log = session._transport.send(artifact.put(log_of(check.command, result), LOG_TYPE))
    events, validation = check.events(sandbox.id, result, found, log.sha256, log.size, metrics)
    place.append(events)
    return validation
