"""Sessions full of ``ds.`` events, seen by the SDK: statuses, outcomes, budgets, confirmations in its own."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from anthropic import AsyncAnthropic, BadRequestError
from anthropic.types.beta import BetaManagedAgentsSession

from tests.anthropic.clients import taken
from tests.anthropic.conftest import Account
from tests.anthropic.harness import Event, Harness, says, text

pytestmark = pytest.mark.anyio

FEATURES = [{"id": "f1", "text": "It adds"}, {"id": "f2", "text": "It divides"}]
USD: Any = {"type": "limit", "max_list_cost": {"amount": "200", "currency": "USD"}}
SEEN = [{"rel": "because", "id": "call-1"}]


@pytest.fixture
async def client(account: Account) -> AsyncIterator[AsyncAnthropic]:
    """The SDK as its users have it: types that it does not know pass through."""
    async with AsyncAnthropic(base_url=account.url, api_key=account.key, timeout=12) as client:
        yield client


@pytest.fixture
async def judge(account: Account) -> AsyncIterator[Harness]:
    judge = Harness(account.url, account.new_key("evaluator"))
    yield judge
    await judge.http.aclose()


async def verb(side: Harness, session: str, name: str, **body: Any) -> Any:
    answer = await side.http.post(f"/v1/sessions/{session}/{name}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def seen(client: AsyncAnthropic, session: str) -> list[Any]:
    return [event async for event in client.beta.sessions.events.list(session)]


async def waits(client: AsyncAnthropic, session: str) -> tuple[str, str]:
    """Return the status of a session, and why it waits, as its last event says."""
    found: BetaManagedAgentsSession = await client.beta.sessions.retrieve(session)
    events = [event for event in await seen(client, session) if event.type.startswith("session.status_")]
    reason = getattr(events[-1], "stop_reason", None)
    return found.status, "" if reason is None else reason.type


async def test_the_statuses_of_a_worked_session(client: AsyncAnthropic, harness: Harness) -> None:
    """Wake, pause, resume, release and end, each as their client sees it."""
    session = (await client.beta.sessions.create(agent="a", environment_id="e")).id
    async with await client.beta.sessions.events.stream(session) as stream:
        await verb(harness, session, "wake")
        assert [event.type for event in await taken(stream, 2)] == [
            "ds.lease.claimed",
            "session.status_running",
        ]
        await verb(harness, session, "wake")
        assert [event.type for event in await taken(stream, 1)] == ["ds.lease.claimed"], "running already"
        await harness.append(session, {"type": "ds.session.paused", "reason": "lunch"})
        assert await waits(client, session) == ("idle", "end_turn")
        await harness.append(session, {"type": "ds.session.resumed"})
        assert await waits(client, session) == ("running", "")
        await verb(harness, session, "release", epoch=2)
        assert await waits(client, session) == ("idle", "end_turn")
        await verb(harness, session, "close", outcome="completed")
        assert await waits(client, session) == ("terminated", "")
        types = [event.type for event in await taken(stream, 8)]
    assert types == [
        "ds.session.paused",
        "session.status_idle",
        "ds.session.resumed",
        "session.status_running",
        "ds.lease.released",
        "session.status_idle",
        "ds.session.ended",
        "session.status_terminated",
    ]
    assert len(await seen(client, session)) == 11


async def test_outcomes_of_both_vocabularies(
    client: AsyncAnthropic, harness: Harness, judge: Harness
) -> None:
    session = (await client.beta.sessions.create(agent="a", environment_id="e")).id
    await client.beta.sessions.events.send(
        session,
        events=[
            {
                "type": "user.define_outcome",
                "description": "It is documented",
                "rubric": {"type": "text", "content": "There is a page"},
            }
        ],
    )
    await harness.append(session, {"type": "ds.outcome.defined", "features": FEATURES})
    await harness.append(session, {"type": "agent.tool_use", "id": "call-1", "name": "edit", "input": {}})
    for verdict in ("fail", "pass"):
        await judge.append(
            session, {"type": "ds.evaluation", "feature": "f1", "verdict": verdict, "refs": SEEN}
        )
    await judge.append(session, {"type": "ds.evaluation", "feature": "f2", "verdict": "fail", "refs": SEEN})
    theirs, first, second = (await client.beta.sessions.retrieve(session)).outcome_evaluations
    assert (theirs.description, theirs.result) == ("It is documented", "pending")
    assert (first.outcome_id, first.description, first.result, first.iteration) == (
        "f1",
        "It adds",
        "satisfied",
        2,
    )
    assert (second.outcome_id, second.result, second.iteration) == ("f2", "failed", 1)
    satisfied = {
        "type": "span.outcome_evaluation_end",
        "outcome_id": theirs.outcome_id,
        "result": "satisfied",
    }
    await judge.append(session, {**satisfied, "iteration": 1})
    await judge.append(session, {"type": "ds.evaluation", "feature": "f2", "verdict": "pass", "refs": SEEN})
    results = [one.result for one in (await client.beta.sessions.retrieve(session)).outcome_evaluations]
    assert results == ["satisfied"] * 3
    assert (await harness.get(f"/v1/sessions/{session}"))["done"] is True


async def test_a_budget_stops_and_is_raised(
    client: AsyncAnthropic, account: Account, harness: Harness, judge: Harness
) -> None:
    made = await client.beta.sessions.create(agent="a", environment_id="e", budget=USD)
    assert made.budget is not None
    assert made.budget.max_list_cost.amount == "200"
    session = made.id
    assert await seen(client, session) == []
    await harness.append(session, says("Working"), {"type": "span.model_request_end", "cost_usd": 2.5})
    assert await waits(client, session) == ("idle", "budget_reached")
    refused = await harness.http.post(
        f"/v1/sessions/{session}/events",
        json={"events": [says("More")]},
        headers={"anthropic-version": "2023-06-01"},
    )
    assert (refused.status_code, refused.json()["error"]["details"]["error_code"]) == (400, "budget_exceeded")
    # Theirs are taken while it is stopped, and raising it takes a judge.
    await client.beta.sessions.events.send(
        session, events=[{"type": "user.message", "content": text("Go on")}]
    )
    more: Any = {"type": "limit", "max_list_cost": {"amount": "900", "currency": "USD"}}
    with pytest.raises(Exception, match="needs a key with the role evaluator"):
        await client.beta.sessions.update(session, budget=more)
    judging = AsyncAnthropic(base_url=account.url, api_key=account.new_key("evaluator"), timeout=12)
    async with judging:
        raised = await judging.beta.sessions.update(session, budget=more)
    assert raised.budget is not None
    assert raised.budget.max_list_cost.amount == "900"
    assert await waits(client, session) == ("idle", "end_turn")
    await harness.append(session, says("On"))
    # A limit of ours is shown in their shape.
    ours = (await client.beta.sessions.create(agent="a", environment_id="e")).id
    await harness.append(ours, {"type": "ds.budget.set", "usd": 1.25})
    shown = (await client.beta.sessions.retrieve(ours)).budget
    assert shown is not None
    assert (shown.type, shown.max_list_cost.amount, shown.max_list_cost.currency) == ("limit", "125", "USD")
    odd: Any = {"tokens": 5}
    with pytest.raises(BadRequestError, match="budget"):
        await client.beta.sessions.create(agent="a", environment_id="e", budget=odd)


async def test_approvals_are_confirmations(client: AsyncAnthropic, harness: Harness, judge: Harness) -> None:
    session = (await client.beta.sessions.create(agent="a", environment_id="e")).id
    call: Event = {"type": "agent.tool_use", "id": "call-1", "name": "deploy", "input": {}}
    await harness.append(session, call, {**call, "id": "call-2", "evaluated_permission": "ask"})
    for number, (call_id, decision, result) in enumerate(
        (("call-1", "approve", "allow"), ("call-1", "reject", "deny"))
    ):
        request = f"ask-{number}"
        about = [{"rel": "about", "id": call_id}]
        await harness.append(
            session, {"type": "ds.approval.requested", "id": request, "question": "Deploy?", "refs": about}
        )
        status = (await seen(client, session))[-1]
        assert (status.stop_reason.type, status.stop_reason.event_ids) == ("requires_action", [call_id])
        decided = {
            "type": "ds.approval.decided",
            "request": request,
            "decision": decision,
            "reason": "Friday",
        }
        await judge.append(session, decided)
        confirmation, after = (await seen(client, session))[-2:]
        assert (confirmation.type, confirmation.tool_use_id) == ("user.tool_confirmation", call_id)
        assert confirmation.result == result
        assert confirmation.deny_message == ("Friday" if result == "deny" else None)
        assert (after.type, after.stop_reason.type) == ("session.status_idle", "end_turn")
    # Without a ref the request itself is what they wait for; it confirms no call.
    await harness.append(
        session, {"type": "ds.approval.requested", "id": "open", "question": "Which colour?"}
    )
    assert (await seen(client, session))[-1].stop_reason.event_ids == ["open"]
    decided = {"type": "ds.approval.decided", "request": "open", "decision": "approve", "reason": "blue"}
    await judge.append(session, decided)
    assert [event.type for event in (await seen(client, session))[-2:]] == [
        "ds.approval.decided",
        "session.status_idle",
    ]
    # Theirs answers their own question.
    pending = (await harness.get(f"/v1/sessions/{session}/state"))["approvals"]["pending"]
    assert [(one["id"], one["blocking"]) for one in pending] == [("call-2", False)]
    await client.beta.sessions.events.send(
        session, events=[{"type": "user.tool_confirmation", "tool_use_id": "call-2", "result": "allow"}]
    )
    assert (await harness.get(f"/v1/sessions/{session}/state"))["approvals"]["pending"] == []


async def test_lists_pages_and_streams_hold_every_event(client: AsyncAnthropic, harness: Harness) -> None:
    """Many kinds of strict events among theirs: each is listed once, in both orders, and streamed."""
    session = (await client.beta.sessions.create(agent="a", environment_id="e")).id
    sent: list[Event] = [
        {"type": "ds.fact", "key": "k", "value": {"deep": [1, 2]}},
        {"type": "ds.outcome.defined", "features": FEATURES},
        {"type": "agent.tool_use", "id": "call-1", "name": "ls", "input": {}, "refs": 7},
        {"type": "ds.checkpoint", "id": "cp", "units": 1, "next": "f1", "instructions": "go on"},
        {"type": "ds.context.compacted", "from": 0, "to": 2, "summary": "began"},
        {"type": "ds.context.reset", "checkpoint": "cp"},
        {"type": "ds.routed", "to": "*", "reason": "anybody"},
        {"type": "ds.sandbox", "sandbox": "box", "backend": "local", "status": "ready"},
        {"type": "ds.fact.retracted", "key": "k"},
        {"type": "ds.budget.set", "tokens": 100_000, "tool_calls": 50},
        {
            "type": "ds.memory.written",
            "scope": "user:me",
            "key": "k",
            "value": 1,
            "why": "state",
            "refs": SEEN,
        },
        {"type": "agent.tool_result", "tool_use_id": "call-1", "content": text("ok")},
    ]
    async with await client.beta.sessions.events.stream(session) as stream:
        for number in range(30):
            await harness.append(
                session, *([*sent, says(f"{number}")] if number == 0 else [says(f"{number}")])
            )
        streamed = await taken(stream, 42)
    listed = [event async for event in client.beta.sessions.events.list(session, limit=7)]
    assert [event.id for event in listed] == [event.id for event in streamed]
    assert [event.type for event in listed[:12]] == [event["type"] for event in sent]
    newest = [event async for event in client.beta.sessions.events.list(session, order="desc", limit=7)]
    assert newest == listed[::-1]
    facts = [event async for event in client.beta.sessions.events.list(session, types=["agent.message"])]
    assert len(facts) == 30
    found = await client.beta.sessions.retrieve(session)
    assert (found.status, found.id) == ("idle", session)
    assert session in [one.id async for one in client.beta.sessions.list()]
