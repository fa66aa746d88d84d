"""How commands fail: one shape with ``--json``, one prefix without, and exit statuses that agree."""

import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NoReturn

import pytest

from durable_sessions.cli import verify
from durable_sessions.cli.broken_pipe import READER_LEFT
from durable_sessions.cli.command_errors import CommandError
from durable_sessions.errors import BucketError, DurableSessionsError, LogDamagedError
from durable_sessions.log.disk import REAL_DISK
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.cli.conftest import Run

NOBODY = "http://127.0.0.1:1"
DOCUMENTED = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
STATUSES = {
    "usage": 2,
    "wrong_input": 2,
    "not_found": 3,
    "unreachable": 4,
    "denied": 5,
    "conflict": 6,
    "not_started": 127,
    "interrupted": 130,
    "failed": 1,
}


def test_every_type_of_failure_is_documented_with_its_exit_status() -> None:
    classes: list[type[CommandError]] = [CommandError, *CommandError.__subclasses__()]
    assert {"usage": 2, **{one.kind: one.exit_code for one in classes}} == STATUSES
    assert all(f"`{kind}`" in DOCUMENTED for kind in STATUSES)
    assert all(f"| {status} |" in DOCUMENTED for status in (*STATUSES.values(), READER_LEFT))


DATA_COMMANDS = (
    ("verify",),
    ("repair",),
    ("gc",),
    ("flush", "--url", NOBODY),
    ("reindex", "--url", NOBODY),
    ("dump", "log"),
    ("dump", "manifest", "--number", "77"),
    ("dump", "segment", "no/such/object"),
    ("dump", "stream", "no-such-stream"),
)


@pytest.mark.parametrize("command", DATA_COMMANDS, ids=" ".join)
def test_commands_on_a_data_directory_fail_in_the_one_shape(
    run: Run, data: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    release = REAL_DISK.claim(data / "log")
    try:
        ways = (
            ("--data", data),  # in use, or without what is asked for
            ("--data", tmp_path / "none"),
            ("--data", data, "--bucket", "s3://"),
            ("--config", tmp_path / "none.toml"),
            ("--data", data, "--josn"),
        )
        ended = [(run(*command, *way), run(*command, *way, "--json")) for way in ways]
    finally:
        release()
    for plain, told in ended:
        assert plain.status == told.status
        if told.status == 0:
            continue
        assert plain.err.splitlines()[-1].startswith("ds: ") or "\nds: " in f"\n{plain.err}"
        error = json.loads(told.err)["error"]
        assert STATUSES[error["type"]] == error["exit_status"] == told.status
        assert set(error) <= {"type", "message", "exit_status", "code"}
        assert not error["message"].startswith(("ds:", "durable-sessions:"))


@pytest.mark.parametrize(
    ("failure", "code", "said"),
    [
        (BucketError(reason="it is away"), "bucket_failed", ""),
        (LogDamagedError(file="1.log", byte=7, problem="a bad checksum"), "log_damaged", "1.log is damaged"),
        (PermissionError(13, "Permission denied", "/data/log"), None, "/data/log: Permission denied"),
    ],
)
def test_a_failure_that_no_command_expects_has_the_same_shape(
    run: Run,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: DurableSessionsError | OSError,
    code: str | None,
    said: str,
) -> None:
    async def fail(*_: object, **__: object) -> NoReturn:
        raise failure

    monkeypatch.setattr(verify, "verify_all", fail)
    plain, told = run("verify", "--data", data), run("verify", "--data", data, "--json")
    assert (plain.status, plain.out) == (1, "")
    assert plain.err.startswith(f"ds: {said}")
    error = json.loads(told.err)["error"]
    assert (error["type"], error["exit_status"], error.get("code")) == ("failed", 1, code)


def test_an_interrupted_command_says_so(run: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(verify, "verify_all", interrupted)
    plain, told = run("verify", "--data", data), run("verify", "--data", data, "--json")
    assert (plain.status, plain.err) == (130, "ds: Interrupted.\n")
    assert (told.status, json.loads(told.err)["error"]["type"]) == (130, "interrupted")


@pytest.mark.parametrize("arguments", [("--help",), ("help", "show"), ("completion", "bash")])
def test_a_reader_that_goes_away_ends_a_command_without_a_word(arguments: tuple[str, ...]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "import sys, time; sys.stdin.buffer.read(0)"], stdin=subprocess.PIPE
    ) as reader:
        assert reader.stdin is not None
        reader.wait(PATIENCE_SECONDS)
        done = subprocess.run(
            [sys.executable, "-m", "durable_sessions", *arguments],
            stdout=reader.stdin,
            stderr=subprocess.PIPE,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
    assert (done.returncode, done.stderr) == (READER_LEFT, b"")


# Something else at the address -----------------------------------------------------------------


@pytest.fixture(params=[(404, b"<html>Not Found</html>"), (301, b""), (200, b"<html>Hello</html>")])
def other(request: pytest.FixtureRequest) -> Iterator[str]:
    """A web server that is not ours."""
    status, body = request.param

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - the names that the library looks for

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    "command",
    [
        ("sessions",),
        ("show", "s"),
        ("append", "s", "--type", "note"),
        ("fork", "s"),
        ("keys", "list"),
        ("flush",),
        ("artifact", "put", __file__),
    ],
    ids=" ".join,
)
def test_a_server_that_is_not_ours_is_no_answer(run: Run, other: str, command: tuple[str, ...]) -> None:
    said = run(*command, "--url", f"{other}/prefix")
    assert said.status == 4
    assert f"{other}/prefix is not the address of a Durable Sessions server" in said.err
    assert f"without a path, such as {other}." in said.err
    assert "<html>" not in said.err
