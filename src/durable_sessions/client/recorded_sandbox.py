"""What stands for the sandbox of a session that is replayed: nothing is opened, and nothing runs."""

from collections.abc import Mapping
from typing import Any

from durable_sessions.client.errors import RecordedFailureError
from durable_sessions.client.placement_record import RUN, CommandRun, call_input, is_repeatable
from durable_sessions.client.recording import Recording
from durable_sessions.sandbox import (
    Backend,
    Result,
    Sandbox,
    SandboxLostError,
    SandboxSpec,
    SandboxUnsupportedError,
)

_NOTHING = "A replay opens no sandbox and runs nothing; run commands with work.run to get what was recorded."


class RecordedSandbox(Sandbox):
    """Takes files that nobody will read; what commands gave is asked of the replay."""

    def __init__(self, where: str | Backend, spec: SandboxSpec | None) -> None:
        super().__init__(spec or SandboxSpec())
        self._name = where if isinstance(where, str) else where.name

    @property
    def backend(self) -> str:
        """The name of the backend that would have opened it."""
        return self._name

    @property
    def described(self) -> dict[str, Any]:
        """Nothing: there is no place."""
        return {}

    def _run(self, command: str, timeout: float, env: Mapping[str, str], given: bytes | None) -> Result:
        raise SandboxUnsupportedError(_NOTHING)

    def _read(self, path: str) -> bytes:
        raise SandboxUnsupportedError(_NOTHING)

    def _list(self, path: str) -> list[str]:
        raise SandboxUnsupportedError(_NOTHING)

    def _write(self, path: str, content: bytes) -> None:
        """Do nothing."""

    def _suspend(self) -> None:
        """Do nothing."""

    def _close(self) -> None:
        """Do nothing."""


def recorded_run(
    recording: Recording, command: str, given: Mapping[str, Any], effect: str | None, key: str | None
) -> CommandRun:
    """Return what a command gave when it was recorded, without its log.

    One that was repeated after a loss has several calls.
    """
    while True:
        call = recording.tool(RUN, call_input(command, given))
        result = call.recorded
        assert result is not None
        if result.get("outcome") == "unknown":
            if not is_repeatable(effect, key):
                raise SandboxLostError(result.text)
            continue
        if "exit_code" not in result:
            raise RecordedFailureError(result.text)
        return CommandRun(
            int(result["exit_code"]),
            result.text,
            "",
            float(result.get("seconds", 0)),
            bool(result.get("truncated")),
            bool(result.get("timed_out")),
            str(result.get("sandbox")),
            call.id,
            result.id,
            f"{call.id}-log",
            "",
        )
