"""Memory by the Python client and by the command line."""

from collections.abc import Sequence

import pytest

from durable_sessions import AsyncClient, Client
from durable_sessions.client.errors import ClientError
from durable_sessions.testing import BackgroundServer
from tests.support.commands import Commands

SCOPE = "project:calc"


class Reverse:
    """An index of one's own: it has seen the log, and finds every write, the newest first."""

    name = "reverse"

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: list[str] = []

    def follow(self, scope: str, position: int) -> int:
        for record in self._client.memory.log(scope, start=position):
            if record["type"] == "written":
                self._known.insert(0, record["id"])
            position = record["position"] + 1
        return position

    def search(self, scope: str, query: str, limit: int) -> Sequence[str]:
        return self._known


def test_a_later_session_finds_the_failure_of_an_earlier_one(sdk: Client) -> None:
    first = sdk.sessions.create("first")
    first.append({"type": "agent.tool_result", "id": "call-1", "is_error": True})
    first.remember(
        "calc.sum",
        "range() leaves out the upper bound",
        scope=SCOPE,
        why="failed_attempt",
        because=["call-1"],
        kind="failure_pattern",
        id="w-1",
    )
    sdk.sessions.create("second")
    with sdk.wake("second") as work:
        recalled = work.recall("upper bound", scope=SCOPE, influence="planning")
        assert [entry["key"] for entry in recalled.entries] == ["calc.sum"]
        assert recalled.event["returned"] == [{"id": "w-1", "session": "first"}]
        work.remember("calc.sum", "add one", scope=SCOPE, why="validation", because=[recalled.event.id])
    (entry,) = sdk.memory.get(SCOPE, key="calc.sum")
    assert (entry["value"], entry["supersedes"], entry["session"]) == ("add one", "w-1", "second")
    sdk.memory.roll_back(entry["id"], session=first, reason="wrong", of="second")
    assert [one["id"] for one in sdk.memory.get(SCOPE)] == ["w-1"]
    assert [one["value"] for one in sdk.memory.get(SCOPE, at=3)] == ["add one"]
    assert [one["type"] for one in sdk.memory.log(SCOPE)] == ["written", "read", "written", "rolled_back"]
    assert [one["scope"] for one in sdk.memory.scopes()] == [SCOPE]


def test_a_backend_is_an_index_and_never_the_truth(sdk: Client) -> None:
    session = sdk.sessions.create("s")
    session.append({"type": "note", "id": "n"})
    for key in ("a", "b", "c"):
        session.remember(key, key, scope=SCOPE, why="state", because=["n"], id=f"w-{key}")
    backend = Reverse(sdk)
    assert backend.follow(SCOPE, 0) == 3
    sdk.memory.roll_back("w-b", session=session, reason="no")
    recalled = session.recall("anything", scope=SCOPE, backend=backend)
    assert [entry["key"] for entry in recalled.entries] == ["c", "a"]
    assert (recalled.event["backend"], recalled.event["at"]) == ("reverse", 4)
    assert [one["reads"] for one in sdk.memory.get(SCOPE)] == [1, 1]


@pytest.mark.anyio
async def test_the_async_client_does_the_same(running: BackgroundServer) -> None:
    async with AsyncClient(running.url) as client:
        session = await client.sessions.create("s")
        await session.append({"type": "note", "id": "n"})
        await session.remember("k", 1, scope=SCOPE, why="state", because=["n"], id="w")
        recalled = await session.recall(scope=SCOPE, key="k")
        assert [entry["value"] for entry in recalled.entries] == [1]
        await client.memory.roll_back("w", session=session, reason="no")
        assert await client.memory.get(SCOPE) == []
        assert len(await client.memory.log(SCOPE)) == 3
        assert [one["entries"] async for one in client.memory.scopes()] == [0]
        with pytest.raises(ClientError):
            await session.remember("k", 1, scope=SCOPE, why="state", because=[])


def test_the_command_line_reads_and_takes_back(running: BackgroundServer, sdk: Client) -> None:
    session = sdk.sessions.create("s")
    session.append({"type": "note", "id": "n"})
    session.remember("sum", "off by one", scope=SCOPE, why="tool_result", because=["n"], id="w-1")
    session.remember("sum", "fixed", scope=SCOPE, why="validation", because=["n"], id="w-2")
    ds = Commands(running.url)
    assert '"fixed"' in ds.run("memory", "get", SCOPE).stdout
    assert ds.json("memory", "get", SCOPE, "--key", "sum", "--at", "1")["value"] == "off by one"
    assert "w-2" in ds.run("memory", "get", SCOPE, "-q", "fixed").stdout
    ds.run("memory", "roll-back", "s", "w-2", "--reason", "wrong")
    assert '"off by one"' in ds.run("memory", "get", SCOPE).stdout
    kinds = [line["type"] for line in ds.lines("memory", "log", SCOPE, "--json")]
    assert kinds == ["written", "written", "rolled_back"]
    assert "rolled_back" in ds.run("memory", "log", SCOPE, "--from", "2").stdout
    assert SCOPE in ds.run("memory", "scopes").stdout
    assert ds.run("memory", "get", "project:none").stdout == ""
    ds.run("memory", "get", "nonsense", status=2)


def test_the_command_line_recalls_and_remembers(running: BackgroundServer, sdk: Client) -> None:
    session = sdk.sessions.create("s")
    session.append({"type": "note", "id": "n"})
    ds = Commands(running.url)
    learned = (
        "memory",
        "remember",
        "s",
        SCOPE,
        "sum=off by one",
        "--why",
        "failed_attempt",
        "--because",
        "n",
    )
    sure = ("--kind", "failure_pattern", "--confidence", "0.5", "--id", "w-1")
    assert ds.json(*learned, *sure)["session"] == "s"
    assert ds.run(*learned, *sure).exit_code == 0, "again, it changes nothing"
    ds.run(
        "memory", "remember", "s", SCOPE, "tries:=3", "--why", "reflection", "--because", "n", "--id", "w-2"
    )
    told = ds.json("memory", "recall", "s", SCOPE, "-q", "off by one", "--influence", "planning")
    (entry,) = told["data"]
    assert (entry["value"], entry["kind"], entry["confidence"]) == ("off by one", "failure_pattern", 0.5)
    assert (told["event"]["influence"], told["event"]["at"]) == ("planning", 2)
    done = ds.run("memory", "recall", "s", SCOPE, "--key", "tries", "--workflow", "nightly")
    assert ("3" in done.stdout, "recorded as " in done.stderr) == (True, True)
    assert ds.json("memory", "recall", "s", SCOPE, "--key", "none")["data"] == []
    *_, last = session.events()
    assert (last["type"], last["key"], last["returned"]) == ("ds.memory.read", "none", [])
    kinds = [line["type"] for line in ds.lines("memory", "log", SCOPE, "--json")]
    assert kinds == ["written", "written", "read", "read", "read"]


def test_the_command_line_wants_evidence_that_is_there(running: BackgroundServer, sdk: Client) -> None:
    sdk.sessions.create("s")
    ds = Commands(running.url)
    learned = ("memory", "remember", "s", SCOPE, "sum=1", "--why", "validation")
    assert "--because" in ds.run(*learned, status=2).stderr
    assert "ds events s" in ds.run(*learned, "--because", "nothing", status=3).stderr
    absent = f"sha256:{'0' * 64}"
    assert "artifact put" in ds.run(*learned, "--because", absent, status=3).stderr
    assert "planning" in ds.run("memory", "recall", "s", SCOPE, "--influence", "planing", status=2).stderr
    assert ds.run("memory", "recall", "none", SCOPE, status=3).stdout == ""
    ds.run("memory", "recall", "s", SCOPE, "-q", "a", "--key", "b", status=2)
