"""The cases of the suite, and the list of all."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from durable_sessions.sandbox import (
    Sandbox,
    SandboxClosedError,
    SandboxLostError,
    SandboxPathError,
    SandboxUnsupportedError,
)
from durable_sessions.testing.sandbox_suite.harness import SandboxCase, SandboxTrial, require, required_error

ALL_BYTES = bytes(range(256))
OUTPUT_BYTES = 10_000
SHORT_SECONDS = 2.0
"""Enough for a command to begin on a busy machine."""


def outputs(trial: SandboxTrial) -> None:
    """A command's two outputs are told apart, and what it took is told."""
    result = trial.open().run("echo out; echo err >&2")
    require(result.stdout == "out\n", f"the output is {result.stdout!r}")
    require(result.stderr == "err\n", f"the error output is {result.stderr!r}")
    require(result.exit_code == 0 and result.seconds > 0, f"it ended with {result}")
    require(not result.truncated and not result.timed_out, f"it ended with {result}")


def exit_codes(trial: SandboxTrial) -> None:
    """Exit codes are those of the shell, also for signals and for what is no command."""
    sandbox = trial.open()
    commands = {
        "true": 0,
        "false": 1,
        "exit 3": 3,
        "exit 124": 124,
        "exit 255": 255,
        "no-such-command-here": 127,
        "sh -c 'kill -9 $$'": 137,
    }
    for command, code in commands.items():
        result = sandbox.run(command)
        require(
            result.exit_code == code and not result.timed_out, f"{command!r} ended with {result.exit_code}"
        )


def files(trial: SandboxTrial) -> None:
    """Commands see files that were written, and files of commands can be read; bytes stay as they are."""
    sandbox = trial.open()
    require(sandbox.list() == [], "a new sandbox is not empty")
    sandbox.write("a/b/bytes", ALL_BYTES * 1000)
    require(sandbox.read("a/b/bytes") == ALL_BYTES * 1000, "a file has changed")
    require(sandbox.run("wc -c < a/b/bytes").stdout.strip() == "256000", "a command sees another file")
    sandbox.write("./a/b/bytes", "short")
    require(sandbox.read("a/b/bytes") == b"short", "a file was not overwritten as a whole")
    sandbox.write("empty", b"")
    require(sandbox.read("empty") == b"", "an empty file has bytes")
    sandbox.run("mkdir d; echo 'from a command' > 'd/its file'")
    require(sandbox.read("d/its file") == b"from a command\n", "the file of a command is another")
    sandbox.write(".hidden", "x")
    require(sandbox.list() == [".hidden", "a/", "d/", "empty"], f"the list is {sandbox.list()}")
    require(sandbox.list("d") == ["its file"], f"the list of d is {sandbox.list('d')}")


def missing_files(trial: SandboxTrial) -> None:
    """What is not there, and what is no file or directory, is an error of its own; the sandbox goes on."""
    sandbox = trial.open()
    sandbox.write("file", "x")
    for path in ("missing", "missing/file", "file/below"):
        with required_error(SandboxPathError, f"{path} was read"):
            sandbox.read(path)
    for path in ("missing", "file"):
        with required_error(SandboxPathError, f"{path} was listed"):
            sandbox.list(path)
    sandbox.run("mkdir folder")
    with required_error(SandboxPathError, "a directory was read"):
        sandbox.read("folder")
    with required_error(SandboxPathError, "a directory was overwritten"):
        sandbox.write("folder", "x")
    require(sandbox.run("true").exit_code == 0, "the sandbox is gone after a wrong path")


def paths(trial: SandboxTrial) -> None:
    """Paths cannot leave the working directory."""
    sandbox = trial.open()
    for path in ("/etc/hostname", "../outside", "a/../../outside", "..", "with\0nul", "x" * 5_000):
        for use in (sandbox.read, sandbox.list, lambda path: sandbox.write(path, "x")):
            with required_error(SandboxPathError, f"{path[:40]!r} was taken"):
                use(path)
    for path in (".", ""):
        with required_error(SandboxPathError, f"{path!r} was taken for a file"):
            sandbox.read(path)


def environment(trial: SandboxTrial) -> None:
    """Commands get the variables they were given, none of the harness's, and never a key of the server."""
    os.environ["SUITE_API_TOKEN"] = "a-secret-of-the-harness"  # noqa: S105
    try:
        sandbox = trial.open(env={"GREETING": "hello", "NAME": "world"})
        said = sandbox.run('echo "$GREETING $NAME"; env', env={"NAME": 'moon\'s "rock"'}).stdout
        require(said.startswith('hello moon\'s "rock"\n'), f"the variables are {said!r}")
        require("a-secret-of-the-harness" not in said, "a secret of the harness is in the environment")
    finally:
        del os.environ["SUITE_API_TOKEN"]
    with required_error(ValueError, "a key of the server was given to a command"):
        sandbox.run("true", env={"DURABLE_SESSIONS_API_KEY": "k"})
    with required_error(ValueError, "a key of the server was given to a sandbox"):
        trial.open(env={"DURABLE_SESSIONS_API_KEY": "k"})


def inputs(trial: SandboxTrial) -> None:
    """A command reads its input to the end; one that does not care does not wait for it."""
    sandbox = trial.open()
    require(sandbox.run("wc -c", input=ALL_BYTES * 4_000).stdout.strip() == "1024000", "the input is another")
    require(sandbox.run("cat", input="héllo").stdout == "héllo", "a text has changed")
    require(sandbox.run("cat", input=b"").stdout == "", "an empty input is none")
    require(sandbox.run("cat").exit_code == 0, "a command without input waits for it")
    require(
        sandbox.run("true", input=ALL_BYTES * 4_000).exit_code == 0,
        "an input that nobody reads is waited for",
    )


def time_out(trial: SandboxTrial) -> None:
    """A command whose time is over dies with everything that it started, also in other sessions.

    What it printed is kept, and the sandbox goes on.
    """
    sandbox = trial.open()
    each = "sh -c 'echo $$ > %s; exec sleep 1000' >/dev/null 2>&1"
    command = f"echo begun; {each % 'group'} & setsid {each % 'session'} & {each % 'foreground'}; echo done"
    result = sandbox.run(command, timeout=SHORT_SECONDS)
    require(result.timed_out and result.exit_code == 124, f"it ended with {result}")
    require(result.stdout == "begun\n", f"the output is {result.stdout!r}")
    for name in ("group", "session", "foreground"):
        require(not _is_alive(sandbox, name), f"the process {name} is alive")
    require(sandbox.run("echo on").stdout == "on\n", "the sandbox does not go on")


def _is_alive(sandbox: Sandbox, name: str) -> bool:
    # A process that is dead and not yet waited for has no command line.
    return "sleep" in sandbox.run(f"tr '\\0' ' ' < /proc/$(cat {name})/cmdline").stdout


def output_bound(trial: SandboxTrial) -> None:
    """Outputs are kept up to the bound, and read to their end all the same."""
    sandbox = trial.open(output_bytes=OUTPUT_BYTES)
    exact = sandbox.run(f"head -c {OUTPUT_BYTES} /dev/zero | tr '\\0' x")
    require(exact.stdout == "x" * OUTPUT_BYTES and not exact.truncated, "an output at the bound was cut")
    more = sandbox.run(f"head -c {OUTPUT_BYTES + 1} /dev/zero | tr '\\0' x")
    require(more.truncated, "an output beyond the bound was not cut")
    much = f"yes {'y' * 500} | head -c 3000000"
    large = sandbox.run(f"echo first; {much}; {much} >&2; echo; echo last")
    require(large.exit_code == 0 and large.truncated, f"it ended with {large.exit_code}")
    for text in (large.stdout, large.stderr):
        require(len(text) < OUTPUT_BYTES + 100, f"{len(text)} bytes were kept")
    require(large.stdout.startswith("first\n"), "the beginning is missing")
    require(large.stdout.endswith("last\n"), "the end is missing")


def several_at_once(trial: SandboxTrial) -> None:
    """Threads may share a sandbox."""
    sandbox = trial.open()
    with ThreadPoolExecutor(4) as pool:
        said = pool.map(lambda number: sandbox.run(f"sleep 0.1; echo {number}").stdout, range(8))
        require(list(said) == [f"{number}\n" for number in range(8)], "commands got each other's outputs")


def apart(trial: SandboxTrial) -> None:
    """Sandboxes do not see each other's files."""
    one, other = trial.open(), trial.open()
    require(one.id != other.id, "two sandboxes have one id")
    one.write("file", "x")
    require(other.list() == [], "a sandbox sees the file of another one")
    one.close()
    require(other.run("true").exit_code == 0, "a sandbox ends with another one")


def close(trial: SandboxTrial) -> None:
    """A sandbox can be closed twice, and does nothing any more."""
    sandbox = trial.open()
    sandbox.close()
    sandbox.close()
    with required_error(SandboxClosedError, "a closed sandbox runs commands"):
        sandbox.run("true")
    with required_error(SandboxClosedError, "a closed sandbox reads files"):
        sandbox.read("file")


def loss(trial: SandboxTrial) -> None:
    """A sandbox that has disappeared says so, whatever is asked of it, and can be closed."""
    sandbox = trial.open()
    sandbox.write("file", "x")
    trial.harness.lose(sandbox)
    uses: dict[str, Callable[[], object]] = {
        "run": lambda: sandbox.run("true"),
        "read": lambda: sandbox.read("file"),
        "write": lambda: sandbox.write("file", "y"),
        "list": sandbox.list,
    }
    for name, use in uses.items():
        with required_error(SandboxLostError, f"{name} does not say that the sandbox is gone"):
            use()
    sandbox.close()


def suspension(trial: SandboxTrial) -> None:
    """A sandbox that was suspended goes on with its files, or says that it cannot be suspended."""
    sandbox = trial.open()
    sandbox.write("file", "x")
    if not trial.harness.can_suspend:
        with required_error(SandboxUnsupportedError, "it says nothing"):
            sandbox.suspend()
        return
    sandbox.suspend()
    sandbox.resume()
    require(sandbox.run("cat file").stdout == "x", "the files are gone")


CASES = [
    SandboxCase(case.__name__, case)
    for case in (
        outputs,
        exit_codes,
        files,
        missing_files,
        paths,
        environment,
        inputs,
        time_out,
        output_bound,
        several_at_once,
        apart,
        close,
        loss,
        suspension,
    )
]
