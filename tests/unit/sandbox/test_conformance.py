"""Every backend passes the suite: the real one of this machine, docker, and the services behind stand-ins."""

import importlib
import inspect
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pytest

from durable_sessions.sandbox import Sandbox, SandboxOpenError, SandboxSpec, backend
from durable_sessions.sandbox.docker import DockerBackend
from durable_sessions.sandbox.e2b import E2bSandbox
from durable_sessions.sandbox.local import LocalSandbox
from durable_sessions.sandbox.opensandbox import OpenSandboxSandbox
from durable_sessions.testing import sandbox_suite
from tests.support import fake_e2b, fake_opensandbox
from tests.support.skips import disabled

SUPPORT = Path(__file__).parents[2] / "support"


class LocalHarness(sandbox_suite.SandboxHarness):
    def open(self, spec: SandboxSpec) -> Sandbox:
        return backend("local").open(spec)

    def lose(self, sandbox: Sandbox) -> None:
        assert isinstance(sandbox, LocalSandbox)
        shutil.rmtree(sandbox.workdir)


class DockerHarness(sandbox_suite.SandboxHarness):
    can_suspend: ClassVar[bool] = True

    def __init__(self, program: str) -> None:
        self._program = program

    def open(self, spec: SandboxSpec) -> Sandbox:
        return DockerBackend(self._program).open(spec)

    def lose(self, sandbox: Sandbox) -> None:
        subprocess.run([self._program, "rm", "--force", sandbox.id], check=True, capture_output=True)


class E2bHarness(sandbox_suite.SandboxHarness):
    can_suspend: ClassVar[bool] = True

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        fake_e2b.install(patch)

    def open(self, spec: SandboxSpec) -> Sandbox:
        return backend("e2b", api_key="key-of-the-service").open(spec)

    def lose(self, sandbox: Sandbox) -> None:
        assert isinstance(sandbox, E2bSandbox)
        sandbox._made.kill()


class OpenSandboxHarness(sandbox_suite.SandboxHarness):
    can_suspend: ClassVar[bool] = True

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        fake_opensandbox.install(patch)

    def open(self, spec: SandboxSpec) -> Sandbox:
        return backend("opensandbox", domain="127.0.0.1:1").open(spec)

    def lose(self, sandbox: Sandbox) -> None:
        assert isinstance(sandbox, OpenSandboxSandbox)
        sandbox._made.destroy()


@pytest.fixture
def fake_docker(tmp_path: Path) -> Path:
    """A program that behaves like docker."""
    program = tmp_path / "docker"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {SUPPORT / "fake_docker.py"} {tmp_path} "$@"\n')
    program.chmod(0o755)
    return program


every_case = pytest.mark.parametrize("case", sandbox_suite.CASES, ids=str)


@every_case
def test_local(case: sandbox_suite.SandboxCase) -> None:
    assert case.check(LocalHarness()) is None


@every_case
def test_docker_by_its_command_line(case: sandbox_suite.SandboxCase, fake_docker: Path) -> None:
    assert case.check(DockerHarness(str(fake_docker))) is None


@every_case
def test_e2b_by_its_sdk(case: sandbox_suite.SandboxCase, monkeypatch: pytest.MonkeyPatch) -> None:
    assert case.check(E2bHarness(monkeypatch)) is None


@every_case
def test_opensandbox_by_its_sdk(case: sandbox_suite.SandboxCase, monkeypatch: pytest.MonkeyPatch) -> None:
    assert case.check(OpenSandboxHarness(monkeypatch)) is None


@cache
def daemon_answers() -> bool:
    program = shutil.which("docker")
    if program is None:
        return False
    asked = subprocess.run([program, "info"], capture_output=True, check=False)
    return asked.returncode == 0


@every_case
def test_docker_with_a_daemon(case: sandbox_suite.SandboxCase) -> None:
    if not daemon_answers():
        pytest.skip(disabled("no docker daemon answers", "systemctl start docker"))
    assert case.check(DockerHarness("docker")) is None


@pytest.mark.parametrize(
    ("installed", "package", "pairs"),
    [
        (
            fake_e2b.INSTALLED,
            "e2b",
            [
                (
                    "e2b.sandbox_sync.main.Sandbox",
                    fake_e2b.FakeSandbox,
                    ["create", "kill", "pause", "connect"],
                ),
                ("e2b.sandbox_sync.commands.command.Commands", fake_e2b.FakeCommands, ["run"]),
                (
                    "e2b.sandbox_sync.commands.command_handle.CommandHandle",
                    fake_e2b.FakeCommandHandle,
                    ["wait", "send_stdin", "close_stdin", "kill"],
                ),
                (
                    "e2b.sandbox_sync.filesystem.filesystem.Filesystem",
                    fake_e2b.FakeFilesystem,
                    ["read", "write", "list", "get_info", "make_dir"],
                ),
            ],
        ),
        (
            fake_opensandbox.INSTALLED,
            "opensandbox",
            [
                (
                    "opensandbox.sync.sandbox.SandboxSync",
                    fake_opensandbox.FakeSandboxSync,
                    ["create", "resume", "pause", "destroy", "is_healthy"],
                ),
                (
                    "opensandbox.sync.adapters.command_adapter.CommandsAdapterSync",
                    fake_opensandbox.FakeCommandsSync,
                    ["run"],
                ),
                (
                    "opensandbox.sync.adapters.filesystem_adapter.FilesystemAdapterSync",
                    fake_opensandbox.FakeFilesystemSync,
                    ["read_bytes", "write_file", "create_directories", "list_directory", "get_file_info"],
                ),
            ],
        ),
    ],
)
def test_the_stand_in_has_the_signatures_of_the_sdk(
    installed: bool, package: str, pairs: list[tuple[str, Any, list[str]]]
) -> None:
    if not installed:
        pytest.skip(disabled(f"the SDK {package} is not installed", f".venv/bin/pip install {package}"))
    for path, stand_in, names in pairs:
        where, _, kind = path.rpartition(".")
        real = getattr(importlib.import_module(where), kind)
        for name in names:
            assert shape(getattr(stand_in, name)) == shape(getattr(real, name)), f"{path}.{name}"


def shape(function: Any) -> list[tuple[str, Any]]:
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        function = function.__call__ if not hasattr(function, "__wrapped__") else function.__wrapped__
    found = inspect.signature(function).parameters.values()
    return [(one.name, one.kind) for one in found if one.name != "self"]


@pytest.mark.parametrize("name", ["e2b", "opensandbox"])
def test_without_its_sdk_a_backend_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [one for one in sys.modules if one.split(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SandboxOpenError, match=rf"pip install 'durable-sessions\[{name}\]'"):
        backend(name).open(SandboxSpec())
