"""The log in a directory of one machine."""

import asyncio
import math
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import structlog

from durable_sessions.errors import LogDamagedError, LogError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.log import Claimant, Extent, lineage
from durable_sessions.log.disk import REAL_DISK, Disk
from durable_sessions.log.extents import read_extents
from durable_sessions.log.frame import FRAME_BYTES, HEADER_BYTES, Batch
from durable_sessions.log.handoff import BlockingWriter, WriterThread
from durable_sessions.log.lineage import Lineage, read_lineage
from durable_sessions.log.recovery import recover
from durable_sessions.log.segment import ActiveSegment, Segment, frame_checksum, read_batches

logger = structlog.get_logger(__name__)


def random_salt() -> int:
    """Return 64 unpredictable bits."""
    return secrets.randbits(64)


class FileLog:
    """A log whose batches are on this machine's disk when their append returns.

    One process at a time. A failed write or sync ends all appending until the log is opened
    again; what was durable stays readable.
    """

    def __init__(
        self,
        directory: Path,
        segments: tuple[Segment, ...],
        known: Lineage,
        release: Callable[[], None],
        *,
        segment_bytes_max: int,
        disk: Disk,
        salt: Callable[[], int],
        writer: Callable[[str], BlockingWriter],
    ) -> None:
        self.bytes_written = 0
        self.syncs = 0
        self._directory = directory
        self._lineage = known
        self._release = release
        self._segment_bytes_max = segment_bytes_max
        self._disk = disk
        self._salt = salt
        # Segments with a durable batch, oldest first. Replaced as a whole, under the lock, by the
        # writer thread (rotation) and by worker threads (trim); read anywhere.
        self._segments = segments
        self._lock = threading.Lock()
        self._active: ActiveSegment | None = None
        self._failure: str | None = None
        self._begins_file = False
        self._unsynced_removal = False
        self.trim_failure: str | None = None
        self.trim_failures = 0
        self._floor = 0
        self._closed = False
        self._writer = writer("log-writer")

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        segment_bytes_max: int = DEFAULT_LIMITS.log_segment_bytes_max,
        disk: Disk = REAL_DISK,
        salt: Callable[[], int] = random_salt,
        writer: Callable[[str], BlockingWriter] = WriterThread,
    ) -> "FileLog":
        """Open the log in ``directory``, which is created if missing; no segment is created.

        A torn end is cut. What can be replayed afterwards is durable. Raises LogLockedError,
        LogDamagedError, LogVersionError, or LogError if the disk fails.
        """

        def claim_and_recover() -> tuple[Callable[[], None], Lineage, tuple[Segment, ...]]:
            # The lock comes first: recovery cuts and rewrites the end of the log, which a running server must
            # never see.
            release = disk.claim(directory)
            try:
                return release, read_lineage(disk, directory), recover(disk, directory)
            except BaseException:
                release()
                raise

        try:
            release, known, segments = await asyncio.to_thread(claim_and_recover)
        except OSError as error:
            raise LogError(reason=f"{directory} cannot be opened: {error}") from error
        return cls(
            directory,
            segments,
            known,
            release,
            segment_bytes_max=segment_bytes_max,
            disk=disk,
            salt=salt,
            writer=writer,
        )

    @property
    def begins_after(self) -> int:
        """The address before which the log was trimmed."""
        return self._segments[0].base if self._segments else 0

    @property
    def location(self) -> str:
        """The directory."""
        return str(self._directory)

    @property
    def lineage(self) -> str | None:
        """The random name that ties the log to its bucket; None until it is tied."""
        return self._lineage.tied

    @property
    def intended(self) -> str | None:
        """The lineage that was being tied to the log when its process ended, or None."""
        return self._lineage.intended

    async def intend(self, name: str) -> None:
        """Record durably that the next manifest may carry this lineage."""
        self._lineage = await self._keep(lineage.intend, name)

    async def tie(self, name: str) -> None:
        """Record durably that a manifest carries this lineage: from now on the log has a bucket."""
        self._lineage = await self._keep(lineage.tie, name)

    async def _keep(self, step: Callable[[Disk, Path, Lineage, str], Lineage], name: str) -> Lineage:
        try:
            return await asyncio.to_thread(step, self._disk, self._directory, self._lineage, name)
        except OSError as error:
            raise LogError(reason=f"the lineage cannot be kept in {self._directory}: {error}") from error

    @property
    def ends_at(self) -> int | None:
        """The address after the last batch, None for a log that has never had one."""
        return self._segments[-1].end if self._segments else None

    def begin_at(self, address: int) -> None:
        """Make a log that has never had a batch give out only positions greater than this address."""
        assert not self._segments, "the log has its own positions already"
        self._floor = address

    @property
    def proven_until(self) -> float:
        """For ever: no successor can open the log while this process lives, stopped or not."""
        return math.inf

    async def claim(self, by: Claimant) -> int:
        """Return the address at which this process goes on; the lock that opening took is the claim.

        No frame is written: the lock already keeps everybody else out, and a log that nobody appends to
        keeps its bytes.
        """
        self._refuse_if_stopped()
        return self._floor if self.ends_at is None else self.ends_at

    async def prove(self) -> None:
        """Do nothing: the lock is the proof."""
        self._refuse_if_stopped()

    @property
    def segment_count(self) -> int:
        """How many segment files hold batches."""
        return len(self._segments)

    @property
    def segment_bytes(self) -> int:
        """How many bytes the segment files have."""
        return sum(segment.size for segment in self._segments)

    async def append(self, batch: bytes) -> int:
        """Make ``batch`` durable and return its position; on return it survives power loss.

        One at a time. After an error it is unknown whether the batch is durable.
        """
        self._refuse_if_stopped()
        return await self._writer.call(partial(self._append, batch))

    def _refuse_if_stopped(self) -> None:
        if self._closed:
            raise LogError(reason="it is closed")
        if self._failure is not None:
            raise LogError(reason=f"it takes nothing more since {self._failure}")

    def _append(self, batch: bytes) -> int:
        try:
            active = self._active
            # The first append after opening starts a new segment as well. Its frames get this process's salt,
            # which tells copies of a data directory apart.
            if active is None or self._begins_file or active.segment.size >= self._segment_bytes_max:
                active = self._rotate()
            position = active.append(batch)
        except OSError as error:
            # Never try again: after a failed sync the kernel may drop the dirty pages and report success the
            # next time. Only reading the log back tells what is on disk.
            self._failure = f"an append failed: {error}"
            raise LogError(reason=self._failure) from error
        self.bytes_written += FRAME_BYTES + len(batch)
        self.syncs += 1
        # A new segment counts from its first durable batch on. Until then trim must keep the one
        # before it, or a crash could leave no batch from which to tell the next position.
        if not self._segments or self._segments[-1] is not active.segment:
            with self._lock:
                self._segments = (*self._segments, active.segment)
        return position

    def begin_file(self) -> None:
        """Begin a new segment with the next append, so that trimming can remove all batches before it."""
        self._begins_file = True

    def _rotate(self) -> ActiveSegment:
        self._begins_file = False
        if self._active is not None:
            self._active.close()
            self._active = None
        base = self._segments[-1].end if self._segments else self._floor
        self._active = ActiveSegment.create(self._disk, self._directory, base, self._salt())
        self.bytes_written += HEADER_BYTES
        self.syncs += 2
        return self._active

    async def replay(self, after: int = 0) -> AsyncIterator[Batch]:
        """Yield every batch with a position greater than ``after`` that is durable now, verified, in order.

        Raises LogDamagedError at a batch that is not as it was written.
        """
        for segment in self._segments:
            if segment.end <= after:
                continue
            # The size is read once: batches that become durable during the replay are not part of it.
            offset, size = HEADER_BYTES, segment.size
            while offset < size:
                batches, offset = await asyncio.to_thread(self._read_batches, segment, offset)
                for batch in batches:
                    if batch[0] > after:
                        yield batch

    def _read_batches(self, segment: Segment, offset: int) -> tuple[list[Batch], int]:
        try:
            with closing(self._disk.open(segment.path)) as file:
                batches, end = read_batches(file, segment, offset)
        except OSError as error:
            raise LogError(reason=f"{segment.path} cannot be read: {error}") from error
        if not batches:
            raise LogDamagedError(file=str(segment.path), byte=offset, problem="a frame is broken")
        return batches, end

    async def read(self, extents: Sequence[Extent]) -> list[bytes]:
        """Return exactly the bytes of each extent, never fewer; LogError if they are not all there.

        The checksums of frames are not verified, because they cover whole batches.
        """
        return await asyncio.to_thread(read_extents, self._disk, self._segments, extents)

    async def checksum(self, position: int) -> int | None:
        """Return the checksum of the frame at a position, verified; None if there is no such frame."""
        return await asyncio.to_thread(self._checksum, position)

    def _checksum(self, position: int) -> int | None:
        for segment in self._segments:
            # An empty batch at the end of a segment has the segment's end as its position. The next segment
            # begins at that address, but its first position lies behind a frame header.
            if segment.base < position <= segment.end:
                try:
                    with closing(self._disk.open(segment.path)) as file:
                        return frame_checksum(file, segment, position)
                except OSError as error:
                    raise LogError(reason=f"{segment.path} cannot be read: {error}") from error
        return None

    async def trim(self, through: int) -> None:
        """Remove the segments that end before the address ``through``, never the newest.

        A batch before ``through`` that shares its segment with a later one stays. The batch at ``through``
        always stays, even an empty one that ends there: it proves which log this is. A file that cannot be
        removed stays too, which does no harm: ``trim_failure`` says why, and the next call tries again.
        """
        while await asyncio.to_thread(self._trim_one, through):
            pass

    def _trim_one(self, through: int) -> bool:
        with self._lock:
            self._refuse_if_stopped()
            try:
                # Each removal is synced before the next, so that no crash can leave a gap.
                if self._unsynced_removal:
                    self._disk.sync_directory(self._directory)
                    self._unsynced_removal = False
                if len(self._segments) < 2 or self._segments[0].end >= through:
                    self.trim_failure = None
                    return False
                self._remove_oldest()
                return True
            except OSError as error:
                self.trim_failures += 1
                if self.trim_failure is None:
                    logger.error("log_not_trimmed", reason=str(error))
                self.trim_failure = str(error)
                return False

    def _remove_oldest(self) -> None:
        oldest, *rest = self._segments
        self._segments = tuple(rest)  # before the file goes, so that no new reader opens it
        try:
            self._disk.unlink(oldest.path)
        except FileNotFoundError:
            pass
        except OSError:
            self._segments = (oldest, *rest)
            raise
        self._unsynced_removal = True

    async def close(self) -> None:
        """Finish the append in flight and release the directory."""
        if not self._closed:
            self._closed = True
            await self._writer.stop(self._release_files)

    def _release_files(self) -> None:
        # Under the lock: a trim in a worker thread must end before another process may open the directory.
        with self._lock:
            if self._active is not None:
                self._active.close()
            self._release()
