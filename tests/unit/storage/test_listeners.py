"""Listeners that fail: what is durable is acknowledged and shown all the same, and then they reconcile."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from durable_sessions.storage.listeners import Listeners
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.streams.stream import Stream
from tests.support.trial import until
from tests.unit.storage.world import LIMITS, World, key

pytestmark = pytest.mark.anyio

CALLS = ("stream_created", "streams_appended", "stream_removed")


class Listener:
    """Notes what it is told; fails in the calls that it was told to."""

    def __init__(self, name: str, *failing: str) -> None:
        self.name = name
        self.failing = set(failing)
        self.told: list[str] = []

    def _take(self, call: str) -> None:
        self.told.append(call)
        if call in self.failing:
            raise ZeroDivisionError(call)

    def stream_created(self, stream: StreamRecord) -> None:
        self._take("stream_created")

    def streams_appended(self, appended: Sequence[tuple[StreamRecord, int]]) -> None:
        self._take("streams_appended")

    def stream_removed(self, stream: StreamRecord) -> None:
        self._take("stream_removed")

    def stream_erased(self, stream: StreamRecord, positions: Sequence[int]) -> None:
        self._take("stream_erased")

    def reconcile(self) -> None:
        self._take("reconcile")


@pytest.mark.parametrize("call", CALLS)
async def test_a_listener_that_fails_stops_nothing(tmp_path: Path, call: str) -> None:
    world = await World(tmp_path, replace(LIMITS, task_restart_seconds=0.001)).open()
    bad, good = Listener("bad", call), Listener("good")
    world.partition.listen(bad)
    world.partition.listen(good)
    await world.create("s", b"[1]")
    await world.append("s", b"[2]")
    assert await world.read("s") == b"1,2,"
    await world.delete("s")
    await world.create("t", b"[3]")
    assert await world.read("t") == b"3,"
    assert world.partition.refusal is None
    assert [one for one in good.told if one == call], "those behind it are told"
    listeners = world.partition._published.listeners
    assert listeners.failing == {"bad": call}
    assert listeners.failures["bad"] >= 1
    assert listeners.failures["good"] == 0
    await world.close()


async def test_a_listener_that_failed_reconciles(tmp_path: Path) -> None:
    listeners = Listeners(pause_seconds=0.001)
    listener = Listener("bad", "streams_appended", "reconcile")
    listeners.add(listener)
    task = asyncio.create_task(listeners.run())
    stream: Stream = object()  # type: ignore[assignment]
    listeners.appended.append((stream, 0))
    listeners.tell_appended()
    await until(lambda: listener.told.count("reconcile") >= 2)
    assert listeners.failing == {"bad": "reconcile"}
    listener.failing.clear()
    await until(lambda: not listeners.failing)
    count = listener.told.count("reconcile")
    listeners.created(stream)
    assert listeners.failing == {}
    assert listener.told.count("reconcile") == count
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_appends_are_told_together_and_before_what_came_later() -> None:
    listeners = Listeners(pause_seconds=0.001)
    listener = Listener("one")
    listeners.add(listener)
    stream: Stream = object()  # type: ignore[assignment]
    listeners.tell_appended()
    assert listener.told == []
    listeners.appended += [(stream, 0), (stream, 1)]
    listeners.removed(stream)
    listeners.tell_appended()
    listeners.appended.append((stream, 2))
    listeners.erased(stream, [2])
    listeners.appended.append((stream, 3))
    listeners.created(stream)
    listeners.tell_appended()
    appended, changed = "streams_appended", ("stream_removed", "stream_erased", "stream_created")
    assert listener.told == [appended, changed[0], appended, changed[1], appended, changed[2]]


async def test_readers_wait_on_whatever_listeners_do(tmp_path: Path) -> None:
    world = await World(tmp_path).open()
    world.partition.listen(Listener("bad", *CALLS))
    await world.create("s", b"[1]")
    durable = world.partition.find(key("s"))
    waiter = world.partition.wait(durable)
    await world.append("s", b"[2]")
    async with asyncio.timeout(60):
        await waiter
    assert durable.tail == 2
    await world.close()
