"""What placing a session leaves in it: the sandbox as events, and commands with their results and logs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from durable_sessions.client.tool_record import HARMLESS, Effect, ToolRecord
from durable_sessions.sandbox import Backend, Result, Sandbox, SandboxSpec, backend

REPLACEMENTS_MAX = 3
"""How many sandboxes in a row may be lost under one command."""
LOG_TYPE = "text/plain; charset=utf-8"
_REASON_CHARACTERS_MAX = 4_000
_SHOWN_CHARACTERS_MAX = 16_000
_NAME_CHARACTERS_MAX = 200
RUN = "run"
"""The name of the tool that runs commands."""

Prepare = Callable[[Sandbox], object]
"""Puts into a new sandbox what the work needs, such as a clone of a repository; called for each one."""


class WorkPlacement:
    """Where a session is: a backend, what its sandboxes should be like, and the present one."""

    def __init__(self, where: str | Backend, spec: SandboxSpec | None, prepare: Prepare | None) -> None:
        self._backend = backend(where) if isinstance(where, str) else where
        self._wanted = spec or SandboxSpec()
        self._prepare = prepare
        self._opened = 0
        self.sandbox: Sandbox | None = None
        self.is_suspended = False

    def next_spec(self) -> SandboxSpec:
        """Return the spec of the next sandbox; one that replaces another has an id of its own."""
        self._opened += 1
        return (self._wanted if self._opened == 1 else replace(self._wanted, id=None)).named()

    def open(self, spec: SandboxSpec) -> Sandbox:
        """Open a sandbox and prepare it; this waits for both. If either fails, nothing of it is left."""
        opened = self._backend.open(spec)
        try:
            if self._prepare is not None:
                self._prepare(opened)
        except BaseException:
            opened.close()
            raise
        return opened

    def requested(self, spec: SandboxSpec, retry_of: str | None) -> dict[str, Any]:
        """Return the event before a sandbox is opened."""
        said = self._event(
            str(spec.id), "requested", image=spec.image, workdir=spec.workdir, retry_of=retry_of
        )
        # Values of variables may be secrets; their names tell enough.
        wanted = {"env": sorted(spec.env), "timeout": spec.timeout, "output_bytes": spec.output_bytes}
        return {**said, "spec": {**wanted, "network": spec.network}}

    def ready(self, opened: Sandbox) -> dict[str, Any]:
        """Return the event that says what was opened."""
        self.sandbox, self.is_suspended = opened, False
        return self._event(opened.id, "ready", **opened.described)

    def failed(self, spec: SandboxSpec, error: BaseException) -> dict[str, Any]:
        """Return the event that says why there is no sandbox."""
        return self._event(str(spec.id), "failed", reason=reason_of(error))

    def suspended(self, opened: Sandbox, reason: str | None) -> dict[str, Any]:
        """Return the event that says that the sandbox is kept, and does nothing."""
        self.is_suspended = True
        return self._event(opened.id, "suspended", reason=reason)

    def lost(self, opened: Sandbox, error: BaseException) -> dict[str, Any]:
        """Return the event that says that the sandbox has disappeared."""
        self.sandbox = None
        return self._event(opened.id, "lost", reason=reason_of(error))

    def released(self, opened: Sandbox, reason: str | None) -> dict[str, Any]:
        """Return the event that says that the sandbox was given back."""
        self.sandbox = None
        return self._event(opened.id, "released", reason=reason)

    def _event(self, sandbox: str, status: str, **members: Any) -> dict[str, Any]:
        said = {"type": "ds.sandbox", "sandbox": sandbox, "backend": self._backend.name, "status": status}
        return said | {name: value for name, value in members.items() if value is not None}


def left_behind(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event that says of another worker's sandbox that nobody has it any more."""
    return {
        "type": "ds.sandbox",
        "sandbox": known["sandbox"],
        "backend": known["backend"],
        "status": "lost",
        "reason": "The worker that had it is gone.",
    }


def reason_of(error: BaseException) -> str:
    """Return why something failed, as a text of an event."""
    return (str(error) or type(error).__name__)[:_REASON_CHARACTERS_MAX]


@dataclass(frozen=True, slots=True)
class CommandRun:
    """A command that was run in the sandbox of a session, what it gave, and where the session tells it.

    ``call`` and ``result`` are the ids of its events, ``attached`` that of the event that names its log, and
    ``log`` the SHA-256 of the log, which holds all that was kept of its outputs.
    """

    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    truncated: bool
    timed_out: bool
    sandbox: str
    call: str
    result: str
    attached: str
    log: str


class CommandRecord:
    """One command as events: the call before it runs, then its result and its log."""

    def __init__(
        self,
        command: str,
        sandbox: str,
        effect: Effect | None = None,
        key: str | None = None,
        role: str = "test_log",
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self._command = command
        self._sandbox = sandbox
        self._role = role
        self._tool = ToolRecord(RUN, call_input(command, given or {}), effect, key)

    @property
    def is_repeatable(self) -> bool:
        """Whether running it again does no harm; nothing else is run again blindly."""
        return is_repeatable(self._tool.effect, self._tool.key)

    def call(self) -> dict[str, Any]:
        """Return the event that says what is run, before it is."""
        return {**self._tool.call(), "sandbox": self._sandbox}

    def log(self, result: Result) -> bytes:
        """Return the bytes of the log."""
        return log_of(self._command, result)

    def ended(self, result: Result, digest: str, size: int) -> list[dict[str, Any]]:
        """Return the events that say what came of it."""
        shown = "\n".join(text for text in (result.stdout, result.stderr) if text)
        said = self._result(shown, is_error=result.exit_code != 0)
        said |= {"exit_code": result.exit_code, "seconds": result.seconds, "truncated": result.truncated}
        if result.timed_out:
            said["timed_out"] = True
        refs = [{"rel": "result_of", "id": self._tool.id}]
        return [said, attached(f"{self._tool.id}-log", self._command, self._role, digest, size, refs)]

    def failed(self, error: BaseException) -> dict[str, Any]:
        """Return the result of a command that was not run."""
        return self._result(reason_of(error), is_error=True)

    def lost(self, error: BaseException) -> dict[str, Any]:
        """Return the result of a command under which the sandbox was lost: it may have had its effects."""
        return {**self.failed(error), "outcome": "unknown"}

    def _result(self, text: str, *, is_error: bool) -> dict[str, Any]:
        return {**self._tool.result(shortened(text), is_error=is_error), "sandbox": self._sandbox}

    def run(self, result: Result, digest: str) -> CommandRun:
        """Return what the caller gets."""
        call = self._tool.id
        return CommandRun(
            result.exit_code,
            result.stdout,
            result.stderr,
            result.seconds,
            result.truncated,
            result.timed_out,
            self._sandbox,
            call,
            f"{call}-result",
            f"{call}-log",
            digest,
        )


def is_repeatable(effect: str | None, key: str | None) -> bool:
    """Whether a call with this effect can be run again without harm."""
    return effect in HARMLESS or (effect == "idempotent" and key is not None)


def call_input(command: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input of the call of a command."""
    return {"command": command, **given}


def given_to(
    timeout: float | None, env: Mapping[str, str] | None, data: str | bytes | None
) -> dict[str, Any]:
    """Return what the call of a command says of it, beside the command: names of variables, not values."""
    said = {
        "timeout": timeout,
        "env": sorted(env) if env else None,
        "input_bytes": None if data is None else len(data.encode() if isinstance(data, str) else data),
    }
    return {name: value for name, value in said.items() if value is not None}


def log_of(command: str, result: Result) -> bytes:
    """Return a command, its outputs and its end as one text."""
    parts = [f"$ {command}\n", result.stdout]
    if result.stderr:
        parts.append(f"\n[stderr]\n{result.stderr}")
    how = "timed out" if result.timed_out else f"exit code {result.exit_code}"
    parts.append(f"\n[{how}, {result.seconds} s]\n")
    return "".join(parts).encode()


def attached(
    id: str,  # noqa: A002
    command: str,
    role: str,
    digest: str,
    size: int,
    refs: Iterable[Mapping[str, str]],
) -> dict[str, Any]:
    """Return the event that attaches the log of a command to the session."""
    name = " ".join(command.split())[:_NAME_CHARACTERS_MAX]
    said = {"type": "ds.artifact", "id": id, "sha256": digest, "name": name, "role": role, "bytes": size}
    return {**said, "media_type": LOG_TYPE, "refs": list(refs)}


def shortened(text: str) -> str:
    """Return the beginning and the end of a long text: what a model is shown; the log has the rest."""
    if len(text) <= _SHOWN_CHARACTERS_MAX:
        return text
    half = _SHOWN_CHARACTERS_MAX // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out; see the log ...]\n{text[-half:]}"
