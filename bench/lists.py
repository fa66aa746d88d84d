"""Lists: what a page costs that is found by an index, among few sessions and among many.

``python -m bench.lists [sessions]`` makes partitions with few and with that many sessions, and asks both by
turns for ten sessions by their metadata and for the newest hundred by activity. HTTP is not measured. What
counts is processor time, of all threads: it changes less than time with what else runs on the machine.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from durable_sessions.access.caller import Caller, Role
from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import SystemClock
from durable_sessions.http.api.sessions.listing import listed
from durable_sessions.http.carrier.message import Request
from durable_sessions.ids import RandomIds
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.sessions.create import NewSession
from durable_sessions.sessions.event_ids import names_of
from durable_sessions.sessions.indexing import index_of
from durable_sessions.sessions.outline.outlines import Outlines
from durable_sessions.sessions.record import Record
from durable_sessions.sessions.store import Sessions, session_key
from durable_sessions.sessions.views_file import ViewsFile
from durable_sessions.storage.partition import Partition
from durable_sessions.testing.memory_log import MemoryLog
from durable_sessions.tier.bucket_archive import BucketArchive

SESSIONS = 100_000
FEW_BY_METADATA, FEW_BY_ACTIVITY = 100, 1_000
MATCHES = 10
ROUNDS = 300
AT_ONCE = 500
CALLER = Caller("default", "bench", Role.READER, None)
BY_METADATA, BY_ACTIVITY = b"metadata[team]=rare&limit=20", b"sort=activity&limit=100"


class Listing:
    """A partition with sessions, ten of which have a rare pair of metadata."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def open(self, sessions: int) -> "Listing":
        """Fill it, flush, and let what is idle leave memory."""
        log, clock, ids, limits = MemoryLog(), SystemClock(), RandomIds(), DEFAULT_LIMITS
        bucket = await Bucket.open(self._folder / "bucket")
        catalog = self._folder / "catalog.sqlite"
        self._archive = await BucketArchive.open(
            bucket, catalog, clock, ids, limits, names_of, index_of, log=log, partition=ONLY_PARTITION
        )
        self._partition = await Partition.open(log, clock, limits, self._archive)
        self._sessions = Sessions(self._partition, clock, ids, limits, ONLY_PARTITION)
        self._views = ViewsFile(self._folder / "views.sqlite", limits.views_bytes_max)
        self._outlines = Outlines(self._sessions, self._views, limits)
        rare = set(range(0, sessions, max(1, sessions // MATCHES)))
        for begin in range(0, sessions, AT_ONCE):
            numbers = range(begin, min(begin + AT_ONCE, sessions))
            await asyncio.gather(*(self._create(number, rare=number in rare) for number in numbers))
        while await self._partition.flush():
            pass
        for _ in range(3):
            await self._partition.evict_idle()
        return self

    async def _create(self, number: int, *, rare: bool) -> None:
        team = b'"rare"' if rare else b'"common"'
        said = Record(metadata={"team": msgspec.Raw(team), "number": msgspec.Raw(b"%d" % number)})
        key = session_key("default", f"ses_{number:08d}")
        await self._sessions.create(key, NewSession(said, "bench", []), 0)

    async def page(self, query: bytes) -> bytes:
        """Return a page of the list."""
        request = Request(b"GET", b"/v1/sessions", query, {}, b"")
        return await listed(self._sessions, self._outlines, request, CALLER)

    async def close(self) -> None:
        """Release everything."""
        await self._partition.close()
        await self._archive.close()
        self._views.close()


async def timed(act: Callable[[], Awaitable[object]]) -> float:
    """Return how many milliseconds of processor time something takes."""
    began = time.process_time()
    await act()
    return 1_000 * (time.process_time() - began)


async def compare(few: int, many: int, query: bytes, expected: int, rounds: int) -> tuple[float, float]:
    """Return the medians of a page among few sessions and among many, measured by turns."""
    with tempfile.TemporaryDirectory(prefix="bench-lists-") as name:
        places = [Path(name, "few"), Path(name, "many")]
        for place in places:
            place.mkdir()
        small, large = [
            await Listing(place).open(count) for place, count in zip(places, (few, many), strict=True)
        ]
        found: tuple[list[float], list[float]] = ([], [])
        for _ in range(rounds):
            for times, listing in zip(found, (small, large), strict=True):
                times.append(await timed(lambda listing=listing: listing.page(query)))  # type: ignore[misc]
        for listing in (small, large):
            assert (await listing.page(query)).count(b'"type":"session"') == expected
            await listing.close()
    return statistics.median(found[0]), statistics.median(found[1])


def tell(sessions: int) -> None:
    """Measure, and print medians and ratios."""
    for what, few, query, expected, bound in (
        (f"{MATCHES} matches by metadata", FEW_BY_METADATA, BY_METADATA, MATCHES, 2.0),
        ("newest 100 by activity", FEW_BY_ACTIVITY, BY_ACTIVITY, 100, 1.5),
    ):
        small, large = asyncio.run(compare(few, sessions, query, expected, ROUNDS))
        print(
            f"{what}: of {few:,} {small:.2f} ms of processor time, of {sessions:,} {large:.2f} ms, "
            f"ratio {large / small:.2f} (at most {bound:g})"
        )


if __name__ == "__main__":
    tell(int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS)
