"""The one door to storage: the interface that all packages above it use.

It offers decisions to commit, read-only views of durable streams, records to read, pages to scan, and changes
to wait for or to listen to. :class:`~durable_sessions.storage.partition.Partition` implements it. Only the
composition root, which opens the partition, may import that class or its mutable streams.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from durable_sessions.errors import DurableSessionsError
from durable_sessions.storage.companions import Companion
from durable_sessions.storage.counts import BucketCounts, Failure, PartitionCounts
from durable_sessions.storage.indexed import Place, TimeOrder
from durable_sessions.storage.turns import Turn
from durable_sessions.streams.append import Append, AppendResult
from durable_sessions.streams.create import Create, Created, Fork
from durable_sessions.streams.effects import Effect, Name, RecordsAppended
from durable_sessions.streams.readonly import StreamHeader, StreamRecord
from durable_sessions.streams.slots import NameRange
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key

T = TypeVar("T")
R = TypeVar("R", contravariant=True)
DecidePlain = Callable[[StreamRecord, int], tuple[RecordsAppended, T] | None]
"""Decides an append to a stream at a time, if it only adds records: the effect, and what to tell of it."""


class Told(Protocol[R]):
    """Who is told what became of an append, instead of awaiting a future."""

    def durable(self, result: R) -> None:
        """It is durable."""
        ...

    def failed(self, error: DurableSessionsError) -> None:
        """It has failed, or what became of it is unknown."""
        ...


class StreamView(Protocol):
    """A pinned view of a durable stream: it is kept up to date for as long as it is referenced.

    There is one object per stream and it is not a copy, so getting it is free. It stays valid when the stream
    is evicted and loaded again. It never shows anything that is not durable yet, with one exception:
    ``stream.expired`` takes accesses into account whose record is still being written.
    """

    @property
    def stream(self) -> StreamHeader:
        """The properties that never change."""
        ...

    @property
    def tail(self) -> int:
        """The position after its last durable record."""
        ...

    @property
    def closed(self) -> bool:
        """Whether it accepts no more records."""
        ...

    @property
    def removed(self) -> bool:
        """Whether it is deleted; its records may be kept for forks."""
        ...

    @property
    def attributes(self) -> Mapping[str, bytes]:
        """The durable documents stored with it; replaced as a whole, never changed in place."""
        ...

    @property
    def changed_ms(self) -> int:
        """When a record or an attribute became durable last."""
        ...

    @property
    def record_bytes(self) -> int:
        """The size of all records that were appended to it."""
        ...

    @property
    def erasures(self) -> int:
        """How many of its own records were erased; the number only grows."""
        ...


class Slice(NamedTuple):
    """Consecutive records: their wire bytes, and the positions where they begin and end."""

    data: bytes
    first: int
    next: int


class StreamPage(NamedTuple):
    """Streams of a folder; if ``more``, there is a last one and there may be others after it."""

    streams: Sequence[StreamView]
    more: bool


class PlacedPage(NamedTuple):
    """Streams of a folder with their places in an order; if ``more``, there may be others after them."""

    streams: Sequence[tuple[Place, StreamView]]
    more: bool


class ScannedStream(NamedTuple):
    """A stream found by a scan, and the position after its last durable record."""

    stream: StreamRecord
    tail: int


class StreamListener(Protocol):
    """Notified of every durable change of a stream, in the event loop; must be quick."""

    @property
    def name(self) -> str:
        """Its name in metrics and in ``/readyz``."""
        ...

    def stream_created(self, stream: StreamRecord) -> None:
        """The stream exists durably."""
        ...

    def streams_appended(self, appended: Sequence[tuple[StreamRecord, int]]) -> None:
        """Records of these streams are durable, each from a position on; a stream may occur twice."""
        ...

    def stream_removed(self, stream: StreamRecord) -> None:
        """The stream is deleted, though forks may still need its records."""
        ...

    def stream_erased(self, stream: StreamRecord, positions: Sequence[int]) -> None:
        """The records at these positions read as something else from now on."""
        ...

    def reconcile(self) -> None:
        """Reconcile soon with what is durable: a notification may have been missed."""
        ...


class FolderPages(Protocol):
    """Lists the durable streams of a folder, without loading those that are not in memory.

    Streams that have expired may be among them.
    """

    def page(
        self, workspace: str, folder: str, after: int | None, limit: int, *, newest_first: bool
    ) -> StreamPage:
        """Return the next durable streams of a folder after a given one, in the order of their creation."""
        ...

    async def refresh(self, turn: Turn) -> None:
        """Bring the index for the next three up to date; it is current until another task runs."""
        ...

    def page_by_time(
        self,
        workspace: str,
        folder: str,
        order: TimeOrder,
        after: Place | None,
        limit: int,
        *,
        newest_first: bool,
    ) -> PlacedPage:
        """Return the next durable streams of a folder behind a place, in the order of one of their times."""
        ...

    def page_with(
        self,
        workspace: str,
        folder: str,
        terms: Sequence[int],
        after: int | None,
        limit: int,
        *,
        newest_first: bool,
    ) -> StreamPage:
        """Return the next durable streams of a folder that have one of some terms, by creation."""
        ...

    def count_with(self, workspace: str, folder: str, term: int, most: int) -> int:
        """Return about how many streams of a folder have a term, counting up to ``most``."""
        ...


class Streams(Protocol):
    """The streams of a partition: durable writes, consistent reads, scans and live tails."""

    # Decisions to commit ----------------------------------------------------------------

    def commit(
        self, decide: Callable[[State, int], tuple[Sequence[Effect], T]], on: Sequence[Key] = ()
    ) -> "asyncio.Future[T]":
        """Decide against the tip before returning; the future is resolved when the effects, and all before
        them, are durable.

        A refusal waits for that as well, since it may rest on something that is not yet durable. If one of
        the streams in ``on`` has expired, its removal is made durable before the caller learns of it.
        """
        ...

    def create(self, key: Key, request: Create, anchor_end: int | None = None) -> "asyncio.Future[Created]":
        """Create a stream durably, or confirm that the same one exists."""
        ...

    def append(self, key: Key, request: Append) -> "asyncio.Future[AppendResult]":
        """Append durably, all or nothing, exactly once if the request names its producer."""
        ...

    def append_told(self, key: Key, body_bytes: int, decide: DecidePlain[T], told: Told[T]) -> bool:
        """Append to a stream without a future, and tell of it when it is durable.

        ``decide`` returns None for all that is not plain. Then, and wherever something could be refused,
        nothing has changed and the answer is False: the append has to be made in another way.
        """
        ...

    def delete(self, key: Key, companion: Companion | None = None) -> "asyncio.Future[None]":
        """Delete a stream durably; its records stay as long as forks need them."""
        ...

    def settled(self) -> "asyncio.Future[None]":
        """Return a future that is resolved when everything decided so far is durable."""
        ...

    # Admission --------------------------------------------------------------------------

    def admit(self, body_bytes: int) -> None:
        """Shed a request if too many bytes are waiting to become durable or to be flushed."""
        ...

    def admit_document(self, size: int) -> None:
        """Shed a request that stores a document if documents take too much memory, or as for an append."""
        ...

    def require_running(self) -> None:
        """Refuse after the log has failed or was closed: what was decided may never become durable."""
        ...

    def require_writer(self) -> None:
        """Refuse if this process has been fenced: its state may be out of date."""
        ...

    @property
    def refusal(self) -> str | None:
        """Why appends are refused now; None if they are accepted."""
        ...

    # Views of a stream ------------------------------------------------------------------

    def find(self, key: Key) -> StreamView:
        """Return the stream at a path, or refuse; wait for ``settled`` before answering a refusal.

        An expired stream is refused, and its removal is submitted.
        """
        ...

    def peek(self, key: Key) -> StreamView | None:
        """Return the durable stream at a path, even if it is removed or expired; None if there is none."""
        ...

    def peek_id(self, number: int) -> StreamView | None:
        """Return a durable stream by its number, even if it is removed or expired; None if there is none."""
        ...

    def is_deleted(self, number: int) -> bool:
        """Say whether a stream that forks refer to is durably deleted; nothing is loaded."""
        ...

    def in_memory(self, number: int) -> StreamView | None:
        """Return a stream only if it is in memory; nothing is loaded."""
        ...

    def forks(self, number: int) -> Iterator[int]:
        """Yield the numbers of a stream's forks; some may not be durable yet."""
        ...

    @property
    def next_stream(self) -> int:
        """The number that the next stream gets."""
        ...

    def touch(self, view: StreamView) -> None:
        """Note an access to a stream; it is recorded durably within the documented lag."""
        ...

    def named(self, view: StreamView, name: str) -> Name | None:
        """Return which records of a stream (or inherited ones) have a name; they may not be durable yet."""
        ...

    def slot(self, view: StreamView, name: str, end: int) -> int | None:
        """Return the position of the record before an end that holds a slot there, also an inherited one."""
        ...

    def slot_history(self, view: StreamView, name: str) -> Iterator[int]:
        """Yield the positions of a stream's own records that ever held a slot, the newest first."""
        ...

    def slot_changes(self, view: StreamView) -> int:
        """Return how often the slots of a stream have changed, as decided so far."""
        ...

    def slot_names(self, view: StreamView, names: NameRange, limit: int, *, held: bool) -> Sequence[str]:
        """Return the next names of slots that may be held, in order; fewer than ``limit`` at the end.

        With ``held``, slots that are not held at the tip may be missing.
        """
        ...

    # Records ----------------------------------------------------------------------------

    def read(self, view: StreamView, start: int, bytes_max: int, stop: int | None = None) -> Awaitable[Slice]:
        """Return durable records from ``start`` up to ``stop``, at least one if there are any.

        They are read from memory, from the log or from the bucket, and across the borders of forks.
        """
        ...

    def read_pieces(
        self, view: StreamView, start: int, bytes_max: int, stop: int | None = None
    ) -> Awaitable[tuple[list[memoryview], int]]:
        """Return the same in pieces that can be kept, uncopied where possible, and the position after."""
        ...

    def read_hot(
        self, view: StreamView, start: int, bytes_max: int, stop: int | None = None
    ) -> tuple[list[memoryview], int] | None:
        """Return the same pieces and position if all of them are in memory; otherwise None.

        The memoryviews are not copies: release them before the next append, whose buffer they pin.
        """
        ...

    def owner(self, view: StreamView, position: int) -> tuple[StreamView, int]:
        """Return the stream of the fork chain that contains a position, and where its part ends."""
        ...

    async def anchor_end(self, key: Key, fork: Fork) -> int | None:
        """Return where the append at a fork's anchor ends; None if no durable append contains it."""
        ...

    def erasures(self, view: StreamView) -> int:
        """Return how many records were erased of a stream and of all that it inherits from."""
        ...

    @property
    def erased_records(self) -> int:
        """How many records were erased since the partition was opened; a cache is void when it changes."""
        ...

    # Pages to scan ----------------------------------------------------------------------

    @property
    def folders(self) -> FolderPages:
        """The streams of each folder, page by page."""
        ...

    def holders(
        self, workspace: str, slot: str, after: int | None, limit: int, *, newest_first: bool
    ) -> tuple[StreamPage, int | None]:
        """Return the next durable streams that hold a slot, in the order of their creation.

        Also return the number after which the next page begins. The cost follows what is found, and the
        forks of the workspace. If there are many of these, a page may end early.
        """
        ...

    def path_pages(self, workspace: str, prefix: str = "") -> Iterator[Sequence[tuple[int, str]]]:
        """Yield number and path of a workspace's streams with a path prefix, a page at a time.

        Other work may run between two pages: a stream that exists all the time is found. Nothing is loaded.
        """
        ...

    def stream_pages(self, prefix: str, limit: int) -> Iterator[Sequence[ScannedStream]]:
        """Yield all streams with a path prefix, of all workspaces, including those kept only for forks.

        Other work may run between two pages: a stream that exists all the time is found once. A page may be
        empty.
        """
        ...

    @property
    def stream_count(self) -> int:
        """How many durable streams exist, including those kept only for forks."""
        ...

    # Changes ----------------------------------------------------------------------------

    def wait(self, view: StreamView) -> "asyncio.Future[None]":
        """Return a future that is resolved at the stream's next durable change; cancel it when not needed."""
        ...

    def listen(self, listener: StreamListener) -> None:
        """Notify a listener of every durable change from now on; if it fails, appends go on."""
        ...

    @property
    def failing_listeners(self) -> Mapping[str, str]:
        """The listeners that have failed and will reconcile, with the reason."""
        ...

    async def expire_now(self) -> None:
        """Remove all expired streams durably before returning; in steps, so that other work can run."""
        ...

    def counts(self) -> PartitionCounts:
        """Return the counters for metrics."""
        ...


class BucketControl(Protocol):
    """What operators can see and do with the bucket of a partition."""

    @property
    def failure(self) -> Failure | None:
        """Why flushes fail now, and since when; None if they work."""
        ...

    async def flush_all(self) -> "FlushedThrough":
        """Flush everything that is durable now; raise if the bucket fails."""
        ...

    def counts(self) -> BucketCounts:
        """Return the counters for metrics."""
        ...


class FlushedThrough(NamedTuple):
    """How far the bucket reaches: the number of its newest manifest, and the position of the log."""

    manifest: int
    flushed_through: int
