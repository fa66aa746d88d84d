"""Stands for the SDK of E2B: the same signatures, with directories and processes of this machine behind them.

Where the SDK is installed, its own errors and types are used, and only ``Sandbox`` is replaced.
"""

import importlib.util
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

INSTALLED = importlib.util.find_spec("e2b") is not None


class SandboxException(Exception):
    status_code: int | None = None


class TimeoutException(SandboxException):
    pass


class InvalidArgumentException(SandboxException):
    pass


class NotFoundException(SandboxException):
    pass


class FileNotFoundException(NotFoundException):
    pass


class SandboxNotFoundException(NotFoundException):
    pass


class SandboxNotRunningException(TimeoutException):
    pass


class SandboxUnreachableException(TimeoutException):
    pass


class ServiceBusyException(Exception):
    pass


@dataclass
class CommandExitException(SandboxException):
    stderr: Any
    stdout: Any
    exit_code: int
    error: str | None


class FileType(Enum):
    FILE = "file"
    DIR = "dir"
    SYMLINK = "symlink"


@dataclass
class EntryInfo:
    name: str
    type: Any
    path: str
    size: int


def module() -> ModuleType:
    """Return the SDK, or what stands for it."""
    if INSTALLED:
        return importlib.import_module("e2b")
    made = ModuleType("e2b")
    for kind in (
        SandboxException,
        TimeoutException,
        InvalidArgumentException,
        NotFoundException,
        FileNotFoundException,
        SandboxNotFoundException,
        SandboxNotRunningException,
        SandboxUnreachableException,
        ServiceBusyException,
        CommandExitException,
        FileType,
    ):
        setattr(made, kind.__name__, kind)
    return made


def install(patch: pytest.MonkeyPatch) -> "type[FakeSandbox]":
    """Let ``import e2b`` find the stand-in, and return the class of its sandboxes."""
    sdk = module()
    kind = type("Sandbox", (FakeSandbox,), {"sdk": sdk, "made": []})
    patch.setattr(sdk, "Sandbox", kind, raising=False)
    patch.setitem(__import__("sys").modules, "e2b", sdk)
    return kind


class FakeSandbox:
    sdk: ModuleType
    made: "list[FakeSandbox]"

    def __init__(self, folder: Path, given: dict[str, Any]) -> None:
        self.root = folder
        self.given = given
        self.is_gone = False
        self.commands = FakeCommands(self)
        self.files = FakeFilesystem(self)

    @classmethod
    def create(
        cls,
        template: str | None = None,
        timeout: int | None = None,
        metadata: dict[str, str] | None = None,
        envs: dict[str, str] | None = None,
        secure: bool | None = None,
        allow_internet_access: bool | None = None,
        mcp: Any = None,
        network: Any = None,
        iam: Any = None,
        lifecycle: Any = None,
        volume_mounts: Any = None,
        logger: Any = None,
        idempotency_key: str | None = None,
        **opts: Any,
    ) -> "FakeSandbox":
        if template == "no-such-template":
            raise cls.sdk.NotFoundException("template not found")
        given = {"template": template, "timeout": timeout, "metadata": metadata, "envs": envs, **opts}
        made = cls(Path(tempfile.mkdtemp()), {**given, "allow_internet_access": allow_internet_access})
        cls.made.append(made)
        return made

    @property
    def sandbox_id(self) -> str:
        return f"e2b-{self.root.name}"

    def require_there(self) -> None:
        if self.is_gone:
            raise self.sdk.SandboxNotRunningException("The sandbox was killed or reached its timeout")

    def whole(self, path: str) -> Path:
        assert path.startswith("/"), (
            "the service takes relative paths from a directory that we do not rely on"
        )
        return self.root / path.lstrip("/")

    def kill(self, **opts: Any) -> bool:
        was_there, self.is_gone = not self.is_gone, True
        shutil.rmtree(self.root, ignore_errors=True)
        return was_there

    def pause(
        self, keep_memory: bool | None = None, *, mode: str | None = None, strict: bool = False, **opts: Any
    ) -> bool:
        self.require_there()
        return True

    def connect(
        self, timeout: int | None = None, *, on_resume: str = "restore", **opts: Any
    ) -> "FakeSandbox":
        self.require_there()
        return self


class FakeCommands:
    def __init__(self, sandbox: FakeSandbox) -> None:
        self._sandbox = sandbox

    def run(
        self,
        cmd: str,
        background: bool | None = None,
        envs: dict[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
        stdin: bool | None = None,
        timeout: float | None = 60,
        request_timeout: float | None = None,
        *,
        retain_output: bool = True,
    ) -> Any:
        self._sandbox.require_there()
        process = subprocess.Popen(
            ["/bin/sh", "-c", cmd],
            cwd=self._sandbox.root if cwd is None else self._sandbox.whole(cwd),
            env={"PATH": os.environ["PATH"], **(envs or {})},
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        handle = FakeCommandHandle(self._sandbox, process, timeout)
        return handle if background else handle.wait(on_stdout=on_stdout, on_stderr=on_stderr)


class FakeCommandHandle:
    def __init__(
        self, sandbox: FakeSandbox, process: "subprocess.Popen[bytes]", timeout: float | None
    ) -> None:
        self._sandbox = sandbox
        self._process = process
        self._timeout = timeout
        self._input = b""

    def send_stdin(self, data: str | bytes, request_timeout: float | None = None) -> None:
        self._input += data.encode() if isinstance(data, str) else data

    def close_stdin(self, request_timeout: float | None = None) -> None:
        pass

    def kill(self) -> bool:
        self._process.kill()
        return True

    def wait(
        self,
        on_pty: Callable[[bytes], None] | None = None,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
    ) -> Any:
        process = self._process
        assert process.stdout is not None
        assert process.stderr is not None
        threads = [
            threading.Thread(target=_tell, args=(process.stdout, on_stdout), daemon=True),
            threading.Thread(target=_tell, args=(process.stderr, on_stderr), daemon=True),
        ]
        for thread in threads:
            thread.start()
        if process.stdin is not None:
            with suppress(BrokenPipeError), process.stdin:
                process.stdin.write(self._input)
        try:
            code = process.wait(self._timeout)
        except subprocess.TimeoutExpired:
            threading.Thread(target=process.wait, daemon=True).start()
            raise self._sandbox.sdk.TimeoutException("deadline exceeded") from None
        for thread in threads:
            thread.join()
        if code != 0:
            exit_code = code if code > 0 else 128 - code
            raise self._sandbox.sdk.CommandExitException(
                stderr=None, stdout=None, exit_code=exit_code, error=None
            )
        return None


def _tell(pipe: Any, told: Callable[[str], None] | None) -> None:
    with pipe:
        while piece := os.read(pipe.fileno(), 65536):
            if told is not None:
                told(piece.decode(errors="replace"))


class FakeFilesystem:
    def __init__(self, sandbox: FakeSandbox) -> None:
        self._sandbox = sandbox

    def _found(self, path: str) -> Path:
        self._sandbox.require_there()
        whole = self._sandbox.whole(path)
        try:
            whole.lstat()
        except OSError:
            raise self._sandbox.sdk.FileNotFoundException(f"path {path} does not exist") from None
        return whole

    def get_info(self, path: str, user: str | None = None, request_timeout: float | None = None) -> EntryInfo:
        return self._info(self._found(path))

    def _info(self, found: Path) -> EntryInfo:
        kinds = self._sandbox.sdk.FileType
        return EntryInfo(
            found.name, kinds.DIR if found.is_dir() else kinds.FILE, str(found), found.lstat().st_size
        )

    def read(
        self,
        path: str,
        format: str = "text",  # noqa: A002
        user: str | None = None,
        request_timeout: float | None = None,
        gzip: bool = False,
        stream_idle_timeout: float | None = None,
    ) -> Any:
        found = self._found(path)
        if found.is_dir():
            raise self._sandbox.sdk.InvalidArgumentException(f"path {path} is a directory")
        return bytearray(found.read_bytes())

    def write(
        self,
        path: str,
        data: Any,
        user: str | None = None,
        request_timeout: float | None = None,
        gzip: bool = False,
        use_octet_stream: bool | None = None,
        metadata: dict[str, str] | None = None,
    ) -> None:
        self._sandbox.require_there()
        whole = self._sandbox.whole(path)
        if whole.is_dir():
            raise self._sandbox.sdk.InvalidArgumentException(f"path {path} is a directory")
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_bytes(data)

    def list(
        self,
        path: str,
        depth: int | None = 1,
        user: str | None = None,
        request_timeout: float | None = None,
    ) -> Any:
        found = self._found(path)
        if not found.is_dir():
            raise self._sandbox.sdk.InvalidArgumentException(f"path {path} is not a directory")
        return [self._info(one) for one in found.iterdir()]

    def make_dir(self, path: str, user: str | None = None, request_timeout: float | None = None) -> bool:
        self._sandbox.require_there()
        self._sandbox.whole(path).mkdir(parents=True, exist_ok=True)
        return True
