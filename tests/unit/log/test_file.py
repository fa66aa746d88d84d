import asyncio
import threading
from pathlib import Path

import pytest

from durable_sessions.errors import LogError
from durable_sessions.log import Extent, Log
from durable_sessions.log import extents as extents_module
from durable_sessions.log import segment as segment_module
from durable_sessions.log.disk import RealDisk, RealFile
from durable_sessions.log.file import FileLog
from durable_sessions.log.frame import FRAME_BYTES, HEADER_BYTES, Batch
from durable_sessions.testing.disk import FaultyDisk
from tests.unit.log.support import MIB, contents, opened, replayed, segment_files, stored, written

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


PAYLOADS = [b"one", b"", b"three" * 100, bytes(range(256)), b"five"]


async def test_it_is_a_log(tmp_path: Path) -> None:
    async with opened(tmp_path) as log:
        as_log: Log = log
        assert await as_log.append(b"x") == FRAME_BYTES


async def test_round_trip(tmp_path: Path) -> None:
    async with opened(tmp_path) as log:
        batches = [(await log.append(payload), payload) for payload in PAYLOADS]
        assert await replayed(log) == batches
    positions = [position for position, _ in batches]
    assert positions == sorted(set(positions))
    assert positions[0] > 0
    assert await stored(tmp_path) == batches


async def test_replay_after_a_position(tmp_path: Path) -> None:
    batches = await written(tmp_path, PAYLOADS * 3, segment_bytes_max=400)
    assert len(segment_files(tmp_path)) > 2
    async with opened(tmp_path) as log:
        for index, (position, _) in enumerate(batches):
            assert await replayed(log, position) == batches[index + 1 :]
            assert await replayed(log, position - 1) == batches[index:]


async def test_opening_creates_no_segment_and_each_opening_begins_one(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "log"
    async with opened(folder) as log:
        assert await replayed(log) == []
    assert segment_files(folder) == []
    batches = []
    for count in range(1, 4):
        batches += await written(folder, [b"a", b"b"])
        assert len(segment_files(folder)) == count
        before = contents(folder)
        assert await stored(folder) == batches
        assert contents(folder) == before


@pytest.mark.parametrize("segment_bytes_max", [1, HEADER_BYTES + FRAME_BYTES + 5, 300])
async def test_rotation(tmp_path: Path, segment_bytes_max: int) -> None:
    payloads = [b"%05d" % n for n in range(50)]
    batches = await written(tmp_path, payloads, segment_bytes_max=segment_bytes_max)
    sizes = [path.stat().st_size for path in segment_files(tmp_path)]
    assert all(size >= segment_bytes_max for size in sizes[:-1])
    assert all(size - (FRAME_BYTES + 5) < max(segment_bytes_max, HEADER_BYTES + 1) for size in sizes)
    assert await stored(tmp_path) == batches
    # Addresses run on over the segments: the position says how many bytes came before.
    assert batches[-1][0] == 50 * (FRAME_BYTES + 5) - 5


async def test_frames_larger_than_a_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_module, "PIECE_BYTES", 64)
    batches = await written(tmp_path, [b"a" * 1000, b"b" * 30, b"c" * 20, b"d" * 44, b"e" * 45, b"f" * 1000])
    assert await stored(tmp_path) == batches


def halves(batches: list[Batch]) -> list[Extent]:
    """Return the extents of the second half of each batch."""
    return [Extent(position, len(data) // 2, len(data) - len(data) // 2) for position, data in batches]


@pytest.mark.parametrize("segment_bytes_max", [1, 400, MIB])
@pytest.mark.parametrize("gap_bytes_max", [0, 30, 300, MIB])
async def test_read_returns_exactly_the_bytes(
    tmp_path: Path, segment_bytes_max: int, gap_bytes_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extents_module, "GAP_BYTES_MAX", gap_bytes_max)
    batches = await written(tmp_path, PAYLOADS * 3, segment_bytes_max=segment_bytes_max)
    async with opened(tmp_path) as log:
        batches.append((await log.append(b"fresh"), b"fresh"))
        assert await log.read([]) == []
        for order in (batches, batches[::-1], batches[::2] + batches[1::2], batches[:3] * 3):
            whole = [Extent(position, 0, len(payload)) for position, payload in order]
            assert await log.read(whole) == [payload for _, payload in order]
            assert await log.read(halves(order)) == [payload[len(payload) // 2 :] for _, payload in order]
            for extent, (_, payload) in zip(whole, order, strict=True):
                assert await log.read([extent]) == [payload]


async def test_extents_that_lie_together_are_read_together(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with opened(tmp_path, disk) as log:
        batches = [(await log.append(b"x" * 1000), b"x" * 1000) for _ in range(20)]
        disk.fail("read", skip=1)
        await log.read(halves(batches))
        with pytest.raises(LogError):
            await log.read(halves(batches))


async def test_read_never_returns_less(tmp_path: Path) -> None:
    async with opened(tmp_path, segment_bytes_max=200) as log:
        positions = [await log.append(b"0123456789") for _ in range(20)]
        last = positions[-1]
        for beyond in (Extent(last, 1, 10), Extent(last, 11, 0), Extent(2**62, 0, 1), Extent(0, 0, 1)):
            with pytest.raises(LogError, match="does not hold"):
                await log.read([Extent(positions[0], 0, 10), beyond])
        path = segment_files(tmp_path)[-1]
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(LogError, match="shorter"):
            await log.read([Extent(last, 0, 10)])
        path.unlink()
        with pytest.raises(LogError, match="cannot be read"):
            await log.read([Extent(last, 0, 10)])
        with pytest.raises(LogError, match="cannot be read"):
            await replayed(log)


async def test_trim_removes_whole_segments_and_keeps_the_newest(tmp_path: Path) -> None:
    async with opened(tmp_path, segment_bytes_max=HEADER_BYTES + 2 * (FRAME_BYTES + 5)) as log:
        batches = [(await log.append(b"%05d" % n), b"%05d" % n) for n in range(10)]
        assert log.segment_count == 5
        await log.trim(0)
        await log.trim(batches[0][0])
        assert await replayed(log) == batches
        await log.trim(batches[4][0])
        assert await replayed(log) == batches[4:]
        with pytest.raises(LogError, match="does not hold"):
            await log.read([Extent(batches[3][0], 0, 1)])
        await log.trim(2**62)
        assert await replayed(log) == batches[8:]
        assert log.segment_count == len(segment_files(tmp_path)) == 1
        batches.append((await log.append(b"after"), b"after"))
        assert await replayed(log) == batches[8:]
    assert await stored(tmp_path) == batches[8:]


async def test_positions_go_on_after_everything_was_trimmed(tmp_path: Path) -> None:
    last = 0
    for _ in range(4):
        async with opened(tmp_path, segment_bytes_max=1) as log:
            for _ in range(2):
                position = await log.append(b"x")
                assert position > last
                last = position
                await log.trim(position)


async def test_counters(tmp_path: Path) -> None:
    async with opened(tmp_path, segment_bytes_max=100) as log:
        assert (log.bytes_written, log.syncs, log.segment_count, log.segment_bytes) == (0, 0, 0, 0)
        for _ in range(4):
            await log.append(b"x" * 30)
        files = contents(tmp_path).values()
        assert log.segment_count == len(files) == 2
        assert log.segment_bytes == log.bytes_written == sum(map(len, files))
        assert log.syncs == 4 + 2 * 2
    async with opened(tmp_path) as log:
        assert log.segment_bytes == sum(map(len, files))


class SlowDisk(RealDisk):
    """A real disk whose syncs of files wait until they are let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()

    def create(self, path: Path) -> RealFile:
        real, go = super().create(path), self.go

        class SlowFile(RealFile):
            def sync(self) -> None:
                go.wait()
                super().sync()

        return SlowFile(real._descriptor)


async def slow_append(log: FileLog, disk: SlowDisk, payload: bytes) -> "asyncio.Task[int]":
    await log.append(b"before")
    disk.go.clear()
    task = asyncio.create_task(log.append(payload))
    await asyncio.sleep(0.01)
    assert not task.done()
    return task


async def test_nothing_is_visible_before_it_is_durable(tmp_path: Path) -> None:
    disk = SlowDisk()
    async with opened(tmp_path, disk) as log:
        task = await slow_append(log, disk, b"later")
        assert len(await replayed(log)) == 1
        with pytest.raises(LogError):
            await log.read([Extent(FRAME_BYTES + len(b"before") + FRAME_BYTES, 0, 5)])
        disk.go.set()
        assert await log.read([Extent(await task, 0, 5)]) == [b"later"]


async def test_one_append_at_a_time(tmp_path: Path) -> None:
    disk = SlowDisk()
    async with opened(tmp_path, disk) as log:
        task = await slow_append(log, disk, b"first")
        with pytest.raises(AssertionError, match="one call at a time"):
            await log.append(b"second")
        disk.go.set()
        await task


async def test_close_finishes_the_append_in_flight(tmp_path: Path) -> None:
    disk = SlowDisk()
    log = await FileLog.open(tmp_path, disk=disk, segment_bytes_max=MIB)
    task = await slow_append(log, disk, b"in flight")
    closing = asyncio.create_task(log.close())
    await asyncio.sleep(0.01)
    assert not closing.done()
    disk.go.set()
    await closing
    position = await task
    await log.close()
    assert (position, b"in flight") in await stored(tmp_path)
    for refused in (log.append(b"x"), log.trim(1)):
        with pytest.raises(LogError, match="it is closed"):
            await refused


async def cancelled_append(log: FileLog, disk: SlowDisk) -> None:
    """Cancel an append while its sync is under way, and let the sync go on."""
    task = await slow_append(log, disk, b"cancelled")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    disk.go.set()


async def test_a_cancelled_append_still_lands_and_blocks_nothing(tmp_path: Path) -> None:
    disk = SlowDisk()
    async with opened(tmp_path, disk) as log:
        await cancelled_append(log, disk)
        while len(await replayed(log)) < 2:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.001)
        await log.append(b"after")
    assert [payload for _, payload in await stored(tmp_path)] == [b"before", b"cancelled", b"after"]


async def test_a_cancelled_append_is_finished_by_close(tmp_path: Path) -> None:
    disk = SlowDisk()
    async with opened(tmp_path, disk) as log:
        await cancelled_append(log, disk)
    assert [payload for _, payload in await stored(tmp_path)] == [b"before", b"cancelled"]
