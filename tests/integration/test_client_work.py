"""Work through the Python clients: waking, being fenced, judging, asking, handing over."""

import asyncio
import logging

import pytest

from durable_sessions import AsyncClient, Client
from durable_sessions.client.errors import ConflictError, PermissionDeniedError, SessionLeaseLostError
from durable_sessions.testing import BackgroundServer

FEATURES = [{"id": "f1", "text": "It adds.", "check": "pytest -q"}]


def test_a_run_from_its_goal_to_its_end(running: BackgroundServer, caplog: pytest.LogCaptureFixture) -> None:
    with Client(running.url, principal="coder") as coder, Client(running.url, principal="judge") as judge:
        coder.sessions.create("issue-7", goal="Mend calc", outcome=FEATURES, budget={"tool_calls": 50})
        with coder.wake("issue-7", worker="host-1") as work:
            assert work.lease.state["goal"]["text"] == "Mend calc"
            work.append({"type": "agent.tool_use", "id": "call-1", "name": "edit", "input": {}})
            work.fact("cause", "off by one", kind="decision")
            work.retract("cause")
            work.checkpoint(units=1, next="f1", instructions="Run the tests.", done=["edit"], state={"n": 1})
            stale = work
            with coder.wake("issue-7", worker="host-2") as work:
                assert [one["advice"] for one in work.unfinished] == ["ask"]
                assert work.lease.handoff is not None
                with pytest.raises(SessionLeaseLostError):
                    stale.append({"type": "agent.message", "content": []})
                work.append({"type": "agent.tool_result", "tool_use_id": "call-1"})
                with pytest.raises(PermissionDeniedError, match="cannot judge"):
                    work.evaluate("f1", "pass", evidence=["call-1"])
                judge.session("issue-7").evaluate(
                    "f1", "pass", evidence=["call-1"], command="pytest -q", exit_code=0
                )
                work.route("judge", reason="look at it", needs=["f1"])
                work.ask("Deploy?", about="call-1")
                with pytest.raises(ConflictError):
                    work.append({"type": "agent.message", "content": []})
                request = work.state()["approvals"]["pending"][0]["id"]
                judge.session("issue-7").decide(request, "approve", "fine")
                assert work.renew() > ""
        assert "taken over by another worker" in caplog.text, "the first block ended without its lease"
        session = judge.session("issue-7")
        session.pause("done for today")
        session.resume()
        assert session.state()["done"] is True
        assert session.state(at=1)["outcome"] is None
        assert "Mend calc" in session.handoff()["handoff.md"]
        assert session.end("completed", "all green").status == "terminated"


@pytest.mark.anyio
async def test_the_same_with_an_event_loop(running: BackgroundServer) -> None:
    async with AsyncClient(running.url, principal="coder") as client:
        session = await client.sessions.create("s", goal="Go", outcome=FEATURES)
        async with await client.wake("s", seconds=5) as work:
            await work.append({"type": "agent.message", "id": "m", "content": []})
            await work.fact("k", [1, None])
            await work.checkpoint(units=0, next="n", instructions="i")
            first = (await session.state())["lease"]["expires_at"]

            while (await session.state())["lease"]["expires_at"] <= first:
                await asyncio.sleep(0.1)
        state = await session.state()
        assert (state["lease"], state["facts"]["k"]["value"]) == (None, [1, None])
        async with AsyncClient(running.url, principal="judge") as judge:
            await judge.session("s").evaluate("f1", "fail", evidence=["m"])
        await session.end("failed")
        assert (await session.info()).lifecycle == "closed"


def test_what_is_not_a_principal_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="principal"):
        Client("http://127.0.0.1:1", principal="two words")


def test_a_lost_lease_ends_the_renewals_quietly(
    running: BackgroundServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with Client(running.url, principal="a") as one, Client(running.url, principal="b") as other:
        one.session("s").append({"type": "note"})
        with one.wake("s", seconds=5):
            other.wake("s", force=True)
    assert "was not renewed" not in caplog.text
