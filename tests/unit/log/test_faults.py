"""Disk faults: nothing that failed is acknowledged, and nothing that was acknowledged is lost."""

import errno
from collections.abc import Callable

import pytest

from durable_sessions.errors import LogError
from durable_sessions.log import Extent
from durable_sessions.testing.disk import FaultyDisk
from tests.unit.log.support import FOLDER, opened, replayed, stored, written

pytestmark = pytest.mark.anyio

FAULTS: dict[str, Callable[[FaultyDisk], None]] = {
    "write-eio": lambda disk: disk.fail("write", errno.EIO),
    "write-enospc": lambda disk: disk.fail("write", errno.ENOSPC),
    "write-nothing": lambda disk: disk.write_short(0),
    "write-short": lambda disk: disk.write_short(7),
    "sync-eio": lambda disk: disk.fail("sync", errno.EIO),
    "sync-enospc": lambda disk: disk.fail("sync", errno.ENOSPC),
}
ROTATION_FAULTS = FAULTS | {
    "create": lambda disk: disk.fail("create", errno.ENOSPC),
    "sync-directory": lambda disk: disk.fail("sync_directory", errno.EIO),
    "first-frame-write": lambda disk: disk.fail("write", errno.EIO, skip=1),
    "first-frame-sync": lambda disk: disk.fail("sync", errno.EIO, skip=1),
}
SEEDS = range(20)


async def check_poisoned(disk: FaultyDisk, segment_bytes_max: int, fault: str) -> None:
    async with opened(FOLDER, disk, segment_bytes_max) as log:
        batches = [(await log.append(payload), payload) for payload in (b"first", b"other")]
        ROTATION_FAULTS[fault](disk)
        with pytest.raises(LogError):
            await log.append(b"fails")
        operations = len(disk.operations)
        for refused in (log.append(b"again"), log.append(b""), log.trim(2**62)):
            with pytest.raises(LogError, match="it takes nothing more since"):
                await refused
        assert len(disk.operations) == operations
        assert await replayed(log) == batches
        assert await log.read([Extent(batches[1][0], 1, 3)]) == [b"the"]
        assert log.segment_count <= 2
    # Opened again, the log may have the batch whose append failed, and if it has it keeps it.
    found = await stored(FOLDER, disk)
    assert found[:2] == batches
    assert [payload for _, payload in found[2:]] in ([], [b"fails"])
    found += await written(FOLDER, [b"after"], disk)
    disk.crash()
    assert await stored(FOLDER, disk) == found


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failed_append_ends_appending(fault: str, seed: int) -> None:
    await check_poisoned(FaultyDisk(seed), 1024, fault)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fault", ROTATION_FAULTS)
async def test_a_failed_rotation_ends_appending(fault: str, seed: int) -> None:
    await check_poisoned(FaultyDisk(seed), 1, fault)


@pytest.mark.parametrize("seed", SEEDS)
async def test_what_a_failed_sync_left_in_the_page_cache_is_durable_once_it_was_served(seed: int) -> None:
    disk = FaultyDisk(seed)
    async with opened(FOLDER, disk) as log:
        batches = [(await log.append(b"first"), b"first")]
        disk.fail("sync")
        with pytest.raises(LogError):
            await log.append(b"other")
    found = await stored(FOLDER, disk)
    # Nothing has crashed, so the page cache still shows the batch, and replay has served it.
    assert [payload for _, payload in found] == [b"first", b"other"]
    assert found[:1] == batches
    disk.crash()
    assert await stored(FOLDER, disk) == found


async def test_it_does_not_open_while_the_last_frame_cannot_be_made_durable() -> None:
    disk = FaultyDisk()
    await written(FOLDER, [b"first", b"other"], disk)
    for fault in FAULTS.values():
        fault(disk)
        with pytest.raises(LogError, match="cannot be opened"):
            await stored(FOLDER, disk)


@pytest.mark.parametrize("operation", ["unlink", "sync_directory"])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("crashes", ["before the retry", "after it"])
async def test_a_failed_trim_is_tried_again_keeps_appending_and_leaves_no_gap(
    crashes: str, operation: str, seed: int
) -> None:
    disk = FaultyDisk(seed)
    async with opened(FOLDER, disk, segment_bytes_max=1) as log:
        batches = [(await log.append(b"%05d" % n), b"%05d" % n) for n in range(6)]
        disk.fail(operation, skip=1)
        await log.trim(batches[4][0])
        assert log.trim_failure is not None
        assert log.trim_failures == 1
        batches.append((await log.append(b"after"), b"after"))
        if crashes == "after it":
            await log.trim(batches[4][0])
            assert [log.trim_failure, log.trim_failures] == [None, 1]
            assert await replayed(log) == batches[4:]
    disk.crash()
    found = await stored(FOLDER, disk)
    assert found in [batches[first:] for first in ((1, 2) if crashes == "before the retry" else (4,))]


async def test_a_file_of_the_log_that_somebody_removed_is_no_failure() -> None:
    disk = FaultyDisk()
    async with opened(FOLDER, disk, segment_bytes_max=1) as log:
        batches = [(await log.append(b"%05d" % n), b"%05d" % n) for n in range(3)]
        disk.unlink(FOLDER / min(disk.sizes(FOLDER)))
        await log.trim(batches[1][0])
        assert log.trim_failure is None
        assert await replayed(log) == batches[1:]


async def test_trim_after_a_failed_first_append_to_a_segment_keeps_positions_growing() -> None:
    disk = FaultyDisk()
    async with opened(FOLDER, disk, segment_bytes_max=1) as log:
        last = await log.append(b"first")
        disk.fail("sync", skip=1)
        with pytest.raises(LogError):
            await log.append(b"other")
        with pytest.raises(LogError):
            await log.trim(2**62)
    disk.crash()
    assert (await stored(FOLDER, disk))[0] == (last, b"first")


async def test_a_failed_read_is_an_error_and_ends_nothing() -> None:
    disk = FaultyDisk()
    async with opened(FOLDER, disk) as log:
        position = await log.append(b"first")
        disk.fail("read")
        with pytest.raises(LogError, match="cannot be read"):
            await log.read([Extent(position, 0, 5)])
        disk.fail("read")
        with pytest.raises(LogError, match="cannot be read"):
            await replayed(log)
        await log.append(b"other")
        assert len(await replayed(log)) == 2
