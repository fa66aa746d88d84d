"""Opening: how long a server takes to have its catalog when the local one is missing, as after a reboot.

``python -m bench.opening [sessions]`` makes a bucket with that many sessions and opens it by turns with the
local catalog, from a snapshot, and from everything in the bucket. Only the archive is opened, not a server.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import SystemClock
from durable_sessions.ids import RandomIds
from durable_sessions.limits import DEFAULT_LIMITS, Limits
from durable_sessions.storage import batch
from durable_sessions.streams.effects import Effect, RecordsAppended, StreamCreated
from durable_sessions.testing.memory_log import MemoryLog
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.maintenance import Maintenance

SESSIONS = 100_000
PER_FLUSH = 10_000
LATER = 1_000
"""Sessions that go on after the snapshot, so that it has to be advanced."""
ROUNDS = 3
EVENT = b'{"type":"user.message","content":[{"type":"text","text":"Find out why the build fails."}]},'
NO_SNAPSHOT = replace(DEFAULT_LIMITS, snapshot_bytes_max=0)
"""With these a snapshot is neither written nor read."""
WAYS = {
    "local catalog": (DEFAULT_LIMITS, False),
    "snapshot": (DEFAULT_LIMITS, True),
    "everything": (NO_SNAPSHOT, True),
}
"""How to open: with which limits, and whether the local catalog is removed first."""


def batches(numbers: range, first: int, at_ms: int) -> Iterator[bytes]:
    """Yield a batch for each session: it begins, or goes on at ``first``."""
    for number in numbers:
        effects: list[Effect] = [
            RecordsAppended(number, first, at_ms, (len(EVENT),), None, None, False, EVENT)
        ]
        if not first:
            path = f"sessions/ses_{number:08d}"
            effects.insert(0, StreamCreated(number, "default", path, "application/json", at_ms))
        yield b"".join(map(batch.encode, effects))


async def flush(archive: BucketArchive, log: MemoryLog, numbers: range, first: int) -> None:
    """Write what sessions have appended to the log, and from there to the bucket."""
    written, position = list(batches(numbers, first, SystemClock().now_ms())), 0
    for one in written:
        position = await log.append(one)
    await archive.flush(written, position)


async def fill(folder: Path, log: MemoryLog, sessions: int) -> None:
    """Make a bucket with a snapshot of all sessions but what the last of them appended since."""
    archive = await opened(folder, log, DEFAULT_LIMITS)
    for begin in range(1, sessions + 1, PER_FLUSH):
        await flush(archive, log, range(begin, min(begin + PER_FLUSH, sessions + 1)), 0)
    maintenance = Maintenance(archive, SystemClock(), DEFAULT_LIMITS)
    while await maintenance.step():
        pass
    await flush(archive, log, range(1, min(LATER, sessions) + 1), 1)
    await archive.close()


async def opened(folder: Path, log: MemoryLog, limits: Limits) -> BucketArchive:
    """Open the archive."""
    bucket = await Bucket.open(folder / "bucket")
    catalog = folder / "catalog.sqlite"
    return await BucketArchive.open(bucket, catalog, SystemClock(), RandomIds(), limits, log=log)


async def measured(folder: Path, log: MemoryLog, limits: Limits, sessions: int, *, forget: bool) -> float:
    """Return how many seconds opening takes."""
    if forget:
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                (folder / f"catalog.sqlite{suffix}").unlink()
    began = time.perf_counter()
    archive = await opened(folder, log, limits)
    took = time.perf_counter() - began
    assert archive.stream_count() == sessions
    await archive.close()
    return took


async def run(sessions: int, rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Return how many seconds each way of opening took, by turns."""
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory(prefix="bench-opening-") as name:
        folder, log = Path(name), MemoryLog()
        await fill(folder, log, sessions)
        for _ in range(rounds):
            for way, (limits, forget) in WAYS.items():
                found[way].append(await measured(folder, log, limits, sessions, forget=forget))
    return found


def tell(sessions: int) -> None:
    """Measure, and print medians and ratios."""
    found = asyncio.run(run(sessions))
    print(f"opening {sessions:,} sessions, median of {ROUNDS}, seconds")
    everything = statistics.median(found["everything"])
    for way, seconds in found.items():
        median = statistics.median(seconds)
        print(f"  from {way:15}{median:8.2f}   {everything / median:6.1f} x as fast as from everything")


if __name__ == "__main__":
    tell(int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS)
