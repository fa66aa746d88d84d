"""A data directory whose every byte follows from this program, and from the formats that it writes.

``earlier.zip`` is what this made before partitions had numbers; it is not made anew.
"""

import json
from dataclasses import replace
from pathlib import Path

from durable_sessions.bucket.format import ensure_format
from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import ManualClock
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.log.file import FileLog
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.sessions.event_ids import names_of, tag
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.partition import Partition
from durable_sessions.streams import offsets
from durable_sessions.streams.append import Append
from durable_sessions.streams.create import Create, Fork
from durable_sessions.streams.effects import SubscriptionCreated
from durable_sessions.streams.stream import Key
from durable_sessions.testing.simulation.clock import SeededIds
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.maintenance import Maintenance
from tests.unit.sessions.world import batch, key

LIMITS = replace(DEFAULT_LIMITS, compaction_segments_min=3, checkpoints_max=3, memory_bytes_max=0)
SESSIONS = ("alpha", "beta")


class Directory:
    """A data directory opened up to its sessions."""

    def __init__(self, data: Path, seed: str) -> None:
        self._data = data
        self._ids = SeededIds(seed)
        self.clock = ManualClock()

    async def __aenter__(self) -> "Directory":
        self.log = await FileLog.open(self._data / "log", segment_bytes_max=4_000, salt=self._ids.salt)
        bucket = await Bucket.open(self._data / "bucket")
        await ensure_format(bucket)
        self.archive = await BucketArchive.open(
            bucket,
            self._data / "catalog.sqlite",
            self.clock,
            self._ids,
            LIMITS,
            names_of,
            log=self.log,
            partition=ONLY_PARTITION,
        )
        self.partition = await Partition.open(self.log, self.clock, LIMITS, self.archive)
        self.sessions = Sessions(self.partition, self.clock, self._ids, LIMITS, ONLY_PARTITION)
        self.maintenance = Maintenance(self.archive, self.clock, LIMITS)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.partition.close()
        await self.archive.close()
        await self.log.close()

    async def flush(self) -> None:
        """Move everything to the bucket, and merge what is to be merged."""
        while await self.partition.flush():
            pass
        while await self.maintenance.step():
            pass

    async def send(self, session: str, *events: dict[str, object], request: str | None = None) -> None:
        """Append events to a session."""
        await self.sessions.append_named(key(session), batch(LIMITS, *events, idempotency=request), 0)

    async def said(self) -> dict[str, object]:
        """Return all that a client has been told, and may come back with."""
        found: dict[str, object] = {}
        for session in (*SESSIONS, "later"):
            durable = self.sessions.find(key(session))
            page = await self.sessions.events.page(durable, 0, durable.tail, 1_000_000)
            found[session] = {
                "number": durable.stream.id,
                "incarnation": tag(durable.stream),
                "offset": offsets.encode(durable.tail),
                "ids": [event["id"] for event in json.loads(b"[%b]" % b"".join(page.pieces))],
            }
        for path in ("text", "fork"):
            durable = self.partition.find(Key("default", path))
            found[path] = {"number": durable.stream.id, "offset": offsets.encode(durable.tail)}
        return found


async def write(data: Path) -> dict[str, object]:
    """Make the directory, with flushes, merges and a log that goes on; return what clients were told."""
    async with Directory(data, "earlier") as one:
        text = Key("default", "text")
        await one.partition.create(text, Create(content_type="text/plain"))
        made = SubscriptionCreated("default", "sub", b'{"type":"pull-wake","lease_ttl_ms":1000}', "", 0)
        await one.partition.commit(lambda state, now_ms: ([made], None))
        for flush in range(5):
            for session in SESSIONS:
                await one.send(session, {"type": "x", "n": flush}, {"id": f"m{flush}", "type": "x"})
            await one.send("alpha", {"type": "user.message"}, request=f"key-{flush}")
            await one.partition.append(text, Append(b"%d;" % flush, "text/plain"))
            if flush == 1:
                await one.partition.create(Key("default", "fork"), Create(fork=Fork("text")))
            if flush == 2:
                await one.send("gone", {"type": "user.message"})
            if flush == 3:
                await one.partition.delete(Key("default", "sessions/gone"))
            one.clock.advance(60.0)
            if flush < 4:
                await one.flush()
        await one.send("later", {"type": "user.message"})
        return await one.said()
