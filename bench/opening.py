"""Opening: how long a server takes to start when its local catalog is missing, as after a reboot.

``python -m bench.opening [sessions]`` makes a data directory with that many sessions. It opens the archive
alone by turns with the local catalog, from a snapshot, and from everything in the bucket. Then it starts
whole servers with and without the local catalog, and one on an empty directory: what any start takes.
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
from typing import NamedTuple

from bench import calls
from bench.place import Place, temporary_place
from bench.server import Server
from durable_sessions.bucket.partition_layout import PartitionLayout, ensure_layout
from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import SystemClock
from durable_sessions.ids import RandomIds
from durable_sessions.limits import DEFAULT_LIMITS, Limits
from durable_sessions.log.file import FileLog
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.sessions.event_ids import names_of
from durable_sessions.sessions.indexing import index_of
from durable_sessions.storage import batch
from durable_sessions.streams.effects import Effect, RecordsAppended, StreamCreated
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


async def flush(archive: BucketArchive, log: FileLog, numbers: range, first: int) -> None:
    """Write what sessions have appended to the log, and from there to the bucket."""
    written = b"".join(batches(numbers, first, SystemClock().now_ms()))
    await archive.flush([written], await log.append(written))
    await log.trim(archive.flushed_through)


async def fill(folder: Path, log: FileLog, sessions: int) -> None:
    """Make a bucket with a snapshot of all sessions but what the last of them appended since."""
    await ensure_layout(await Bucket.open(folder / "bucket"), PartitionLayout())
    archive = await opened(folder, log, DEFAULT_LIMITS)
    for begin in range(1, sessions + 1, PER_FLUSH):
        await flush(archive, log, range(begin, min(begin + PER_FLUSH, sessions + 1)), 0)
    maintenance = Maintenance(archive, SystemClock(), DEFAULT_LIMITS)
    while await maintenance.step():
        pass
    await flush(archive, log, range(1, min(LATER, sessions) + 1), 1)
    await archive.close()


async def opened(folder: Path, log: FileLog, limits: Limits) -> BucketArchive:
    """Open the archive."""
    bucket = await Bucket.open(folder / "bucket")
    catalog = folder / "catalog.sqlite"
    clock, ids = SystemClock(), RandomIds()
    return await BucketArchive.open(
        bucket, catalog, clock, ids, limits, names_of, index_of, log=log, partition=ONLY_PARTITION
    )


def forget_catalog(folder: Path) -> None:
    """Remove the local catalog."""
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            (folder / f"catalog.sqlite{suffix}").unlink()


class Took(NamedTuple):
    """What a start took: seconds, and seconds of processor time, which a busy machine does not make more."""

    seconds: float
    processor: float


def median(found: list[Took]) -> Took:
    """Return the median of each figure."""
    return Took(*(statistics.median(figures) for figures in zip(*found, strict=True)))


async def measured(folder: Path, log: FileLog, limits: Limits, sessions: int, *, forget: bool) -> Took:
    """Return what opening takes."""
    if forget:
        forget_catalog(folder)
    began, busy = time.perf_counter(), time.process_time()
    archive = await opened(folder, log, limits)
    took = Took(time.perf_counter() - began, time.process_time() - busy)
    assert archive.stream_count() == sessions
    await archive.close()
    return took


async def run(folder: Path, sessions: int, rounds: int = ROUNDS) -> dict[str, list[Took]]:
    """Return what each way of opening the archive took, by turns."""
    found: dict[str, list[Took]] = {way: [] for way in WAYS}
    log = await FileLog.open(folder / "log")
    await fill(folder, log, sessions)
    for _ in range(rounds):
        for way, (limits, forget) in WAYS.items():
            found[way].append(await measured(folder, log, limits, sessions, forget=forget))
    await log.close()
    return found


def run_servers(filled: Server, empty: Server, rounds: int = ROUNDS) -> dict[str, list[Took]]:
    """Return what each server took until it had read a session, by turns."""
    found: dict[str, list[Took]] = {"empty directory": [], "local catalog": [], "snapshot": []}
    for _ in range(rounds):
        for way, took in found.items():
            server = empty if way == "empty directory" else filled
            if way == "snapshot":
                forget_catalog(server.data)
            began = time.perf_counter()
            server.start_timed()
            if server is filled:
                status, _, body = calls.request("GET", f"{server.url}/v1/sessions/ses_00000001/events")
                assert status == 200, body
            took.append(Took(time.perf_counter() - began, server.cpu_seconds()))
            server.kill()
    return found


def tell(place: Place, sessions: int) -> None:
    """Measure, and print medians and ratios."""
    filled, empty = Server(place, name="filled"), Server(place, name="empty")
    found = asyncio.run(run(filled.data, sessions))
    print(f"opening {sessions:,} sessions, median of {ROUNDS}: seconds, and seconds of processor time")
    everything = median(found["everything"]).processor
    for way, took in found.items():
        seconds, processor = median(took)
        ratio = f"{everything / processor:6.1f} x as cheap as from everything"
        print(f"  from {way:15}{seconds:8.2f}{processor:8.2f}   {ratio}")
    print("a whole server, from its start until it has read a session")
    for way, took in run_servers(filled, empty).items():
        seconds, processor = median(took)
        print(f"  from {way:15}{seconds:8.2f}{processor:8.2f}")


if __name__ == "__main__":
    with temporary_place(Path(tempfile.gettempdir())) as chosen:
        tell(chosen, int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS)
