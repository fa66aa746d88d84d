"""The probe of a disk: it says whether writes work, and leaves nothing behind."""

import errno

import pytest

from durable_sessions.log.probe import NAME, probe
from durable_sessions.testing.disk import FaultyDisk
from tests.unit.log.support import FOLDER, stored, written

pytestmark = pytest.mark.anyio


def test_a_disk_that_works() -> None:
    disk = FaultyDisk()
    probe(disk, FOLDER, 1000)
    assert disk.sizes(FOLDER) == {}


@pytest.mark.parametrize("operation", ["create", "write", "sync"])
def test_a_disk_that_fails(operation: str) -> None:
    disk = FaultyDisk()
    disk.fail(operation, errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"):
        probe(disk, FOLDER, 1000)
    assert disk.sizes(FOLDER) == {}
    probe(disk, FOLDER, 1000)


def test_a_short_write_is_a_failure() -> None:
    disk = FaultyDisk()
    disk.write_short(7)
    with pytest.raises(OSError, match="only 7 of 1000"):
        probe(disk, FOLDER, 1000)


async def test_what_a_crash_left_of_it_harms_neither_the_next_one_nor_the_log() -> None:
    disk = FaultyDisk()
    batches = await written(FOLDER, [b"one", b"two"], disk)
    disk.create(FOLDER / NAME).close()
    assert await stored(FOLDER, disk) == batches
    probe(disk, FOLDER, 1000)
    assert NAME not in disk.sizes(FOLDER)
