"""An imported session says when it happened, however it came to be where it is."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from durable_sessions.sessions import original_times, view
from durable_sessions.sessions.change import By
from durable_sessions.sessions.create import NewSession
from durable_sessions.sessions.record import Record
from durable_sessions.sessions.times_backfill import EVENTS_AT_A_TIME, TimesBackfill
from durable_sessions.streams.create import Fork
from durable_sessions.streams.effects import Effect, StreamDescribed
from tests.unit.sessions.world import SessionWorld, key

pytestmark = pytest.mark.anyio

FIRST, MIDDLE, LAST = (f"2020-03-0{day}T12:00:00.000Z" for day in (1, 2, 3))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SessionWorld]:
    world = await SessionWorld(tmp_path).open()
    yield world
    await world.close()


def shown(world: SessionWorld, session: str = "s") -> dict[str, Any]:
    encoded = msgspec.json.encode(
        view.session_object(world.find(session), world.clock.now_ms(), world.sessions.times)
    )
    return msgspec.json.decode(encoded, type=dict[str, Any])


def times(world: SessionWorld, session: str = "s") -> tuple[object, ...]:
    one = shown(world, session)
    return one["imported"], one["started_at"], one["last_activity_at"]


def at(time: str, **more: Any) -> dict[str, Any]:
    return {"type": "note", "created_at": time, **more}


async def test_a_session_of_our_own_has_the_servers_times(world: SessionWorld) -> None:
    await world.send("s", {"type": "a"})
    one = shown(world)
    assert times(world) == (False, one["created_at"], one["updated_at"])
    assert original_times.TIMES not in world.find("s").attributes


@pytest.mark.parametrize("what", ["nothing", "reopen", "flush", "flush and reopen", "forget the catalog"])
async def test_the_first_and_the_last_original_time_are_told(world: SessionWorld, what: str) -> None:
    await world.send("s", at(MIDDLE), at(FIRST))
    await world.send("s", at(LAST), {"type": "import.record", "source": {"tool": "x"}})
    await world.send("s", at(MIDDLE, id="e"))
    if "flush" in what or "forget" in what:
        await world.flush()
    if "reopen" in what or "forget" in what:
        await world.reopen(forget_catalog="forget" in what)
    assert times(world) == (True, FIRST, LAST)
    assert shown(world)["created_at"] > LAST
    assert shown(world)["stats"]["duration_seconds"] == 2 * 86_400


async def test_the_first_original_of_a_copy_counts(world: SessionWorld) -> None:
    await world.send("s", at(LAST, original_created_at=FIRST, original_processed_at=LAST))
    await world.send("p", {"type": "note", "processed_at": MIDDLE})
    assert times(world) == (True, FIRST, FIRST)
    assert times(world, "p") == (True, MIDDLE, MIDDLE)


async def test_a_copy_of_an_import_without_times_has_none_either(world: SessionWorld) -> None:
    """What a server adds to an import is when it was imported, and not when it happened."""
    source = {"tool": "x", "record_id": "1"}
    await world.send("s", at(FIRST, source=source), {"type": "note", "source": source})
    await world.send("s", {"type": "session.updated", "title": "Imported"})
    await world.send("copy", *await world.events("s"))
    await world.send("copy-2", *await world.events("copy"))
    for name in ("s", "copy", "copy-2"):
        assert times(world, name) == (True, FIRST, FIRST)
        timed, plain, _ = await world.events(name)
        assert timed["original_created_at"] == FIRST
        assert not plain.keys() & {"original_created_at", "original_processed_at"}


async def test_the_only_time_of_a_managed_agents_event_is_that_of_all_copies(world: SessionWorld) -> None:
    await world.send("s", {"type": "user.message", "processed_at": FIRST})
    await world.send("copy", *await world.events("s"))
    (event,) = await world.events("copy")
    assert (event["original_processed_at"], event.get("original_created_at")) == (FIRST, None)
    assert times(world, "copy") == (True, FIRST, FIRST)


async def test_what_the_server_says_itself_is_no_activity(world: SessionWorld) -> None:
    await world.send("s", at(FIRST))
    await world.sessions.update(key("s"), lambda said: (Record(title="t"), {"title": "t"}), By("me"))
    assert times(world) == (True, FIRST, FIRST)


async def test_an_imported_session_that_goes_on_is_active_now(world: SessionWorld) -> None:
    await world.send("s", at(FIRST))
    world.clock.advance(60)
    await world.send("s", {"type": "user.message"})
    imported, started, active = times(world)
    assert (imported, started) == (True, FIRST)
    assert active == (await world.events("s"))[-1]["created_at"]


async def test_a_fork_began_when_its_source_did(world: SessionWorld) -> None:
    await world.send("s", at(FIRST), at(LAST))
    for name in ("quiet", "loud"):
        await world.sessions.create(key(name), NewSession(Record(), "me", fork=Fork("sessions/s", 1)), 0)
    await world.send("loud", at(MIDDLE))
    assert times(world, "loud") == (True, FIRST, MIDDLE)
    assert times(world, "quiet") == (True, FIRST, shown(world, "quiet")["updated_at"])


@pytest.mark.parametrize("odd", ["yesterday", 7, None, "1960-01-01T00:00:00Z", "0001-01-01T00:00:00Z"])
async def test_a_time_that_is_none_changes_nothing(world: SessionWorld, odd: object) -> None:
    await world.send("s", {"type": "note", "original_created_at": odd})
    assert times(world)[0] is False


async def test_how_long_an_imported_session_was_at_work_does_not_grow(world: SessionWorld) -> None:
    await world.send("s", {"type": "session.status_running", "created_at": FIRST}, at(MIDDLE))
    world.clock.advance(1_000)
    assert shown(world)["stats"] == {"active_seconds": 86_400.0, "duration_seconds": 86_400.0}


async def forget_times(world: SessionWorld, *sessions: str) -> None:
    """Leave sessions as versions did that kept no times."""
    for name in sessions:
        stream = world.find(name).stream
        forgotten: Effect = StreamDescribed(stream.id, stream.changed_at_ms, {original_times.TIMES: None})

        def decide(state: object, now: int, effect: Effect = forgotten) -> tuple[list[Effect], None]:
            return [effect], None

        await world.partition.commit(decide, (stream.key,))
        assert times(world, name)[0] is False


@pytest.mark.parametrize("where", ["in memory", "in the bucket"])
async def test_sessions_of_earlier_versions_get_their_times(
    world: SessionWorld, tmp_path: Path, where: str
) -> None:
    await world.send("s", at(MIDDLE, id="a"), at(FIRST, id="b"), {"type": "import.record", "source": {}})
    await world.send("s", at(LAST, id="c"))
    await world.send("own", {"type": "a", "id": "a"})
    await world.send(
        "long", at(FIRST, id="a"), *({"type": "n", "source": {}} for _ in range(EVENTS_AT_A_TIME))
    )
    await world.send("long", at(LAST))
    await world.sessions.create(key("fork"), NewSession(Record(), "me", fork=Fork("sessions/s", 1)), 0)
    await forget_times(world, "s", "long", "fork")
    changed = shown(world)["updated_at"]
    if where == "in the bucket":
        await world.flush()
        await world.reopen(forget_catalog=True)
    mark = tmp_path / "mark"
    world.clock.advance(60)
    await TimesBackfill(world.sessions, mark).run()
    assert times(world) == times(world, "long") == (True, FIRST, LAST)
    assert times(world, "fork")[:2] == (True, MIDDLE)
    assert times(world, "own")[0] is False
    assert shown(world)["updated_at"] == changed
    await world.reopen()
    assert times(world) == (True, FIRST, LAST)
    await forget_times(world, "s")
    await TimesBackfill(world.sessions, mark).run()  # once is enough
    assert times(world)[0] is False


async def test_times_that_came_meanwhile_are_kept(world: SessionWorld, tmp_path: Path) -> None:
    await world.send("s", at(MIDDLE, id="a"))
    await forget_times(world, "s")
    await world.send("s", at(LAST, id="b"))
    await TimesBackfill(world.sessions, tmp_path / "mark").run()
    assert times(world) == (True, MIDDLE, LAST)
    await world.send("s", {"type": "user.message"})
    assert times(world)[2] == (await world.events("s"))[-1]["created_at"]


UNTIMED = {"type": "user.message", "source": {"tool": "swe-agent", "record_id": "M0"}}


@pytest.mark.parametrize("what", ["nothing", "reopen", "forget the catalog"])
async def test_a_session_is_imported_also_if_its_source_has_no_times(world: SessionWorld, what: str) -> None:
    await world.send("s", {**UNTIMED, "id": "imp_1"})
    await world.send("plain", UNTIMED)
    if what != "nothing":
        await world.flush()
        await world.reopen(forget_catalog="forget" in what)
    for name in ("s", "plain"):
        one = shown(world, name)
        assert times(world, name) == (True, one["created_at"], one["updated_at"])
    await world.sessions.create(key("fork"), NewSession(Record(), "me", fork=Fork("sessions/s", 1)), 0)
    assert times(world, "fork")[0] is True


@pytest.mark.parametrize("source", [{"tool": "claude-code", "hook": "Stop"}, "swe-agent", {}, None])
async def test_what_is_captured_as_it_happens_is_not_imported(world: SessionWorld, source: object) -> None:
    await world.send("s", {"type": "user.message", "id": "a", "source": source})
    assert times(world)[0] is False


async def test_sessions_of_earlier_versions_are_known_to_be_imported(
    world: SessionWorld, tmp_path: Path
) -> None:
    await world.send("s", {**UNTIMED, "id": "imp_1"})
    await forget_times(world, "s")
    await TimesBackfill(world.sessions, tmp_path / "mark").run()
    assert times(world)[0] is True
