"""Work in a sandbox, for programs without an event loop."""

import logging
from collections.abc import Mapping
from typing import Any

from durable_sessions.client import artifact
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
from durable_sessions.client.session import Session
from durable_sessions.client.tool_record import Effect
from durable_sessions.sandbox import Backend, Sandbox, SandboxError, SandboxLostError, SandboxSpec

_LOG = logging.getLogger(__name__)
UNPLACED = 'The work has no sandbox; open one with to("local").'


class PlacedSession(Session):
    """A session whose commands run in a sandbox, and which tells where they ran."""

    _placement: WorkPlacement | None = None

    def to(
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
        self.leave()
        placement = WorkPlacement(backend, spec, prepare)
        known = self._left_behind()
        before = [] if known is None else [left_behind(known)]
        return self._open(placement, before, None if known is None else str(known["sandbox"]))

    @property
    def sandbox(self) -> Sandbox:
        """The present sandbox; raises SandboxError if there is none."""
        return self._present()[1]

    def run(
        self,
        command: str,
        *,
        timeout: float | None = None,
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
            self._resume(placement, sandbox)
            record = CommandRecord(command, sandbox.id, effect, key, role, given_to(timeout, env, input))
            self.append(record.call())
            try:
                result = sandbox.run(command, timeout, env, input)
            except SandboxLostError as error:
                self._replace(error, [record.lost(error)], is_last=replacements == REPLACEMENTS_MAX)
                if not record.is_repeatable:
                    raise
            except Exception as error:
                self.append(record.failed(error))
                raise
            else:
                log = self._transport.send(artifact.put(record.log(result), LOG_TYPE))
                self.append(record.ended(result, log.sha256, log.size))
                return record.run(result, log.sha256)
        raise AssertionError("the last attempt returns or raises")

    def suspend(self, reason: str | None = None) -> None:
        """Keep the sandbox without running anything; the next ``run`` lets it go on."""
        placement, sandbox = self._present()
        sandbox.suspend()
        self.append(placement.suspended(sandbox, reason))

    def leave(self, reason: str | None = None) -> None:
        """Close the sandbox, if there is one, and say that it was released."""
        if self._placement is None or self._placement.sandbox is None:
            return
        sandbox = self._placement.sandbox
        problem = self._close(sandbox)
        self.append(self._placement.released(sandbox, reason or problem))

    def _left_behind(self) -> Mapping[str, Any] | None:
        """Return the sandbox that a worker before this one has not released."""
        return None

    def _present(self) -> tuple[WorkPlacement, Sandbox]:
        if self._placement is None or self._placement.sandbox is None:
            raise SandboxError(UNPLACED)
        return self._placement, self._placement.sandbox

    def _replace(self, error: SandboxLostError, before: list[dict[str, Any]], *, is_last: bool) -> None:
        """Say that the sandbox is lost, and open another one; after the last, raise the error instead."""
        placement, sandbox = self._present()
        lost = [*before, placement.lost(sandbox, error)]
        self._close(sandbox)
        if is_last:
            self.append(lost)
            raise error
        self._open(placement, lost, sandbox.id)

    def _resume(self, placement: WorkPlacement, sandbox: Sandbox) -> None:
        if placement.is_suspended:
            sandbox.resume()
            self.append(placement.ready(sandbox))

    def _open(self, placement: WorkPlacement, before: list[dict[str, Any]], retry_of: str | None) -> Sandbox:
        self._placement = placement
        spec = placement.next_spec()
        self.append([*before, placement.requested(spec, retry_of)])
        try:
            opened = placement.open(spec)
        except BaseException as error:
            self.append(placement.failed(spec, error))
            raise
        try:
            self.append(placement.ready(opened))
        except BaseException:
            self._close(opened)
            placement.sandbox = None
            raise
        return opened

    def _close(self, sandbox: Sandbox) -> str | None:
        """Close a sandbox, and return why that failed: the work does not end with it."""
        try:
            sandbox.close()
        except SandboxError as error:
            _LOG.warning("the sandbox %s could not be closed: %s", sandbox.id, error)
            return reason_of(error)
        return None
