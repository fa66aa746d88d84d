"""Managed Agents' budget and outcomes on sessions that are worked on: kept, counted, judged like ours."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import local_server
from tests.support.sessions import code
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

Event = dict[str, Any]
CODER = {"Session-Principal": "coder"}
JUDGE = {"Session-Principal": "judge"}
THEIR_DIALECT = {"anthropic-version": "2023-06-01"}


def cents(amount: int) -> Event:
    return {"type": "limit", "max_list_cost": {"amount": str(amount), "currency": "USD"}}


def cost(usd: float) -> Event:
    return {"type": "span.model_request_end", "cost_usd": usd}


async def send(
    api: httpx2.AsyncClient, *events: Event, session: str = "s", **headers: str
) -> httpx2.Response:
    return await api.post(f"/sessions/{session}/events", json={"events": events}, headers=headers)


async def state(api: httpx2.AsyncClient, session: str = "s", **query: Any) -> Any:
    answer = await api.get(f"/sessions/{session}/state", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def types(api: httpx2.AsyncClient, session: str = "s") -> list[str]:
    return [event["type"] for event in (await api.get(f"/sessions/{session}/events")).json()["data"]]


async def test_their_budget_adds_no_event_counts_and_stops(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data") as server:
        async with httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api:
            made = await api.put("/sessions/s", json={"budget": cents(150)})
            assert (made.status_code, made.json()["budget"], made.json()["lifecycle"]) == (
                201,
                cents(150),
                "open",
            )
            assert await types(api) == []
            assert (await state(api))["budget"]["limits"] == {"usd": 1.5}
            assert (await send(api, cost(1), {"type": "agent.message"}, **CODER)).status_code == 204
            assert (await send(api, cost(0.5), **CODER)).status_code == 204
            assert (await types(api))[-2:] == ["ds.budget.tripped", "session.status_idle"]
        await server.restart()
        async with httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api:
            refused = await send(api, {"type": "agent.message"}, **CODER)
            assert (refused.status_code, code(refused)) == (409, "budget_exceeded")
            refused = await send(api, {"type": "agent.message"}, **CODER, **THEIR_DIALECT)
            assert refused.status_code == 400
            details = refused.json()["error"]["details"]
            assert (details["error_code"], details["limit"], details["max"]) == (
                "budget_exceeded",
                "usd",
                1.5,
            )
            # Raising is a judgement, lowering is not; what was so at an offset stays so.
            tail = (await state(api))["event_count"]
            for more in (cents(500), None):
                raised = await api.post("/sessions/s", json={"budget": more}, headers=CODER)
                assert (raised.status_code, code(raised)) == (403, "not_independent")
            raised = await api.post("/sessions/s", json={"budget": cents(500)}, headers=JUDGE)
            assert (raised.status_code, raised.json()["budget"]) == (200, cents(500))
            assert (await types(api))[-2:] == ["session.updated", "session.status_idle"]
            assert (await state(api))["lifecycle"] == "resumed"
            assert (await send(api, {"type": "agent.message"}, **CODER)).status_code == 204
            before = await state(api, at=tail)
            assert (before["budget"]["limits"], before["lifecycle"]) == ({"usd": 1.5}, "paused")
            assert (await state(api, at=0))["budget"]["limits"] == {"usd": 1.5}
            lowered = await api.post("/sessions/s", json={"budget": cents(120)}, headers=CODER)
            assert (lowered.status_code, (await types(api))[-2]) == (200, "ds.budget.tripped")
            # An event of ours sets the same limit, and is shown in their shape.
            await send(api, {"type": "ds.budget.set", "usd": 7}, **JUDGE)
            assert (await api.get("/sessions/s")).json()["budget"] == cents(700)
            await send(api, {"type": "ds.budget.set", "usd": None}, **JUDGE)
            assert (await api.get("/sessions/s")).json()["budget"] is None
            again = await api.post("/sessions/s", json={"budget": cents(120)}, headers=CODER)
            assert (again.json()["budget"], (await state(api))["stops"][0]["kind"]) == (cents(120), "budget")


async def test_a_fork_goes_on_with_their_budget_and_only_a_judge_raises_it(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/s", json={"budget": cents(100)})
    await send(api, cost(0.6), {"type": "agent.message"}, **CODER)
    source = {"Stream-Forked-From": "/v1/sessions/s"}
    assert (await api.put("/sessions/f", headers=source)).json()["budget"] == cents(100)
    assert (await state(api, "f"))["budget"]["used"]["usd"] == 0.6
    refused = await api.put("/sessions/g", json={"budget": cents(200)}, headers=source | CODER)
    assert (refused.status_code, code(refused)) == (403, "not_independent")
    for name, amount, who in (("g", 200, JUDGE), ("h", 70, CODER)):
        made = await api.put(f"/sessions/{name}", json={"budget": cents(amount)}, headers=source | who)
        assert (made.status_code, made.json()["budget"]) == (201, cents(amount))
        assert (await state(api, name))["budget"]["limits"] == {"usd": amount / 100}
        assert (await state(api, name, at=1))["budget"]["limits"] == {"usd": 1}
    await send(api, cost(0.2), session="h", **CODER)
    assert (await types(api, "h"))[-2:] == ["ds.budget.tripped", "session.status_idle"]
    begun = {"session": {"budget": cents(10)}, "events": [cost(1)]}
    assert (await api.post("/sessions/begun/events", json=begun)).status_code == 204
    assert (await state(api, "begun"))["stops"][0]["kind"] == "budget"


async def test_a_fork_lifts_a_limit_of_ours_if_a_judge_makes_it(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/s", json={"budget": {"tool_calls": 5, "tokens": 9}})
    await send(api, {"type": "agent.message"}, **CODER)
    lifted = {"budget": {"tool_calls": None}}
    source = {"Stream-Forked-From": "/v1/sessions/s"}
    refused = await api.put("/sessions/f", json=lifted, headers=source | CODER)
    assert (refused.status_code, code(refused)) == (403, "not_independent")
    assert (await api.put("/sessions/f", json=lifted, headers=source | JUDGE)).status_code == 201
    assert (await state(api, "f"))["budget"]["limits"] == {"tokens": 9}


async def test_limits_of_ours_are_no_property(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/s", json={"budget": {"usd": 5}})
    refused = await api.post("/sessions/s", json={"budget": {"tokens": 5}})
    assert refused.status_code == 400
    assert "ds.budget.set" in refused.json()["error"]["message"]


async def test_their_budget_is_changed_so_often_at_most(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, cost_limits_max=3)
    async with (
        local_server(tmp_path / "data", limits=limits) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
    ):
        await api.put("/sessions/s", json={"budget": cents(100)})
        for amount in (90, 80):
            assert (await api.post("/sessions/s", json={"budget": cents(amount)})).status_code == 200
        refused = await api.post("/sessions/s", json={"budget": cents(70)})
        assert refused.status_code == 400
        assert "cost_limits_max" in refused.json()["error"]["message"]
        assert (await send(api, {"type": "ds.budget.set", "usd": 0.7})).status_code == 204


async def test_their_outcomes_count_unless_a_generator_is_satisfied(api: httpx2.AsyncClient) -> None:
    asked = {
        "type": "user.define_outcome",
        "description": "It works",
        "rubric": {"type": "text", "content": "x"},
    }
    await send(api, asked, {**asked, "outcome_id": "outc_2"})
    first, second = [
        one["outcome_id"] for one in (await api.get("/sessions/s")).json()["outcome_evaluations"]
    ]
    assert ((await state(api))["done"], (await state(api))["outcome"]) == (False, None)
    satisfied = {"type": "span.outcome_evaluation_end", "result": "satisfied", "iteration": 1}
    await send(api, {"type": "agent.message"}, **CODER)
    for name in (first, second):
        await send(api, {**satisfied, "outcome_id": name}, **CODER)
    assert (await state(api))["done"] is False
    await send(api, {**satisfied, "outcome_id": first}, **JUDGE)
    assert (await api.get("/sessions/s")).json()["done"] is False
    await send(api, {**satisfied, "outcome_id": second}, **JUDGE)
    assert ((await state(api))["done"], (await api.get("/sessions/s")).json()["done"]) == (True, True)
    assert [one["id"] for one in (await api.get("/sessions?done=true")).json()["data"]] == ["s"]
    assert (await api.put("/sessions/f", headers={"Stream-Forked-From": "/v1/sessions/s"})).json()["done"]
    # With features of ours, all must pass; a later verdict takes it back.
    await send(api, {"type": "ds.outcome.defined", "features": [{"id": "f1", "text": "t"}]})
    assert (await state(api))["done"] is False
    await send(
        api,
        {"type": "note", "id": "seen"},
        {
            "type": "ds.evaluation",
            "feature": "f1",
            "verdict": "pass",
            "refs": [{"rel": "because", "id": "seen"}],
        },
        **JUDGE,
    )
    assert (await state(api))["done"] is True
    await send(api, {**satisfied, "outcome_id": first, "result": "needs_revision"}, **JUDGE)
    assert ((await state(api))["done"], (await api.get("/sessions/s")).json()["done"]) == (False, False)
