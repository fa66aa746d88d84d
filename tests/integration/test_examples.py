"""The examples run as they are, against a real server, and do what they say."""

import json
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_sessions import Client
from durable_sessions.client.info import SessionInfo
from durable_sessions.client.session import Session
from durable_sessions.testing import BackgroundServer, server
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.support.walkthrough import ROOT

EXAMPLES = ROOT / "examples"
POINTS = 16
"""At so many points the harness can be killed before its run is over."""

RUN = [
    "user.message",
    "session.status_running",
    "agent.message",
    "agent.tool_use",
    "agent.tool_use",
    "agent.tool_result",
    "agent.tool_result",
    "agent.message",
    "agent.tool_use",
    "agent.tool_result",
    "agent.message",
    "session.status_idle",
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundServer]:
    with server(tmp_path_factory.mktemp("data")) as running:
        yield running


def start(name: str, *arguments: str, columns: int = 120) -> "subprocess.Popen[str]":
    environment = {"PATH": "", "PYTHONPATH": str(ROOT / "src"), "COLUMNS": str(columns), "PYTHONUTF8": "1"}
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / name), *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(name: str, *arguments: str) -> tuple[int, str]:
    process = start(name, *arguments)
    output, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode in (0, -signal.SIGKILL), errors
    return process.returncode, output


def assert_ran_once(client: Client, session: str, world: Path) -> None:
    events = list(client.session(session).events())
    assert [event.type for event in events] == RUN
    calls = [event.id for event in events if event.type == "agent.tool_use"]
    results = [event["tool_use_id"] for event in events if event.type == "agent.tool_result"]
    assert sorted(results) == sorted(calls)
    assert sorted(line.split("\t")[0] for line in world.read_text().splitlines()) == sorted(calls)


def test_every_example_is_in_its_list() -> None:
    text = (EXAMPLES / "README.md").read_text()
    for file in EXAMPLES.glob("*.py"):
        assert f"python examples/{file.name}" in text
    assert "sh examples/ralph_loop.sh" in text


def test_the_loop_of_files_ends_with_verdicts_of_the_judge(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ds").write_text(f'#!/bin/sh\nexec {sys.executable} -m durable_sessions "$@"\n')
    (programs / "ds").chmod(0o755)
    with server(tmp_path / "data") as running, Client(running.url) as client:
        done = subprocess.run(
            ["sh", str(EXAMPLES / "ralph_loop.sh"), "loop", str(tmp_path / "work")],
            env={
                "PATH": f"{programs}:/usr/bin:/bin",
                "PYTHONPATH": str(ROOT / "src"),
                "DURABLE_SESSIONS_URL": running.url,
                "PYTHONUTF8": "1",
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        state = client.session("loop").state()
    assert (state["done"], state["epoch"], state["checkpoints"]) == (True, 2, 2)
    assert {one["evaluated_by"] for one in state["outcome"]["features"]} == {"judge"}
    assert (tmp_path / "work" / "progress.txt").read_text().count("Made ") >= 1


@pytest.mark.parametrize("point", range(1, POINTS + 1))
def test_a_harness_that_was_killed_goes_on(running: BackgroundServer, tmp_path: Path, point: int) -> None:
    session, world = f"killed-at-{point}", tmp_path / "world"
    common = (session, "--url", running.url, "--world", str(world))
    status, output = run("resumable_harness.py", *common, "--dies-at", str(point))
    assert status == -signal.SIGKILL, output
    status, output = run("resumable_harness.py", *common)
    assert status == 0
    assert "is over, after 12 events" in output
    with Client(running.url) as client:
        assert_ran_once(client, session, world)


def test_a_harness_that_is_not_killed_passes_all_points(running: BackgroundServer, tmp_path: Path) -> None:
    common = ("unharmed", "--url", running.url, "--world", str(tmp_path / "world"))
    assert run("resumable_harness.py", *common, "--dies-at", str(POINTS + 1))[0] == 0


def test_two_harnesses_at_once_do_everything_once(running: BackgroundServer, tmp_path: Path) -> None:
    world = tmp_path / "world"
    common = ("two-at-once", "--url", running.url, "--world", str(world))
    both = [start("resumable_harness.py", *common) for _ in range(2)]
    said = [process.communicate(timeout=PATIENCE_SECONDS) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert all("is over, after 12 events" in output for output, _ in said), said
    with Client(running.url) as client:
        assert_ran_once(client, "two-at-once", world)


def test_a_harness_never_takes_an_end_for_what_it_has_not_read(
    running: BackgroundServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = runpy.run_path(str(EXAMPLES / "resumable_harness.py"))["read"]
    whole = Session.info

    def info(self: Session) -> SessionInfo:
        self.append({"type": "note"})  # somebody else is faster
        return whole(self)

    monkeypatch.setattr(Session, "info", info)
    with Client(running.url) as client:
        events, end = read(client, "overtaken")
        assert [event["type"] for event in events] == ["note"]
        assert not list(client.session("overtaken").events(offset=end))


def test_the_dashboard_shows_all_sessions(tmp_path: Path) -> None:
    with server(tmp_path) as running, Client(running.url) as client:
        client.sessions.create("quiet", title="Nothing yet")
        client.session("busy").append(
            [{"type": "session.status_running"}, {"type": "agent.message", "content": "half \x1b[31m done"}]
        )
        client.session("done").append({"type": "note"})
        client.session("done").close()
        _, output = run("live_dashboard.py", "--once", "--url", running.url)
    rows = {line.split()[1]: line for line in output.splitlines() if line.startswith("│")}
    assert rows.keys() == {"quiet", "busy", "done"}
    assert "Nothing yet" in rows["quiet"]
    assert "running" in rows["busy"]
    assert "agent.message half [31m done" in rows["busy"]
    assert "closed" in rows["done"]
    assert "\x1b" not in output


def test_the_dashboard_follows(tmp_path: Path) -> None:
    with server(tmp_path / "data") as running, Client(running.url) as client:
        client.session("busy").append({"type": "agent.message", "content": "first"})
        picture = tmp_path / "picture"
        with picture.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, str(EXAMPLES / "live_dashboard.py"), "--url", running.url],
                env={"PATH": "", "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "120", "TERM": "xterm"}
                | {"FORCE_COLOR": "1", "PYTHONUTF8": "1"},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            wait_for(picture, "first")
            client.session("busy").append({"type": "agent.message", "content": "second"})
            wait_for(picture, "second")
            client.session("newcomer").append({"type": "note"})
            wait_for(picture, "newcomer")
            running.restart()
            client.session("busy").append({"type": "agent.message", "content": "third"})
            wait_for(picture, "third")
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_SECONDS) == 0


def wait_for(file: Path, text: str) -> None:
    wait_until(lambda: text.encode() in file.read_bytes())


def test_context_keeps_calls_and_results_together(running: BackgroundServer) -> None:
    filler = [{"type": "agent.message", "content": f"step {number}"} for number in range(30)]
    call = {"id": "far", "type": "agent.tool_use", "name": "bash", "input": {"command": "make xylophone"}}
    result = {"type": "agent.tool_result", "tool_use_id": "far", "content": "the zither is out of tune"}
    with Client(running.url) as client:
        session = client.sessions.create("music", title="Tune it")
        session.append([*filler, call, *filler, result, *filler])
    for query in ("xylophone", "zither"):
        _, output = run("search_context.py", query, "--url", running.url, "--window", "2")
        assert "## Tune it (music)" in output
        assert '#30 agent.tool_use: bash {"command": "make xylophone"}' in output
        assert "[…]" in output
        assert "#61 agent.tool_result: the zither is out of tune" in output
        assert "No result yet" not in output


def test_context_merges_windows_and_keeps_to_its_budget(running: BackgroundServer) -> None:
    with Client(running.url) as client:
        for name, count in (("short", 3), ("long", 300)):
            client.session(name).append(
                [{"type": "agent.message", "content": f"quokka {number}"} for number in range(count)]
            )
    _, output = run("search_context.py", "quokka", "--url", running.url, "--window", "5", "--budget", "150")
    assert len(output) <= 150
    assert "## short (short)" in output
    assert "## long" not in output
    lines = [line for line in output.splitlines() if line.startswith("#0 ")]
    assert len(lines) == 1, "an event that is near two hits is shown once"


def test_context_says_what_has_no_result_yet(running: BackgroundServer) -> None:
    call = {"id": "waits", "type": "agent.tool_use", "name": "bash", "input": {"command": "sleep narwhal"}}
    with Client(running.url) as client:
        client.session("waiting").append(call)
    _, output = run("search_context.py", "narwhal", "--url", running.url)
    assert json.dumps(call["input"]) in output
    assert "No result yet of: waits" in output


def test_a_later_agent_finds_what_an_earlier_one_learned(running: BackgroundServer) -> None:
    for _ in range(2):
        status, output = run("learned_before.py", "--url", running.url)
        assert status == 0
        assert "recalled: range() leaves out its upper bound" in output
        assert "evidence: calc-1/failed, 3 events around it" in output
    with Client(running.url) as client:
        told = [event for event in client.session("calc-2").events() if event.type == "ds.memory.read"]
        assert [one["session"] for one in told[0]["returned"]] == ["calc-1"]
