"""Drops beside what happens to a session otherwise: it is deleted and begun again, or events are repeated."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from durable_sessions.sessions.change import By
from durable_sessions.sessions.create import NewSession
from durable_sessions.sessions.record import Record
from durable_sessions.sessions.redaction import Redaction
from durable_sessions.sessions.redactor import EventRedactor
from durable_sessions.streams.create import Fork
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.sessions.world import SessionWorld, key

pytestmark = pytest.mark.anyio
DROP = {"type": "row", "slot": "h", "slot_empty": "drop"}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SessionWorld]:
    world = await SessionWorld(tmp_path).open()
    yield world
    await world.close()


async def test_a_drop_can_begin_the_next_life_of_an_id_whose_forks_are_read(world: SessionWorld) -> None:
    """The deleted session is still there for its fork; the drop is not about it."""
    await world.send("a", {"type": "row", "slot": "h", "text": "kept"})
    await world.sessions.create(key("b"), NewSession(Record(), "me", fork=Fork("sessions/a")), 0)
    await world.sessions.delete(key("a"), By("me"))
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert (await world.send("a", DROP)).tail == 1
    assert [event.get("text") for event in await world.events("b")] == ["kept"]


async def test_a_repeated_drop_drops_nothing_more(world: SessionWorld) -> None:
    await world.send("a", {**DROP, "id": "earlier"})
    await world.send("a", {"type": "row", "slot": "h", "text": "first"})
    await world.send("a", {"type": "row", "slot": "h", "text": "second"})
    await world.send("a", {**DROP, "id": "earlier"}, {"type": "row", "slot": "w", "slot_empty": "drop"})
    assert [event.get("text") for event in await world.events("a")] == [None, "first", "second", None]


async def test_a_redaction_of_what_was_dropped_stays(world: SessionWorld) -> None:
    """What a flush stored of the drop does not end the overlay of the redaction that came later."""
    await world.send("a", {"type": "row", "slot": "h", "text": "kept"}, {"type": "row"})
    await world.send("a", DROP)
    await world.flush()
    ids = [event["id"] for event in await world.events("a")]
    redactor = EventRedactor(world.sessions, world.ids, world.limits)
    await redactor.redact(key("a"), Redaction([ids[0]], "a secret", digest=False), By("me"))
    for _ in range(3):
        await world.partition.settle_erasures()
        first = (await world.events("a"))[0]
        assert first["redacted"]["reason"] == "a secret"
        assert first["redacted"]["sha256"] is None
        assert "dropped" not in first
        await world.flush()
        world.clock.advance(1_000)
        await world.maintain()
