"""What a sandbox should be like, and what a command in it gave."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from durable_sessions.sandbox import bounds
from durable_sessions.sandbox.errors import SandboxBoundError

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_KEYS_PREFIX = "DURABLE_SESSIONS_"


def new_id() -> str:
    """Return an id for a sandbox, which nobody else has."""
    return f"sbx-{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What a sandbox should be like; None leaves it to the backend. Several sandboxes may share a spec.

    ``image`` is an image, or a template of a service. ``network`` says whether commands may reach it.
    ``env`` is what every command finds in its environment. ``output_bytes`` of each of a command's two
    outputs are kept, ``timeout`` is in seconds, for commands that state none. ``lifetime_seconds`` is how
    long a service keeps the sandbox if nobody closes it.
    """

    id: str | None = None
    image: str | None = None
    workdir: str | None = None
    network: bool | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    timeout: float = bounds.TIMEOUT_SECONDS
    output_bytes: int = bounds.OUTPUT_BYTES
    lifetime_seconds: int = bounds.LIFETIME_SECONDS

    def __post_init__(self) -> None:
        if self.id is not None and (not _ID.fullmatch(self.id) or len(self.id) > bounds.ID_CHARACTERS_MAX):
            raise ValueError(
                f"{self.id!r} is no id of a sandbox: that has 1 to {bounds.ID_CHARACTERS_MAX} of "
                "A-Z a-z 0-9 _ . and -, and begins with a letter or digit."
            )
        if not 1 <= self.output_bytes <= bounds.OUTPUT_BYTES_MAX:
            raise ValueError(f"output_bytes is 1 to {bounds.OUTPUT_BYTES_MAX}, not {self.output_bytes}.")
        if self.lifetime_seconds < 1:
            raise ValueError(f"lifetime_seconds is at least 1, not {self.lifetime_seconds}.")
        require_timeout(self.timeout)
        require_environment(self.env)

    def named(self) -> "SandboxSpec":
        """Return the spec of one sandbox, with an id of its own unless it states one."""
        return self if self.id is not None else replace(self, id=new_id())


@dataclass(frozen=True, slots=True)
class Result:
    """What a command gave: texts are UTF-8, with U+FFFD in place of bytes that are none.

    ``truncated`` says that only the beginning and the end of an output were kept. A command that was killed
    because its time was over has ``timed_out``, and the exit code 124.
    """

    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    truncated: bool = False
    timed_out: bool = False


TIMED_OUT_EXIT_CODE = 124
"""That of timeout(1)."""


def require_timeout(seconds: float) -> None:
    """Raise ValueError if a command cannot have this time."""
    if not 0 < seconds <= bounds.TIMEOUT_SECONDS_MAX:
        raise ValueError(
            f"A command has more than 0 and at most {bounds.TIMEOUT_SECONDS_MAX:,.0f} seconds, not {seconds}."
        )


def require_command(command: str) -> None:
    """Raise if this cannot be a command."""
    if not command.strip() or "\0" in command:
        raise ValueError("Give a command as a line of the shell, such as 'pytest -q'.")
    if len(command.encode()) > bounds.COMMAND_BYTES_MAX:
        raise SandboxBoundError(
            f"A command has at most {bounds.COMMAND_BYTES_MAX:,} bytes; write a longer one to a file."
        )


def require_environment(env: Mapping[str, str]) -> None:
    """Raise if variables cannot be given to a sandbox: a key of the server never gets into one."""
    for name, value in env.items():
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            raise ValueError(f"{name!r} with this value cannot be a variable of an environment.")
        if name.startswith(_KEYS_PREFIX):
            raise ValueError(
                f"{name} is for the harness: a sandbox never gets a key or an address of the server. "
                "Let the harness append what the command found out."
            )
    size = sum(len(name) + len(value.encode()) for name, value in env.items())
    if size > bounds.ENVIRONMENT_BYTES_MAX:
        raise SandboxBoundError(
            f"The variables of a command have at most {bounds.ENVIRONMENT_BYTES_MAX:,} bytes, not {size:,}; "
            "write the rest to a file."
        )
