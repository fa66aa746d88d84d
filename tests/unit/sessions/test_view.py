"""The session object, and its threads."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from durable_sessions.managed_agents.thread_objects import ThreadObjects
from durable_sessions.sessions import threads, view
from durable_sessions.sessions.change import By
from durable_sessions.sessions.create import NewSession
from durable_sessions.sessions.record import Record
from durable_sessions.streams.create import Fork
from durable_sessions.streams.stream import Producer
from tests.unit.sessions.world import SessionWorld, key

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SessionWorld]:
    world = await SessionWorld(tmp_path).open()
    yield world
    await world.close()


def shown(world: SessionWorld, session: str = "s") -> dict[str, object]:
    encoded = msgspec.json.encode(
        view.session_object(world.find(session), world.clock.now_ms(), world.sessions.times)
    )
    return msgspec.json.decode(encoded, type=dict[str, object])


async def test_the_lifecycle_of_a_session(world: SessionWorld) -> None:
    await world.sessions.create(key("s"), NewSession(Record(), "me"), 0)
    assert shown(world)["lifecycle"] == "open"
    await world.send("s", {"type": "a"})
    assert shown(world)["lifecycle"] == "active"
    for reason, expected in (
        ("requires_action", "paused"),
        ("end_turn", "active"),
        ("budget_reached", "paused"),
    ):
        await world.send("s", {"type": "session.status_idle", "stop_reason": {"type": reason}})
        assert shown(world)["lifecycle"] == expected
    await world.send("s", {"type": "session.status_running"})
    assert shown(world)["lifecycle"] == "active"
    await world.send("s", close=True)
    assert shown(world)["lifecycle"] == "closed"
    await world.sessions.archive(key("s"), By("me"))
    assert shown(world)["lifecycle"] == "archived"


async def test_times_and_sizes(world: SessionWorld) -> None:
    await world.send("s", {"type": "session.status_running"})
    world.clock.advance(2)
    assert shown(world)["stats"] == {"active_seconds": 2.0, "duration_seconds": 2.0}
    await world.send("s", {"type": "a"})
    before = shown(world)
    assert (before["event_count"], before["next_offset"]) == (2, "0000000000000000_0000000000000002")
    events = await world.events("s")
    assert len(events) == 2
    await world.sessions.create(key("f"), NewSession(Record(), "me", fork=Fork("sessions/s", 1)), 0)
    fork = shown(world, "f")
    assert (fork["event_count"], fork["bytes"]) == (1, 0), "shared bytes are counted once"
    assert fork["status"] == "idle", "nobody runs it yet"
    await world.flush()
    await world.reopen(forget_catalog=True)
    assert shown(world) == before
    assert shown(world, "f") == fork


async def test_reading_is_no_update(world: SessionWorld) -> None:
    await world.sessions.create(key("s"), NewSession(Record(), "me", ttl_seconds=1_000), 0)
    before = shown(world)["updated_at"]
    world.clock.advance(500)
    world.partition.touch(world.find("s"))
    await world.partition.settled()
    assert shown(world)["updated_at"] == before
    await world.flush()
    await world.reopen()
    assert shown(world)["updated_at"] == before


async def test_events_that_were_there_are_no_update(world: SessionWorld) -> None:
    await world.send("s", {"id": "one", "type": "note"})
    before = shown(world)["updated_at"]
    world.clock.advance(500)
    await world.send("s", {"id": "one", "type": "note"}, producer=Producer("p", 0, 0))
    assert shown(world)["updated_at"] == before
    assert world.find("s").stream.producers == {"p": (0, 0)}, "its number is noted all the same"
    await world.reopen()
    assert shown(world)["updated_at"] == before
    await world.flush()
    await world.reopen(forget_catalog=True)
    assert shown(world)["updated_at"] == before
    world.clock.advance(500)
    await world.send("s", close=True)
    assert shown(world)["updated_at"] != before


async def test_threads_are_shown_with_the_primary_one_first(world: SessionWorld) -> None:
    await world.send(
        "s",
        {"type": "session.status_running"},
        {"type": "session.thread_created", "session_thread_id": "b", "agent_name": "helper"},
        {"type": "session.thread_status_running", "session_thread_id": "c", "parent_thread_id": "b"},
    )
    shown = ThreadObjects(world.find("s"))
    primary, helper, other = (msgspec.json.decode(shown.encoded(name)) for name in shown.names())
    assert primary["id"] == threads.primary("s")
    assert (primary["status"], primary["parent_thread_id"]) == ("running", None)
    assert (helper["id"], helper["status"], helper["parent_thread_id"]) == ("b", "idle", primary["id"])
    assert (other["id"], other["status"], other["parent_thread_id"]) == ("c", "running", "b")
    agent = helper["agent"]
    assert isinstance(agent, dict)
    assert agent["name"] == "helper"
