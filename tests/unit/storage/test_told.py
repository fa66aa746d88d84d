"""Appends whose outcome is told, without a future: exactly once, and who is told cannot stop the others."""

from dataclasses import replace
from pathlib import Path

import pytest

from durable_sessions.errors import DurableSessionsError
from durable_sessions.storage.partition import Partition
from durable_sessions.streams import append
from durable_sessions.streams.effects import RecordsAppended
from durable_sessions.streams.readonly import StreamRecord
from tests.support.trial import until
from tests.unit.storage.world import LIMITS, World, key

pytestmark = pytest.mark.anyio


class Listener:
    """Notes what it is told."""

    def __init__(self, *, fails: bool = False) -> None:
        self.said: list[int | str] = []
        self._fails = fails

    def durable(self, result: int) -> None:
        self.said.append(result)
        if self._fails:
            raise ZeroDivisionError

    def failed(self, error: DurableSessionsError) -> None:
        self.said.append(error.code)
        if self._fails:
            raise ZeroDivisionError


def tell(partition: Partition, path: str, body: bytes, listener: Listener) -> bool:
    def decide(stream: StreamRecord, now_ms: int) -> tuple[RecordsAppended, int] | None:
        effect = append.plain(stream, "application/json", body, now_ms, LIMITS)
        return None if effect is None else (effect, effect.next)

    return partition.append_told(key(path), len(body), decide, listener)


async def test_appends_are_told_in_order_once_they_can_be_read(tmp_path: Path) -> None:
    world = await World(tmp_path).open()
    await world.create("s", b"[0]")
    listeners = [Listener(fails=number == 1) for number in range(4)]
    for number, listener in enumerate(listeners):
        assert tell(world.partition, "s", b'{"a":%d}' % number, listener)
    assert [one.said for one in listeners] == [[]] * 4
    settled = world.partition.settled()
    await settled
    assert [one.said for one in listeners] == [[2], [3], [4], [5]]
    assert await world.read("s") == b'0,{"a":0},{"a":1},{"a":2},{"a":3},'
    await world.append("s", b"[9]")
    assert world.partition.refusal is None
    assert world.partition.counts().pending_bytes == 0
    await world.close()


async def test_what_could_be_refused_changes_nothing(tmp_path: Path) -> None:
    world = await World(tmp_path).open()
    await world.create("s", b"[0]")
    listener = Listener()
    assert not tell(world.partition, "missing", b"{}", listener)
    assert not tell(world.partition, "s", b"[1]", listener)
    assert not tell(world.partition, "s", b"{}" + b" " * LIMITS.pending_bytes_max, listener)
    await world.partition.settled()
    assert listener.said == []
    assert await world.read("s") == b"0,"
    await world.close()
    assert not tell(world.partition, "s", b"{}", listener)


async def test_a_stream_that_was_evicted_is_loaded(tmp_path: Path) -> None:
    world = await World(tmp_path, replace(LIMITS, active_streams_max=0)).open()
    await world.create("s", b"[0]")
    await world.flush()
    for _ in range(3):
        await world.partition.evict_idle()
    assert world.partition.active_streams == 0
    listener = Listener()
    assert tell(world.partition, "s", b'{"a":1}', listener)
    assert not tell(world.partition, "missing", b"{}", listener)
    await world.partition.settled()
    assert listener.said == [2]
    assert await world.read("s") == b'0,{"a":1},'
    await world.close()


async def test_everybody_is_told_of_a_partition_that_was_taken_over(tmp_path: Path) -> None:
    world = await World(tmp_path).open()
    await world.create("s", b"[0]")
    listeners = [Listener(fails=number == 0) for number in range(3)]
    for listener in listeners:
        assert tell(world.partition, "s", b"{}", listener)
    world.partition.log_failed("of a test")
    await until(lambda: all(one.said for one in listeners))
    assert all(len(one.said) == 1 and isinstance(one.said[0], str) for one in listeners)
    assert not tell(world.partition, "s", b"{}", listeners[0])
