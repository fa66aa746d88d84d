"""What only the backend of this machine promises: links lead nowhere, nothing survives, nothing is left."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_sessions.sandbox import (
    SandboxBoundError,
    SandboxClosedError,
    SandboxLostError,
    SandboxOpenError,
    SandboxPathError,
    SandboxSpec,
    backend,
    bounds,
)
from durable_sessions.sandbox.local import LocalBackend, LocalSandbox
from tests.support.waiting import wait_until


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[LocalSandbox]:
    with LocalBackend(tmp_path / "root").open(SandboxSpec()) as opened:
        assert isinstance(opened, LocalSandbox)
        yield opened


def is_alive(pid: str) -> bool:
    try:
        return "sleep" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


def test_links_out_of_the_directory_are_not_followed(sandbox: LocalSandbox, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    sandbox.run(
        f"ln -s {tmp_path}/secret file; ln -s {tmp_path} folder; ln -s ../../.. up; ln -s loop loop; "
        "mkdir in; echo inside > in/file; ln -s in link; mkfifo pipe"
    )
    for path in ("file", "folder/secret", "up/secret", "loop", "pipe"):
        with pytest.raises(SandboxPathError):
            sandbox.read(path)
        with pytest.raises(SandboxPathError):
            sandbox.write(path, "y")
    for path in ("folder", "up", "loop"):
        with pytest.raises(SandboxPathError):
            sandbox.list(path)
    assert (tmp_path / "secret").read_text() == "x"
    assert sandbox.read("link/file") == b"inside\n", "links that stay inside are fine"
    assert sandbox.list("link") == ["file"]
    assert "folder" in sandbox.list(), "a link to a directory is no directory"


def test_what_runs_in_the_background_goes_on_until_the_sandbox_is_closed(sandbox: LocalSandbox) -> None:
    kept = "sleep 1000 & echo $!; setsid sh -c 'echo $$; exec env -i sleep 1000' & sleep 0.2; yes x &"
    result = sandbox.run(kept)
    pids = result.stdout.split()[:2]
    wait_until(lambda: all(is_alive(pid) for pid in pids))
    assert sandbox.run("echo on").stdout == "on\n"
    folder = sandbox.workdir.parent
    sandbox.close()
    assert not any(is_alive(pid) for pid in pids)
    assert not folder.exists()


def test_a_command_ends_when_its_sandbox_is_closed(sandbox: LocalSandbox) -> None:
    closer = threading.Timer(0.5, sandbox.close)
    closer.start()
    with pytest.raises(SandboxClosedError):
        sandbox.run("sleep 1000")
    closer.join()


def test_a_harness_that_dies_leaves_no_process_and_its_directory_is_removed_later(tmp_path: Path) -> None:
    program = (
        "import sys; from durable_sessions.sandbox import backend, SandboxSpec\n"
        "opened = backend('local', root=sys.argv[1]).open(SandboxSpec())\n"
        "print(opened.run('sleep 1000 & echo $!').stdout.strip(), opened.workdir, flush=True)\n"
        "opened.run('sleep 1000')\n"
    )
    harness = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert harness.stdout is not None
    pid, workdir = harness.stdout.readline().split()
    harness.kill()
    harness.communicate()
    wait_until(lambda: not is_alive(pid))
    with LocalBackend(tmp_path).open(SandboxSpec()) as mine:
        assert not Path(workdir).exists()
        with LocalBackend(tmp_path).open(SandboxSpec()):
            assert mine.run("true").exit_code == 0, "the directory of a harness that lives was removed"


def test_a_command_that_kills_its_supervisor_leaves_an_unknown_end(sandbox: LocalSandbox) -> None:
    with pytest.raises(SandboxLostError, match="nobody knows"):
        sandbox.run("kill -9 $PPID; sleep 1000")


def test_commands_have_a_home_of_their_own_and_only_harmless_variables(
    sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "DURABLE_SESSIONS_API_KEY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "hidden")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    lines = sandbox.run("env").stdout.splitlines()
    names = {line.split("=")[0] for line in lines}
    assert "hidden" not in "\n".join(lines)
    assert {"PATH", "HOME", "TMPDIR", "LC_ALL"} <= names
    assert names <= {"PATH", "HOME", "TMPDIR", "LANG", "LANGUAGE", "TZ", "TERM", "PWD", "SHLVL", "_"} | {
        name for name in names if name.startswith(("LC_", "SSL_CERT_", "OLDPWD"))
    }
    home = sandbox.run('cd && pwd && touch "$TMPDIR/x"').stdout.strip()
    assert home.startswith(str(sandbox.workdir.parent))
    assert sandbox.list() == []


def test_what_a_command_protected_is_removed_with_the_sandbox(sandbox: LocalSandbox) -> None:
    sandbox.run("mkdir -p a/b; touch a/b/c; chmod 500 a/b a; chmod 000 a/b/c")
    folder = sandbox.workdir.parent
    sandbox.close()
    assert not folder.exists()


def test_a_loss_is_noticed_by_all_calls(sandbox: LocalSandbox) -> None:
    shutil.rmtree(sandbox.workdir.parent)
    with pytest.raises(SandboxLostError):
        sandbox.run("true")
    with pytest.raises(SandboxLostError):
        sandbox.list()


@pytest.mark.parametrize(
    ("members", "word"),
    [({"image": "x"}, "image"), ({"network": False}, "network"), ({"workdir": "/"}, "workdir")],
)
def test_what_it_cannot_give_is_refused(members: dict[str, object], word: str) -> None:
    with pytest.raises(SandboxOpenError, match=word):
        backend("local").open(SandboxSpec(**members))  # type: ignore[arg-type]


def test_where_no_directory_can_be_made_nothing_is_opened(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SandboxOpenError, match="No directory"):
        LocalBackend(tmp_path / "file").open(SandboxSpec())


def test_every_bound_holds_at_it_and_not_beyond(
    sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "true " + "x" * (bounds.COMMAND_BYTES_MAX - 5)
    assert sandbox.run(command).exit_code == 0
    with pytest.raises(SandboxBoundError, match="bytes"):
        sandbox.run(command + "x")
    value = "x" * (bounds.ENVIRONMENT_BYTES_MAX - 1)
    assert sandbox.run("true", env={"X": value}).exit_code == 0
    with pytest.raises(SandboxBoundError, match="variables"):
        sandbox.run("true", env={"X": value + "x"})
    for name in ("INPUT_BYTES_MAX", "FILE_BYTES_MAX", "LIST_ENTRIES_MAX"):
        monkeypatch.setattr(bounds, name, 3)
    assert sandbox.run("cat", input="abc").stdout == "abc"
    with pytest.raises(SandboxBoundError, match="input"):
        sandbox.run("cat", input="abcd")
    sandbox.write("f", "abc")
    assert sandbox.read("f") == b"abc"
    with pytest.raises(SandboxBoundError, match="f has 4 bytes"):
        sandbox.write("f", "abcd")
    sandbox.run("printf abcd > f; touch g h")
    with pytest.raises(SandboxBoundError, match="f has 4 bytes"):
        sandbox.read("f")
    assert sandbox.list() == ["f", "g", "h"]
    sandbox.run("touch i")
    with pytest.raises(SandboxBoundError, match="4 entries"):
        sandbox.list()
    with pytest.raises(SandboxPathError, match="bytes"):
        sandbox.read("x" * (bounds.PATH_BYTES_MAX + 1))


@pytest.mark.parametrize(
    "members",
    [
        {"id": ""},
        {"id": "-x"},
        {"id": "x" * (bounds.ID_CHARACTERS_MAX + 1)},
        {"output_bytes": 0},
        {"output_bytes": bounds.OUTPUT_BYTES_MAX + 1},
        {"timeout": 0},
        {"timeout": bounds.TIMEOUT_SECONDS_MAX + 1},
        {"lifetime_seconds": 0},
        {"env": {"A=B": "x"}},
        {"env": {"A": "\0"}},
    ],
)
def test_specs_that_cannot_be_are_refused(members: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"id of a sandbox|is at least|is 1 to|seconds|variable"):
        SandboxSpec(**members)  # type: ignore[arg-type]


def test_specs_at_the_bounds_are_fine() -> None:
    spec = SandboxSpec(
        id="x" * bounds.ID_CHARACTERS_MAX,
        output_bytes=bounds.OUTPUT_BYTES_MAX,
        timeout=bounds.TIMEOUT_SECONDS_MAX,
    )
    assert spec.named() is spec


def test_sandboxes_that_share_a_spec_have_ids_of_their_own(tmp_path: Path) -> None:
    spec = SandboxSpec(timeout=5)
    with LocalBackend(tmp_path).open(spec) as one, LocalBackend(tmp_path).open(spec) as other:
        assert one.id != other.id
        assert one.spec.timeout == other.spec.timeout == 5


@pytest.mark.parametrize("command", ["", "  ", "a\0b"])
def test_what_is_no_command_is_refused(sandbox: LocalSandbox, command: str) -> None:
    with pytest.raises(ValueError, match="line of the shell"):
        sandbox.run(command)


def test_no_descriptor_is_left_open(sandbox: LocalSandbox) -> None:
    sandbox.run("true")
    before = len(os.listdir("/proc/self/fd"))
    for command in ("true", "exit 3", "cat", "sleep 1000 & echo"):
        sandbox.run(command, input="x")
    sandbox.run("sleep 1000", timeout=0.3)
    sandbox.read("f") if "f" in sandbox.list() else sandbox.write("f", "x")
    sandbox.run("kill %1 2>/dev/null; true")
    sandbox.close()
    wait_until(lambda: len(os.listdir("/proc/self/fd")) < before)
