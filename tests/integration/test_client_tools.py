"""Tools, questions, verdicts and replays through the Python clients."""

import asyncio
import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from durable_sessions import AsyncClient, Client
from durable_sessions.client import AsyncWork, Work
from durable_sessions.client.errors import (
    ClientError,
    ConflictError,
    RecordedFailureError,
    ReplayDivergedError,
    ReplayWriteError,
    SessionLeaseLostError,
)
from durable_sessions.testing import BackgroundServer
from tests.support.waiting import PATIENCE_SECONDS, wait_until

FEATURES = [{"id": "f1", "text": "It adds."}]


class KilledError(BaseException):
    """Stands for the end of the process."""


def results(session: Any) -> list[dict[str, Any]]:
    return [event.data for event in session.events(types="agent.tool_result")]


def test_a_tool_leaves_its_call_before_and_its_result_behind_it(running: BackgroundServer) -> None:
    with Client(running.url, principal="coder") as client:
        session = client.sessions.create("s", goal="Go")
        with client.wake("s") as work:
            with work.tool("edit", {"path": "calc.py"}, effect="idempotent", key="k", id="edit-1") as call:
                assert [one["id"] for one in session.state()["calls"]["open"]] == ["edit-1"]
                call.result("written", effects=[{"kind": "file", "target": "calc.py"}])
                digest = call.diff("--- a\n+++ b\n")
            with work.tool("look", {}) as call:
                pass
            with (
                pytest.raises(ValueError, match="no tests"),
                work.tool("test", {}, effect="read_only") as call,
            ):
                raise ValueError("no tests")
            with pytest.raises(ValueError, match="broken"), work.tool("send", {}):
                raise ValueError("broken pipe")
            with work.tool("test", {}, id="test-1") as call:
                assert (call.id, call.run(lambda word: f"{word}!", "passed")) == ("test-1", "passed!")
            assert not work.checkpoint_due(every=100)
            assert work.checkpoint_due(every=10)
            work.checkpoint(units=1, next="n", instructions="i", git={"commit": "abc", "branch": "main"})
            assert not work.checkpoint_due(every=10)
        written, nothing, failed, unknown, passed = results(session)
        assert written["content"] == [{"type": "text", "text": "written"}]
        assert written["effects"] == [{"kind": "file", "target": "calc.py"}]
        assert nothing["content"] == [{"type": "text", "text": ""}]
        assert (failed["is_error"], failed["content"][0]["text"]) == (True, "ValueError: no tests")
        assert ("outcome" in failed, unknown["outcome"]) == (False, "unknown"), "it may have been sent"
        assert passed["content"][0]["text"] == "passed!"
        state = session.state()
        assert [(one["sha256"], one["role"]) for one in state["artifacts"]] == [(digest, "diff")]
        assert client.artifacts.get(digest) == b"--- a\n+++ b\n"
        assert state["checkpoint"]["git"] == {"commit": "abc", "branch": "main"}
        assert state["calls"]["open"] == []


def test_a_call_that_was_cut_off_is_finished_by_the_next_worker(running: BackgroundServer) -> None:
    with Client(running.url, principal="coder") as client:
        session = client.sessions.create("s", goal="Go")
        with (
            pytest.raises(KilledError),
            client.wake("s") as work,
            work.tool("edit", {"path": "p"}, effect="idempotent", key="k", id="edit-1"),
        ):
            raise KilledError
        with client.wake("s") as work:
            (open_call,) = work.unfinished
            assert open_call["advice"] == "retry"
            with work.retry(open_call) as call:
                call.run(lambda: "written")
        assert len(list(session.events(types="agent.tool_use"))) == 1, "the call is there once"
        assert session.state()["calls"]["open"] == []


def test_questions_verdicts_and_routes(running: BackgroundServer, tmp_path: Path) -> None:
    check = tmp_path / "test_calc.py"
    check.write_text("assert True\n")
    digest = hashlib.sha256(check.read_bytes()).hexdigest()
    features = [{"id": "f1", "text": "t", "files": [{"path": str(check), "sha256": digest}]}]
    with Client(running.url, principal="coder") as coder, Client(running.url, principal="judge") as judge:
        session = coder.sessions.create("s", outcome=features)
        with coder.wake("s") as work:
            work.append({"type": "agent.message", "id": "m", "content": []})
            question = work.ask("Deploy?", about="m", options=["approve", "edit"])
            judge.session("s").decide(question, "edit", "One region.", payload={"region": "eu-1"})
            other = work.ask("Sure?", id="sure")
            assert other.id == "sure"
            judge.session("s").decide("sure", "approve", "yes")
            work.route("judge", reason="verify", see={"last": 1})
        judged = judge.session("s")
        with pytest.raises(ConflictError) as refused:
            judged.evaluate("f1", "pass", evidence=["m"])
        assert refused.value.code == "ratchet"
        judged.evaluate("f1", "pass", evidence=["m"], files=[check], command="pytest -q")
        judged.evaluate("f1", "pass", evidence=["m"], files=[{"path": str(check), "sha256": digest}])
        state = session.state()
        assert (state["done"], state["route"]["see"]) == (True, {"last": 1})
        assert [one["decision"] for one in state["approvals"]["decided"]] == ["edit", "approve"]
        assert session.cancel("changed my mind").status == "terminated"
        assert [one["outcome"] for one in session.events(types="ds.session.ended")] == ["cancelled"]


def test_a_lost_lease_ends_the_block(running: BackgroundServer) -> None:
    with Client(running.url, principal="a") as one, Client(running.url, principal="b") as other:
        one.sessions.create("s", goal="Go")
        with one.wake("s", seconds=5) as work:
            other.wake("s", force=True)
            wait_until(lambda: work.is_lost)
            with pytest.raises(SessionLeaseLostError):
                work.context()


# Replays ----------------------------------------------------------------------------------


class Harness:
    """Asks two tools, the second one with what the first one said."""

    def __init__(self, word: str = "calc.py") -> None:
        self.ran: list[str] = []
        self.seen: list[int] = []
        self._word = word

    def read(self, path: str) -> str:
        self.ran.append(path)
        return f"text of {path}"

    def forward(self, work: Work) -> Work:
        self.seen.append(len(list(work.events(types="agent.*"))))
        with work.tool("read", {"path": self._word}) as call:
            text = call.run(self.read, self._word)
        work.fact("read", text)
        self.seen.append(work.state()["event_count"])
        try:
            with work.tool("count", {"text": text}) as call:
                call.run(self.fail)
        except (ZeroDivisionError, RecordedFailureError) as error:
            work.append({"type": "agent.message", "content": str(error).partition(": ")[2] or str(error)})
        with work.tool("patch", {}) as call:
            call.diff("+++ c")
        assert work.context().tokens > 0
        return work

    def fail(self) -> str:
        self.ran.append("fail")
        raise ZeroDivisionError("division by zero")


def test_a_replay_gives_the_recorded_results_and_runs_and_writes_nothing(running: BackgroundServer) -> None:
    live, again = Harness(), Harness()
    with Client(running.url, principal="coder") as client:
        session = client.sessions.create("s", goal="Go")
        session.forward(live)
        before = [event.data for event in session.events()]
        with session.replay() as replay:
            again.forward(replay)
            assert replay.is_complete
            assert replay.release() == replay.lease.offset
            assert replay.renew() == ""
        assert (live.ran, again.ran) == (["calc.py", "fail"], [])
        assert again.seen == live.seen, "what is read is of then"
        said = [one for one in before if one["type"] in ("ds.fact", "agent.message", "ds.artifact")]
        kept = [one for one in replay.appended if one["type"] != "agent.tool_result"]
        for recorded, repeated in zip(said[1:], kept, strict=True):  # the first one is the goal
            assert repeated.items() <= recorded.items()
        with pytest.raises(ReplayDivergedError, match="no further call"):
            replay.tool("more", {})
        for write in (
            lambda: replay.end("failed"),
            replay.fork,
            lambda: replay.recall("q", scope="project:x"),
        ):
            with pytest.raises(ReplayWriteError, match="work on a fork"):
                write()
        assert [event.data for event in session.events()] == before


def test_a_harness_that_does_something_else_is_told(running: BackgroundServer) -> None:
    with Client(running.url, principal="coder") as client:
        session = client.sessions.create("s", goal="Go")
        session.forward(Harness())
        with pytest.raises(ReplayDivergedError, match=r"calls read with .*other.py.*recorded at position"):
            Harness("other.py").forward(session.replay())
        with client.wake("s") as work:
            work.append({"type": "agent.tool_use", "id": "open", "name": "last", "input": {}})
        replay = session.replay()
        Harness().forward(replay)
        assert not replay.is_complete
        with pytest.raises(ReplayDivergedError, match="has no result"):
            replay.tool("last", {})
        assert client.sessions.create("empty", goal="Go").replay().is_complete


# With an event loop -----------------------------------------------------------------------


async def said(word: str) -> str:
    return f"{word}!"


async def harness(work: AsyncWork) -> str:
    async with work.tool("say", {"word": "go"}, effect="none") as call:
        text = await call.run(said, "go")
    async with work.tool("patch", {}, id="patch-1") as call:
        await call.result("patched")
        await call.diff(b"+++ c")
    async with work.tool("look", {}):
        pass
    with pytest.raises(ValueError, match="no"):
        async with work.tool("fail", {}):
            raise ValueError("no")
    await work.context()
    return f"{text} {[event.type async for event in work.events(types='agent.message')]}"


@pytest.mark.anyio
async def test_the_same_with_an_event_loop(running: BackgroundServer, tmp_path: Path) -> None:
    async with (
        AsyncClient(running.url, principal="coder") as client,
        AsyncClient(running.url, principal="judge") as judge,
    ):
        session = await client.sessions.create("s", goal="Go", outcome=FEATURES)
        async with await client.wake("s") as work:
            live = await harness(work)
            assert await work.checkpoint_due(every=5)
            question = await work.ask("Deploy?")
        await judge.session("s").decide(question, "approve", "fine")
        with pytest.raises(KilledError):
            async with await client.wake("s") as work, work.tool("edit", {}, effect="none"):
                raise KilledError
        async with await client.wake("s") as work:
            (open_call,) = work.unfinished
            async with work.retry(open_call) as call:
                await call.result("written")
        before = [event.data async for event in session.events()]
        async with await session.replay() as replay:
            assert await harness(replay) == live
            assert (await replay.state())["event_count"] == replay.position
            assert not replay.is_complete
            assert (await replay.release(), await replay.renew()) == (replay.lease.offset, "")
            with pytest.raises(ReplayWriteError):
                await replay.end("failed")
        assert [event.data async for event in session.events()] == before
        check = tmp_path / "t.py"
        check.write_text("")
        await judge.session("s").evaluate("f1", "pass", evidence=["patch-1"], files=[check])
        assert (await session.state())["done"]
        assert (await session.cancel()).status == "terminated"


async def waiting_in(work: AsyncWork) -> None:
    async with work:
        await asyncio.Event().wait()


async def ending_in(work: AsyncWork) -> str:
    async with work:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
    await asyncio.sleep(0)  # nothing of the lost lease reaches what follows
    return "ended"


async def cancelled_in(work: AsyncWork) -> None:
    async with work:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()  # somebody else wants it to end, too
            raise


@pytest.mark.anyio
async def test_a_lost_lease_cancels_the_block(running: BackgroundServer) -> None:
    async with (
        AsyncClient(running.url, principal="a") as one,
        AsyncClient(running.url, principal="b") as other,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        works = []
        for name in ("waits", "ends", "is cancelled"):
            await one.session(name.replace(" ", "-")).append({"type": "note"})
            works.append(await one.wake(name.replace(" ", "-"), seconds=5))
            await other.wake(name.replace(" ", "-"), force=True)
        blocks = (waiting_in(works[0]), ending_in(works[1]), cancelled_in(works[2]))
        waited, ended, cancelled = await asyncio.gather(*blocks, return_exceptions=True)
        assert isinstance(waited, SessionLeaseLostError)
        assert ended == "ended"
        assert isinstance(cancelled, asyncio.CancelledError), "a cancellation by somebody else is kept"
        assert all(work.is_lost for work in works)
        with pytest.raises(ClientError):
            await works[0].context()
