"""Stands for the SDK of OpenSandbox: the same signatures, with directories and processes of this machine.

Where the SDK is installed, its own models and errors are used, and only ``SandboxSync`` is replaced.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

INSTALLED = importlib.util.find_spec("opensandbox") is not None


class SandboxException(Exception):
    pass


class SandboxApiException(SandboxException):
    def __init__(self, message: str | None = None, status_code: int | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code


class SandboxConnectionException(SandboxException):
    pass


class SandboxUnhealthyException(SandboxException):
    pass


class Members(SimpleNamespace):
    """A model with the members that it was given, and None for all others."""

    def __getattr__(self, name: str) -> Any:
        return None


NAMES: dict[str, dict[str, Any]] = {
    "config.connection_sync": {"ConnectionConfigSync": Members},
    "exceptions": {
        kind.__name__: kind
        for kind in (
            SandboxException,
            SandboxApiException,
            SandboxConnectionException,
            SandboxUnhealthyException,
        )
    },
    "models.execd": {"RunCommandOpts": Members},
    "models.execd_sync": {"ExecutionHandlersSync": Members},
    "models.filesystem": {"WriteEntry": Members, "DirectoryListEntry": Members},
    "models.sandboxes": {"NetworkPolicy": Members},
    "sync.sandbox": {"SandboxSync": None},
}


def install(patch: pytest.MonkeyPatch) -> "type[FakeSandboxSync]":
    """Let imports of ``opensandbox`` find the stand-in, and return the class of its sandboxes."""
    if not INSTALLED:
        for path, members in NAMES.items():
            parts = ["opensandbox", *path.split(".")]
            for length in range(1, len(parts) + 1):
                name = ".".join(parts[:length])
                if name not in sys.modules:
                    patch.setitem(sys.modules, name, ModuleType(name))
                    if length > 1:
                        parent = sys.modules[".".join(parts[: length - 1])]
                        patch.setattr(parent, parts[length - 1], sys.modules[name], raising=False)
            for member, value in members.items():
                patch.setattr(sys.modules[f"opensandbox.{path}"], member, value, raising=False)
    errors = importlib.import_module("opensandbox.exceptions")
    kind = type("SandboxSync", (FakeSandboxSync,), {"errors": errors, "made": []})
    patch.setattr(importlib.import_module("opensandbox.sync.sandbox"), "SandboxSync", kind)
    return kind


class FakeSandboxSync:
    errors: ModuleType
    made: "list[FakeSandboxSync]"

    def __init__(self, folder: Path, given: dict[str, Any]) -> None:
        self.root = folder
        self.given = given
        self.id = f"osb-{folder.name}"
        self.is_gone = False
        self.commands = FakeCommandsSync(self)
        self.files = FakeFilesystemSync(self)

    @classmethod
    def create(
        cls,
        image: Any = None,
        *,
        snapshot_id: str | None = None,
        timeout: timedelta | None = timedelta(minutes=10),
        ready_timeout: timedelta = timedelta(seconds=30),
        env: dict[str, str] | None = None,
        metadata: dict[str, str] | None = None,
        resource: dict[str, str] | None = None,
        resource_requests: dict[str, str] | None = None,
        platform: Any = None,
        network_policy: Any = None,
        credential_proxy: Any = None,
        extensions: dict[str, str] | None = None,
        secure_access: bool = False,
        entrypoint: list[str] | None = None,
        volumes: Any = None,
        connection_config: Any = None,
        health_check: Any = None,
        health_check_polling_interval: timedelta = timedelta(milliseconds=200),
        skip_health_check: bool = False,
        lifecycle: Any = None,
    ) -> "FakeSandboxSync":
        if image == "no-such-image":
            raise cls.errors.SandboxApiException("no such image", status_code=400)
        given = {"image": image, "timeout": timeout, "env": env, "metadata": metadata}
        given |= {"network_policy": network_policy, "connection_config": connection_config}
        made = cls(Path(tempfile.mkdtemp()), given)
        cls.made.append(made)
        return made

    @classmethod
    def resume(
        cls,
        sandbox_id: str,
        connection_config: Any = None,
        health_check: Any = None,
        resume_timeout: timedelta = timedelta(seconds=30),
        health_check_polling_interval: timedelta = timedelta(milliseconds=200),
        skip_health_check: bool = False,
    ) -> "FakeSandboxSync":
        return next(one for one in cls.made if one.id == sandbox_id)

    def pause(self) -> None:
        self.require_there()

    def destroy(self) -> None:
        self.require_there()
        self.is_gone = True
        shutil.rmtree(self.root, ignore_errors=True)

    def is_healthy(self) -> bool:
        return not self.is_gone

    def require_there(self) -> None:
        if self.is_gone:
            raise self.errors.SandboxApiException("sandbox not found", status_code=404)

    def whole(self, path: str) -> Path:
        assert path.startswith("/")
        return Path(path) if path.startswith("/tmp/ds-input-") else self.root / path.lstrip("/")


class FakeCommandsSync:
    def __init__(self, sandbox: FakeSandboxSync) -> None:
        self._sandbox = sandbox

    def run(self, command: str | list[str], *, opts: Any = None, handlers: Any = None) -> Any:
        self._sandbox.require_there()
        where = opts.working_directory
        process = subprocess.Popen(
            ["/bin/sh", "-c", str(command)],
            cwd=self._sandbox.root if where is None else self._sandbox.whole(where),
            env={"PATH": os.environ["PATH"], **(opts.envs or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        told = (None, None) if handlers is None else (handlers.on_stdout, handlers.on_stderr)
        threads = [
            threading.Thread(target=_tell, args=(pipe, one))
            for pipe, one in zip((process.stdout, process.stderr), told, strict=True)
        ]
        for thread in threads:
            thread.start()
        try:
            code = process.wait(opts.timeout.total_seconds())
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        for thread in threads:
            thread.join()
        return SimpleNamespace(exit_code=code if code >= 0 else 128 - code)


def _tell(pipe: Any, told: Callable[[Any], None] | None) -> None:
    with pipe:
        for line in pipe:  # the service sends lines
            if told is not None:
                told(SimpleNamespace(text=line.decode(errors="replace")))


class FakeFilesystemSync:
    def __init__(self, sandbox: FakeSandboxSync) -> None:
        self._sandbox = sandbox

    def _refused(self, path: str) -> Exception:
        error: Exception = self._sandbox.errors.SandboxApiException(f"{path}: not so", status_code=404)
        return error

    def get_file_info(self, paths: list[str]) -> dict[str, Any]:
        self._sandbox.require_there()
        try:
            return {path: SimpleNamespace(size=self._sandbox.whole(path).lstat().st_size) for path in paths}
        except OSError:
            raise self._refused(paths[0]) from None

    def read_bytes(
        self,
        path: str,
        *,
        range_header: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> bytes:
        self._sandbox.require_there()
        try:
            return self._sandbox.whole(path).read_bytes()
        except OSError:
            raise self._refused(path) from None

    def write_file(
        self,
        path: str,
        data: Any,
        *,
        encoding: str = "utf-8",
        mode: int = 755,
        owner: str | None = None,
        group: str | None = None,
    ) -> None:
        self._sandbox.require_there()
        try:
            self._sandbox.whole(path).write_bytes(data)
        except OSError:
            raise self._refused(path) from None

    def create_directories(self, entries: list[Any]) -> None:
        self._sandbox.require_there()
        for entry in entries:
            self._sandbox.whole(entry.path).mkdir(parents=True, exist_ok=True)

    def list_directory(self, entry: Any) -> list[Any]:
        self._sandbox.require_there()
        try:
            found = list(self._sandbox.whole(entry.path).iterdir())
        except OSError:
            raise self._refused(entry.path) from None
        return [
            SimpleNamespace(
                path=f"{entry.path}/{one.name}", entry_type="directory" if one.is_dir() else "file"
            )
            for one in found
        ]
