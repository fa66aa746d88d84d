"""The two things of this package: a backend opens sandboxes, and a sandbox runs commands."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

from durable_sessions.sandbox import bounds
from durable_sessions.sandbox.errors import (
    SandboxBoundError,
    SandboxClosedError,
    SandboxUnsupportedError,
)
from durable_sessions.sandbox.paths import inner_file, inner_path
from durable_sessions.sandbox.spec import (
    Result,
    SandboxSpec,
    require_command,
    require_environment,
    require_timeout,
)

Names = list[str]
"""Inside the class, ``list`` is its own method."""


class Sandbox(ABC):
    """A place with files in which commands run; threads may share it.

    Paths are relative to the working directory. When the place is gone, every call raises SandboxLostError;
    after ``close``, SandboxClosedError. Backends implement the methods with an underscore, which get what was
    checked here.
    """

    def __init__(self, spec: SandboxSpec) -> None:
        self.spec = spec.named()
        self.id = str(self.spec.id)
        self.is_closed = False

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    @abstractmethod
    def backend(self) -> str:
        """The name of the backend that opened it."""

    @property
    @abstractmethod
    def described(self) -> dict[str, Any]:
        """What the place is, as members of ``ds.sandbox``: image, workdir, network, host, …"""

    def run(
        self,
        command: str,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        input: str | bytes | None = None,  # noqa: A002 - the name that subprocess gave it
    ) -> Result:
        """Run a line of the shell, and return its exit code and what it printed.

        After ``timeout`` seconds the command and all that it started is killed. What it left running in the
        background goes on until the sandbox is closed.
        """
        require_command(command)
        require_environment(env or {})
        seconds = self.spec.timeout if timeout is None else timeout
        require_timeout(seconds)
        given = input.encode() if isinstance(input, str) else input
        if given is not None and len(given) > bounds.INPUT_BYTES_MAX:
            raise SandboxBoundError(
                f"The input of a command has at most {bounds.INPUT_BYTES_MAX:,} bytes, not {len(given):,}; "
                "write it to several files."
            )
        self._require_open()
        try:
            return self._run(command, seconds, {**self.spec.env, **(env or {})}, given)
        except SandboxClosedError:
            raise
        except Exception:
            self._require_open()  # closed meanwhile: that says more than what it broke
            raise

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        inner = inner_file(path)
        self._require_open()
        return self._read(inner)

    def write(self, path: str, data: str | bytes) -> None:
        """Write a file, and make the directories above it."""
        inner = inner_file(path)
        content = data.encode() if isinstance(data, str) else bytes(data)
        require_file_size(path, len(content))
        self._require_open()
        self._write(inner, content)

    def list(self, path: str = ".") -> Names:
        """Return the names in a directory, sorted; those of directories end with a slash."""
        inner = inner_path(path)
        self._require_open()
        found = sorted(self._list(inner))
        if len(found) > bounds.LIST_ENTRIES_MAX:
            raise SandboxBoundError(
                f"{path} has {len(found):,} entries, and at most {bounds.LIST_ENTRIES_MAX:,} are listed; "
                "let a command look for what you need."
            )
        return found

    def suspend(self) -> None:
        """Stop everything in the sandbox and keep it, if the backend can; ``resume`` lets it go on."""
        self._require_open()
        self._suspend()

    def resume(self) -> None:
        """Let a sandbox that was suspended go on."""
        self._require_open()
        self._resume()

    def close(self) -> None:
        """Kill what runs in the sandbox, and remove it with its files; again, it does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        self._close()

    def _require_open(self) -> None:
        if self.is_closed:
            raise SandboxClosedError(f"The sandbox {self.id} was closed; open another one.")

    @abstractmethod
    def _run(self, command: str, timeout: float, env: Mapping[str, str], given: bytes | None) -> Result: ...

    @abstractmethod
    def _read(self, path: str) -> bytes: ...

    @abstractmethod
    def _write(self, path: str, content: bytes) -> None: ...

    @abstractmethod
    def _list(self, path: str) -> Names: ...

    @abstractmethod
    def _close(self) -> None: ...

    def _suspend(self) -> None:
        raise SandboxUnsupportedError(f"A sandbox of the backend {self.backend} cannot be suspended.")

    def _resume(self) -> None:
        raise SandboxUnsupportedError(f"A sandbox of the backend {self.backend} cannot be suspended.")


class Backend(Protocol):
    """Opens sandboxes of one kind."""

    @property
    def name(self) -> str:
        """What ``ds.sandbox`` calls it."""
        ...

    def open(self, spec: SandboxSpec) -> Sandbox:
        """Return a new sandbox that is ready; raise SandboxOpenError if there can be none."""
        ...


def require_file_size(path: str, size: int) -> None:
    """Raise SandboxBoundError if a file is too large to be read or written in one piece."""
    if size > bounds.FILE_BYTES_MAX:
        raise SandboxBoundError(
            f"{path} has {size:,} bytes, and a file is read or written up to {bounds.FILE_BYTES_MAX:,}; "
            "let a command split it."
        )


class Stopwatch:
    """Says how many seconds have passed since it was made."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """The seconds so far, in milliseconds."""
        return round(time.monotonic() - self._started, 3)
