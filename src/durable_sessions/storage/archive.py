"""The interface of a partition's archive: streams and records as of the last flush."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

from durable_sessions.errors import ManifestLostError
from durable_sessions.partition_id import PartitionId
from durable_sessions.storage.indexed import IndexOf, Place, TimeOrder, nothing_indexed
from durable_sessions.storage.record_reader import FlushedRecords
from durable_sessions.storage.retention import Retention
from durable_sessions.streams.effects import Effect, ErasedRecord
from durable_sessions.streams.state import ColdStreams, NothingCold
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.streams.usage import WorkspaceUsage


class Flushed(NamedTuple):
    """The result of a flush: the tails of changed streams, the removed ones, and the log position reached."""

    tails: dict[int, int]
    removed: list[int]
    through: int


class Archive(Protocol):
    """Everything up to ``flushed_through`` in the log, in a form that outlives the log."""

    @property
    def cold(self) -> ColdStreams:
        """The streams as of the last flush."""
        ...

    @property
    def records(self) -> FlushedRecords:
        """The records as of the last flush."""
        ...

    @property
    def flushed_through(self) -> int:
        """The position of the log up to which everything is archived."""
        ...

    @property
    def next_stream(self) -> int:
        """A number that no stream has had."""
        ...

    async def subscriptions(self) -> Sequence[Effect]:
        """Return effects that give the subscriptions and the outbox as of the last flush."""
        ...

    async def govern(self, retention: Retention) -> None:
        """Apply these retention policies from now on when looking for streams that are due."""
        ...

    def due(self, now_ms: int) -> Iterable[tuple[int, Key]]:
        """Return number and path of the streams that have expired by ``now_ms``, as of the last flush."""
        ...

    def paths_after(self, workspace: str, prefix: str, after: str, limit: int) -> Sequence[tuple[int, str]]:
        """Return number and path of the next streams with a prefix, ordered by path, as of the last flush."""
        ...

    def numbers(
        self, workspace: str, folder: str, after: int | None, *, newest_first: bool
    ) -> AbstractContextManager[Iterator[int]]:
        """Yield the numbers of a folder's streams after a given one, in order, as of the last flush."""
        ...

    @property
    def index_of(self) -> IndexOf:
        """What streams are listed by beside their numbers."""
        ...

    def places(
        self, workspace: str, folder: str, order: TimeOrder, after: Place | None, *, newest_first: bool
    ) -> AbstractContextManager[Iterator[Place]]:
        """Yield the places of a folder's streams behind a given one, in order, as of the last flush."""
        ...

    def with_term(
        self, workspace: str, folder: str, term: int, after: int | None, *, newest_first: bool
    ) -> AbstractContextManager[Iterator[int]]:
        """Yield the numbers of a folder's streams that have a term, in order, as of the last flush."""
        ...

    def slot_holders(
        self, workspace: str, name: str, after: int | None, *, newest_first: bool
    ) -> AbstractContextManager[Iterator[int]]:
        """Yield the numbers of streams that may hold a slot, in order, as of the last flush."""
        ...

    def streams_after(self, number: int, prefix: str, limit: int) -> tuple[int | None, Sequence[Stream]]:
        """Scan the next streams by number, as of the last flush.

        Return the number of the last one scanned (None at the end), and those whose paths have the prefix.
        """
        ...

    def settled_erasures(self, limit: int) -> Sequence[tuple[int, Sequence[ErasedRecord]]]:
        """Return erased records that are not archived any more, by stream, of at most ``limit`` streams."""
        ...

    def stream_count(self) -> int:
        """Return how many streams there were at the last flush."""
        ...

    def usage(self) -> dict[str, WorkspaceUsage]:
        """Return what each workspace held at the last flush."""
        ...

    async def flush(self, batches: Sequence[bytes], through: int) -> Flushed:
        """Archive the batches after the last flush, up to ``through``; all or nothing."""
        ...

    async def skip(self, through: int) -> None:
        """Record that the log has no batch between the last flush and ``through``."""
        ...

    async def check_fence(self) -> None:
        """Raise ManifestLostError if another writer has taken over the archive."""
        ...

    def call_when_lost(self, on_lost: Callable[[ManifestLostError], None]) -> None:
        """Set the callback that is called at once when another writer has taken over the archive."""
        ...


class NothingArchived:
    """The archive of a partition that keeps everything in its log."""

    flushed_through = 0

    def __init__(self, partition: PartitionId, index_of: IndexOf = nothing_indexed) -> None:
        self.index_of = index_of
        self.next_stream = partition.streams.start
        self.cold: ColdStreams = NothingCold()
        self.records: FlushedRecords = self

    async def read(
        self, stream: int, start: int, stop: int, bytes_max: int
    ) -> tuple[list[memoryview], int, bool]:
        """Refuse: nothing is archived."""
        raise AssertionError

    async def append_end(self, stream: int, position: int) -> int:
        """Refuse: nothing is archived."""
        raise AssertionError

    async def subscriptions(self) -> Sequence[Effect]:
        """Return nothing."""
        return ()

    async def govern(self, retention: Retention) -> None:
        """Do nothing: no stream is ever due."""

    def due(self, now_ms: int) -> Iterable[tuple[int, Key]]:
        """Return nothing."""
        return ()

    def paths_after(self, workspace: str, prefix: str, after: str, limit: int) -> Sequence[tuple[int, str]]:
        """Return nothing."""
        return ()

    def numbers(
        self, workspace: str, folder: str, after: int | None, *, newest_first: bool
    ) -> AbstractContextManager[Iterator[int]]:
        """Yield nothing."""
        return nullcontext(iter(()))

    def places(
        self, workspace: str, folder: str, order: TimeOrder, after: Place | None, *, newest_first: bool
    ) -> AbstractContextManager[Iterator[Place]]:
        """Yield nothing."""
        return nullcontext(iter(()))

    def slot_holders(
        self, workspace: str, name: str, after: int | None, *, newest_first: bool
    ) -> AbstractContextManager[Iterator[int]]:
        """Yield nothing."""
        return nullcontext(iter(()))

    def with_term(
        self, workspace: str, folder: str, term: int, after: int | None, *, newest_first: bool
    ) -> AbstractContextManager[Iterator[int]]:
        """Yield nothing."""
        return nullcontext(iter(()))

    def streams_after(self, number: int, prefix: str, limit: int) -> tuple[int | None, Sequence[Stream]]:
        """Return nothing."""
        return None, ()

    def settled_erasures(self, limit: int) -> Sequence[tuple[int, Sequence[ErasedRecord]]]:
        """Return nothing: what is only in the log needs its overlay."""
        return ()

    def stream_count(self) -> int:
        """Return 0."""
        return 0

    def usage(self) -> dict[str, WorkspaceUsage]:
        """Return nothing."""
        return {}

    async def flush(self, batches: Sequence[bytes], through: int) -> Flushed:
        """Refuse: there is nowhere to flush to."""
        raise AssertionError

    async def skip(self, through: int) -> None:
        """Refuse: nothing is archived, so that nothing may be trimmed."""
        raise AssertionError

    async def check_fence(self) -> None:
        """Do nothing: there is no archive to lose."""

    def call_when_lost(self, on_lost: Callable[[ManifestLostError], None]) -> None:
        """Do nothing: there is no archive to lose."""
