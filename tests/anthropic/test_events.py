"""Events: listed by page, order, type and time; followed while they are sent."""

import asyncio
from typing import Any

import pytest
from anthropic import AsyncAnthropic, NotFoundError
from anthropic.types.beta.sessions import BetaManagedAgentsEventParams

from tests.anthropic.clients import taken
from tests.anthropic.conftest import Account
from tests.anthropic.harness import END_TURN, RUNNING, Harness, says, text

pytestmark = pytest.mark.anyio


@pytest.fixture
async def session(sdk: AsyncAnthropic) -> str:
    return (await sdk.beta.sessions.create(agent="a", environment_id="e")).id


def message(words: str) -> BetaManagedAgentsEventParams:
    return {"type": "user.message", "content": text(words)}


async def test_pages_in_both_orders_hold_every_event_once(sdk: AsyncAnthropic, session: str) -> None:
    sent = await sdk.beta.sessions.events.send(session, events=[message(str(n)) for n in range(7)])
    assert sent.data is not None
    ids = [event.id for event in sent.data]
    assert [event.id async for event in sdk.beta.sessions.events.list(session, limit=3)] == ids
    backwards = sdk.beta.sessions.events.list(session, limit=3, order="desc")
    assert [event.id async for event in backwards] == ids[::-1]
    first = await sdk.beta.sessions.events.list(session, limit=3)
    await sdk.beta.sessions.events.send(session, events=[message("later")])
    second = await first.get_next_page()
    assert [event.id for event in first.data + second.data] == ids[:6]
    third = await second.get_next_page()
    assert [event.id for event in third.data][:1] == ids[6:]
    assert len(third.data) == 2
    assert not third.has_next_page()


async def test_events_are_listed_by_type_and_time(
    sdk: AsyncAnthropic, harness: Harness, session: str
) -> None:
    times = []
    for words in ("one", "two", "three"):
        [_, said] = await harness.append(session, RUNNING, says(words))
        times.append(said["created_at"])
        await asyncio.sleep(0.005)
    await harness.append(session, END_TURN)

    async def types(**filters: Any) -> list[str]:
        return [event.type async for event in sdk.beta.sessions.events.list(session, limit=2, **filters)]

    assert await types(types=["agent.message"]) == ["agent.message"] * 3
    assert await types(types=["agent.message", "session.status_idle"], order="desc") == [
        "session.status_idle",
        "agent.message",
        "agent.message",
        "agent.message",
    ]
    assert await types(types=["user.message"]) == []
    assert len(await types(created_at_gt=times[0])) == 5
    assert len(await types(created_at_gte=times[0])) == 7
    assert len(await types(created_at_lt=times[1])) == 2
    assert len(await types(created_at_lte=times[1])) == 4
    assert await types(created_at_gt=times[0], created_at_lte=times[1], types=["agent.message"]) == [
        "agent.message"
    ]


async def test_a_stream_opened_before_the_list_misses_nothing(sdk: AsyncAnthropic, session: str) -> None:
    early = await sdk.beta.sessions.events.send(session, events=[message("before")])
    async with await sdk.beta.sessions.events.stream(session) as stream:
        sent = []
        for number in range(3):
            answer = await sdk.beta.sessions.events.send(session, events=[message(str(number))])
            sent += answer.data or []
        streamed = await taken(stream, 3)
    listed = [event async for event in sdk.beta.sessions.events.list(session)]
    assert streamed == sent
    assert listed == [*(early.data or []), *sent]


async def test_two_streams_show_what_either_client_sends(sdk: AsyncAnthropic, session: str) -> None:
    async with (
        await sdk.beta.sessions.events.stream(session) as one,
        await sdk.beta.sessions.events.stream(session) as other,
    ):
        await sdk.beta.sessions.events.send(session, events=[message("hello")])
        assert await taken(one) == await taken(other)


async def test_deltas_can_be_asked_for(sdk: AsyncAnthropic, harness: Harness, session: str) -> None:
    kinds: Any = ["agent.message", "agent.thinking"]
    async with await sdk.beta.sessions.events.stream(session, event_deltas=kinds) as stream:
        await harness.append(session, says("whole"))
        [event] = await taken(stream)
    assert event.type == "agent.message"


async def test_open_streams_end_when_the_session_is_deleted(sdk: AsyncAnthropic, session: str) -> None:
    async with await sdk.beta.sessions.events.stream(session) as stream:
        await sdk.beta.sessions.events.send(session, events=[message("last words")])
        await sdk.beta.sessions.delete(session)
        seen = [event.type async for event in stream]
    assert seen[-1] == "session.deleted"
    assert set(seen) <= {"user.message", "session.deleted"}
    with pytest.raises(NotFoundError):
        await sdk.beta.sessions.events.stream(session)


async def test_types_of_our_own_pass_through(account: Account, harness: Harness) -> None:
    async with AsyncAnthropic(base_url=account.url, api_key=account.key) as client:
        session = (await client.beta.sessions.create(agent="a", environment_id="e")).id
        async with await client.beta.sessions.events.stream(session) as stream:
            [stored] = await harness.append(session, {"type": "deploy.finished", "commit": "abc"})
            [event] = await taken(stream)
        [listed] = [event async for event in client.beta.sessions.events.list(session)]
    assert listed == event
    assert event.commit == "abc"
    assert (listed.id, str(listed.type)) == (stored["id"], "deploy.finished")


async def test_what_is_sent_twice_under_one_key_is_stored_once(sdk: AsyncAnthropic, session: str) -> None:
    key = {"Idempotency-Key": "a key of the program's own"}
    once = await sdk.beta.sessions.events.send(session, events=[message("hi")], extra_headers=key)
    again = await sdk.beta.sessions.events.send(session, events=[message("hi")], extra_headers=key)
    assert once == again
    assert [event.id async for event in sdk.beta.sessions.events.list(session)] == [
        event.id for event in once.data or []
    ]


async def test_the_threads_of_a_session(sdk: AsyncAnthropic, harness: Harness, session: str) -> None:
    [primary] = [thread async for thread in sdk.beta.sessions.threads.list(session)]
    assert (primary.parent_thread_id, primary.status, primary.session_id) == (None, "idle", session)

    child = {"session_thread_id": "sthr_child", "agent_name": "Reviewer"}
    async with await sdk.beta.sessions.threads.events.stream(primary.id, session_id=session) as stream:
        stored = await harness.append(
            session,
            {"type": "session.thread_created", **child, "workflow_run_id": None},
            {"type": "session.thread_status_running", **child},
            {"type": "agent.tool_use", "name": "bash", "input": {}, "session_thread_id": "sthr_child"},
            says("from the primary thread"),
        )
        [event] = await taken(stream)
    assert event.id == stored[3]["id"]

    first, second = [thread async for thread in sdk.beta.sessions.threads.list(session)]
    assert first.id == primary.id
    assert (second.id, second.parent_thread_id, second.status) == ("sthr_child", primary.id, "running")
    assert second.agent.type == "agent"
    assert second.agent.name == "Reviewer"
    running = sdk.beta.sessions.threads.list(session, statuses=["running"])
    assert [thread.id async for thread in running] == ["sthr_child"]
    assert [thread.id async for thread in sdk.beta.sessions.threads.list(session, limit=1)] == [
        primary.id,
        "sthr_child",
    ]

    found = await sdk.beta.sessions.threads.retrieve("sthr_child", session_id=session)
    assert found == second
    events = sdk.beta.sessions.threads.events.list("sthr_child", session_id=session, limit=2)
    assert [event.id async for event in events] == [event["id"] for event in stored[:3]]
    main = sdk.beta.sessions.threads.events.list(primary.id, session_id=session)
    assert [event.id async for event in main] == [stored[3]["id"]]

    async with await sdk.beta.sessions.threads.events.stream("sthr_child", session_id=session) as stream:
        await harness.append(session, says("not for this thread"))
        idle = {**END_TURN, "type": "session.thread_status_idle", **child}
        [ended] = await harness.append(session, idle)
        [event] = await taken(stream)
    assert event.id == ended["id"]
    archived = await sdk.beta.sessions.threads.archive("sthr_child", session_id=session)
    assert archived.archived_at is not None
    with pytest.raises(NotFoundError):
        await sdk.beta.sessions.threads.retrieve("sthr_none", session_id=session)
