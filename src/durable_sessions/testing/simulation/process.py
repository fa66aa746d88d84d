"""The server without HTTP, composed as ``node.engine`` does it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from durable_sessions.bucket.format import BucketFormat, ensure_format
from durable_sessions.bucket.probe import probe
from durable_sessions.bucket.store import Bucket
from durable_sessions.limits import Limits
from durable_sessions.log.file import FileLog
from durable_sessions.node.supervisor import Supervisor
from durable_sessions.partition_id import PartitionId
from durable_sessions.sessions.event_ids import names_of
from durable_sessions.sessions.indexing import index_of
from durable_sessions.sessions.store import Sessions
from durable_sessions.sessions.work import Works
from durable_sessions.storage.flush import Flusher
from durable_sessions.storage.partition import Partition
from durable_sessions.testing.disk import FaultyDisk
from durable_sessions.testing.simulation.bucket import SimulatedStore
from durable_sessions.testing.simulation.clock import SeededIds, SimulatedClock
from durable_sessions.testing.simulation.disk import DiskFaults, SimulatedDisk
from durable_sessions.testing.simulation.life import Life
from durable_sessions.testing.simulation.loop import SimulatedLoop, SimulatedWriter
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.maintenance import Maintenance
from durable_sessions.tier.ownership import require_own

LOG_DIRECTORY = Path("/data/log")


@dataclass(slots=True)
class Machine:
    """What survives a process: disk, bucket, clock, and the folder with the catalog."""

    loop: SimulatedLoop
    clock: SimulatedClock
    ids: SeededIds
    disk: FaultyDisk
    disk_faults: DiskFaults
    store: SimulatedStore
    folder: Path
    limits: Limits
    flush_seconds: float
    note: Callable[[str], None]
    partition: PartitionId
    problems: list[str] = field(default_factory=list)

    def check_removal(self, segment: Path) -> None:
        """Check that a segment of the log is removed only when the bucket has all of it."""
        if segment.suffix != ".log":
            return
        names = (name for name in self.disk.sizes(LOG_DIRECTORY) if name.endswith(".log"))
        following = [name for name in names if name > segment.name]
        manifest = self.store.newest_manifest(self.partition)
        flushed_through = 0 if manifest is None else manifest.flushed_through
        if following and int(Path(min(following)).stem) > flushed_through:
            problem = f"{segment.name} is removed, but the bucket has only what came before {flushed_through}"
            self.problems.append(problem)

    @property
    def catalog(self) -> Path:
        """Where the catalog is: in a real file, because SQLite is part of the engine."""
        return self.folder / "catalog.sqlite"


class Process:
    """One run of the server on a machine."""

    def __init__(self, machine: Machine, life: Life) -> None:
        self.machine = machine
        self.life = life
        self.serving = False
        self.log: FileLog
        self.archive: BucketArchive | None = None
        self.partition: Partition
        self.sessions: Sessions
        self.works: Works
        self.flusher: Flusher
        self.maintenance: Maintenance

    async def open(self) -> None:
        """Start; raises what a server's start would."""
        machine = self.machine
        disk = SimulatedDisk(
            machine.disk, machine.disk_faults, self.life, machine.note, machine.check_removal
        )
        self.log = await FileLog.open(
            LOG_DIRECTORY,
            segment_bytes_max=machine.limits.log_segment_bytes_max,
            disk=disk,
            salt=machine.ids.salt,
            writer=SimulatedWriter,
        )
        bucket = Bucket(machine.store, "simulated", ids=machine.ids)
        await require_own(self.log, bucket, machine.partition)
        await probe(bucket, machine.ids)
        await ensure_format(bucket, BucketFormat(partitions=machine.partition.of))
        self.archive = await BucketArchive.open(
            bucket,
            machine.catalog,
            machine.clock,
            machine.ids,
            machine.limits,
            names_of,
            index_of,
            log=self.log,
            partition=machine.partition,
        )
        self.partition = await Partition.open(self.log, machine.clock, machine.limits, self.archive)
        self.sessions = Sessions(
            self.partition, machine.clock, machine.ids, machine.limits, machine.partition
        )
        self.works = Works(self.sessions, machine.clock, machine.ids, machine.limits)
        self.flusher = Flusher(self.partition, machine.clock, machine.limits, machine.flush_seconds)
        self.maintenance = Maintenance(self.archive, machine.clock, machine.limits)
        supervisor = Supervisor(machine.clock, machine.limits)
        self.flusher.start(supervisor)
        self.maintenance.start(supervisor)
        self._sweeper = supervisor.start("expiry", self._expire)
        self.serving = True

    @property
    def ailing(self) -> bool:
        """Whether an operator would restart it: it accepts nothing, or flushes have failed for long."""
        failure = self.flusher.failure
        flushing_fails = failure is not None and self.machine.clock.now_ms() - failure.since_ms > 60_000
        return self.partition.counts().stopped or flushing_fails

    async def close(self) -> None:
        """Shut down cleanly, as the server does."""
        assert self.archive is not None
        await self._sweeper.stop()
        await self.partition.close()
        await self.maintenance.close()
        await self.flusher.close()
        # The catalog waits for its thread when it is closed; here that thread needs time to pass.
        await self.machine.loop.finished(self.archive.catalog._worker)
        await self.archive.close()
        self.archive = None
        await self.log.close()

    def release_files(self) -> None:
        """Close the catalog's file of a process that has died."""
        if self.archive is not None:
            self.archive.catalog.close()

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(self.machine.limits.expiry_sweep_seconds)
            self.partition.expire()
