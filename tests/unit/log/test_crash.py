"""Power loss after every single disk operation."""

from dataclasses import dataclass, field

import pytest

from durable_sessions.errors import LogError
from durable_sessions.log.file import FileLog
from durable_sessions.log.frame import Batch
from durable_sessions.testing.disk import SECTOR_BYTES, FaultyDisk
from tests.unit.log.support import FOLDER, opened, replayed

pytestmark = pytest.mark.anyio

SEGMENT_BYTES_MAX = 2_000
SIZES = [5, 0, 700, 1, SECTOR_BYTES * 3, 40, 41, 1_900, 3, 600]


@dataclass
class Client:
    """Appends to a log, and knows what it may expect of it after a crash."""

    acknowledged: list[Batch] = field(default_factory=list)
    unknown: bytes | None = None
    trimmed_through: int = 0
    _count: int = 0

    async def append(self, log: FileLog, size: int) -> None:
        self._count += 1
        payload = (b"%06d" % self._count * (size // 6 + 1))[:size]
        self.unknown = payload
        position = await log.append(payload)
        assert position > (self.acknowledged[-1][0] if self.acknowledged else 0)
        self.acknowledged.append((position, payload))
        self.unknown = None

    async def trim(self, log: FileLog) -> None:
        self.trimmed_through = self.acknowledged[len(self.acknowledged) // 2][0]
        await log.trim(self.trimmed_through)

    def check(self, found: list[Batch]) -> None:
        """Every acknowledged batch is there, in order; at most the unacknowledged one comes after."""
        needed = [batch for batch in self.acknowledged if batch[0] > self.trimmed_through]
        last = self.acknowledged[-1][0] if self.acknowledged else 0
        kept = [batch for batch in found if batch[0] <= last]
        extra = [batch for batch in found if batch[0] > last]
        assert kept == self.acknowledged[len(self.acknowledged) - len(kept) :]
        assert len(kept) >= len(needed)
        assert [payload for _, payload in extra] in ([], [self.unknown])
        self.acknowledged += extra
        self.unknown = None


async def workload(disk: FaultyDisk, client: Client) -> None:
    """Open, append, rotate and trim, three times over."""
    for _ in range(3):
        async with opened(FOLDER, disk, SEGMENT_BYTES_MAX) as log:
            client.check(await replayed(log))
            for size in SIZES:
                await client.append(log, size)
            await client.trim(log)
            await client.append(log, 100)


async def operations_of_workload() -> int:
    disk = FaultyDisk()
    await workload(disk, Client())
    return len(disk.operations)


async def crashed(disk: FaultyDisk, client: Client, after: int) -> None:
    disk.cut_power(after)
    with pytest.raises(LogError):
        await workload(disk, client)
    disk.crash()


async def check_survival(disk: FaultyDisk, client: Client) -> None:
    for _ in range(2):
        async with opened(FOLDER, disk, SEGMENT_BYTES_MAX) as log:
            client.check(await replayed(log))
            await client.append(log, 50)
            await client.append(log, 2_000)
        disk.crash()
    async with opened(FOLDER, disk, SEGMENT_BYTES_MAX) as log:
        client.check(await replayed(log))


@pytest.mark.parametrize("seed", range(8))
async def test_power_loss_after_every_operation(seed: int) -> None:
    for after in range(await operations_of_workload()):
        disk, client = FaultyDisk(seed * 1000 + after), Client()
        await crashed(disk, client, after)
        await check_survival(disk, client)


@pytest.mark.parametrize("seed", range(2))
async def test_power_loss_again_during_recovery(seed: int) -> None:
    for after in range(0, await operations_of_workload(), 2):
        for again in range(6):
            disk, client = FaultyDisk(seed * 1000 + after), Client()
            await crashed(disk, client, after)
            await crashed(disk, client, again)
            await check_survival(disk, client)


async def test_power_loss_after_every_operation_that_follows_a_failed_sync() -> None:
    for after in range(40):
        disk, client = FaultyDisk(after), Client()
        async with opened(FOLDER, disk, SEGMENT_BYTES_MAX) as log:
            for size in SIZES[: after % len(SIZES)]:
                await client.append(log, size)
            disk.fail("sync")
            with pytest.raises(LogError):
                await client.append(log, 600)
        await crashed(disk, client, after)
        await check_survival(disk, client)


async def test_the_same_seed_loses_the_same_bytes() -> None:
    contents = []
    for _ in range(2):
        disk = FaultyDisk(seed=4)
        await crashed(disk, Client(), 40)
        contents.append(disk.contents())
    assert contents[0] == contents[1]
