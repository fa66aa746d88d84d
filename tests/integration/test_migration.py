"""The program of the guide that copies sessions of Managed Agents, killed at every step and run again."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from durable_sessions.client import Client, SessionInfo
from durable_sessions.testing import BackgroundServer, server
from tests.support.walkthrough import ROOT, blocks

GUIDE = ROOT / "docs" / "howto" / "migrate-from-managed-agents.md"
KILLED_AT_EVERY_REQUEST = """\
import os, runpy, sys, traceback
import anthropic.types.beta.sessions
from durable_sessions.client.transport import Transport

send, left = Transport.send, 0

def send_or_die(self, call):
    global left
    if left == 0:
        os._exit(9)
    left -= 1
    return send(self, call)

def run(requests):
    global left
    left = requests
    Transport.send = send_or_die
    try:
        runpy.run_path(sys.argv[1], run_name="__main__")
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)

kills = 0
while True:
    child = os.fork()
    if child == 0:
        run(kills)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 9:
        break
    kills += 1
print("killed", kills, "times")
sys.exit(status)
"""
"""Ends the program before its first request to the target as if it was killed, with nothing flushed; then,
in the next run, before its second; and so on until it comes to its end. Imports are done only once."""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program as the page has it."""
    (text,) = (block.text for block in blocks(GUIDE) if block.file == "copy_sessions.py")
    path = tmp_path / "copy_sessions.py"
    path.write_text(text)
    return path


def run(
    program: Path, source: BackgroundServer, target: BackgroundServer, *before: str
) -> subprocess.CompletedProcess[str]:
    """Run the program from one server to another."""
    return subprocess.run(
        [sys.executable, *before, program],
        check=False,
        capture_output=True,
        text=True,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "src"),
            "ANTHROPIC_BASE_URL": source.url,
            "ANTHROPIC_API_KEY": "none",
            "DURABLE_SESSIONS_URL": target.url,
        },
    )


def fill(client: Client) -> None:
    """Make a session of each kind that is there."""
    said = [
        {"type": "user.message", "content": [{"type": "text", "text": f"Step {number}."}]}
        for number in range(3)
    ]
    client.sessions.create("open", title="Goes on", metadata={"team": "shop"}).append(said)
    client.session("closed").append(said)
    client.session("closed").close()
    client.session("archived").append(said)
    client.session("archived").archive()
    client.sessions.create("empty", title="Not begun")


def states(client: Client, prefix: str = "") -> dict[str, tuple[object, ...]]:
    """Return what must be the same in a copy."""

    def state(info: SessionInfo) -> tuple[object, ...]:
        told = {name: value for name, value in info.metadata.items() if name != "managed_agents_id"}
        ids = [event["id"] for event in client.session(info.id).events()]
        return info.title, told, info.lifecycle, info.event_count, ids

    listed = client.sessions.list(include_archived=True)
    return {info.id.removeprefix(prefix): state(info) for info in listed}


@contextmanager
def servers(folder: Path) -> Iterator[tuple[BackgroundServer, BackgroundServer, Client, Client]]:
    """Two servers and a client of each; the first one has sessions of every kind."""
    with (
        server(folder / "source") as source,
        server(folder / "target") as target,
        Client(source.url) as theirs,
        Client(target.url) as ours,
    ):
        fill(theirs)
        yield source, target, theirs, ours


def test_a_copy_that_is_killed_at_any_request_is_completed_by_the_next_run(
    tmp_path: Path, program: Path
) -> None:
    with servers(tmp_path) as (source, target, theirs, ours):
        done = run(program, source, target, "-c", KILLED_AT_EVERY_REQUEST)
        assert (done.returncode, done.stderr) == (0, "")
        *_, copied, killed = done.stdout.splitlines()
        assert int(killed.split()[1]) >= 8, "there are as many requests as steps"
        assert copied.startswith("All is copied: 4 sessions, ")
        assert done.stdout.count("All is copied") == 1
        assert states(ours, "managed:") == states(theirs)
        again = run(program, source, target)
        assert again.stdout.splitlines()[-1] == "All is copied: 4 sessions, 0 new events."
        theirs.session("closed").archive()
        archived = run(program, source, target)
        assert archived.stdout.splitlines()[-1] == "All is copied: 4 sessions, 0 new events."
        assert ours.session("managed:closed").info().lifecycle == "archived"
        assert states(ours, "managed:") == states(theirs)
        theirs.session("open").append({"type": "user.message", "content": "One more."})
        grown = run(program, source, target)
        assert "managed:open: 1 new events" in grown.stdout
        assert states(ours, "managed:") == states(theirs)


def test_a_server_is_not_copied_onto_itself_and_copies_are_not_copied_back(
    tmp_path: Path, program: Path
) -> None:
    with servers(tmp_path) as (source, target, theirs, ours):
        before = states(theirs)
        refused = run(program, source, source)
        assert refused.returncode == 1
        assert "source and target are one server" in refused.stderr
        assert "Traceback" not in refused.stderr
        assert states(theirs) == before
        first = run(program, source, target)
        assert first.stdout.splitlines()[-1] == "All is copied: 4 sessions, 10 new events."
        copied = states(ours)
        back = run(program, target, source)
        assert back.stdout.splitlines()[-1] == "All is copied: 0 sessions, 0 new events."
        assert (states(theirs), states(ours)) == (before, copied)
