"""The one door to storage: all that those above it may ask for.

Decisions to commit, read-only views of durable streams, records to read, pages to scan, changes to wait for
and to listen to. :class:`~durable_sessions.storage.partition.Partition` stands behind it; nobody above
names that class, or the mutable streams in it, except the composition root, which opens it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from durable_sessions.storage.companions import Companion
from durable_sessions.storage.counts import BucketCounts, Failure, PartitionCounts
from durable_sessions.streams.append import Append, AppendResult
from durable_sessions.streams.create import Create, Created, Fork
from durable_sessions.streams.effects import Effect, Name
from durable_sessions.streams.readonly import StreamHeader, StreamRecord
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key

T = TypeVar("T")


class StreamView(Protocol):
    """A durable stream, pinned: it shows each durable change for as long as somebody holds it.

    There is one object per stream, and it costs nothing to get: it is not a copy. It stays the right one when
    the stream leaves memory and comes back. Nothing in it is ever ahead of what is durable, except that
    ``stream.expired`` knows of accesses whose record is still being written.
    """

    @property
    def stream(self) -> StreamHeader:
        """What never changes about it."""
        ...

    @property
    def tail(self) -> int:
        """The position after its last durable record."""
        ...

    @property
    def closed(self) -> bool:
        """Whether it takes no more records."""
        ...

    @property
    def removed(self) -> bool:
        """Whether it is deleted; its records may be kept for forks."""
        ...

    @property
    def attributes(self) -> Mapping[str, bytes]:
        """The durable documents that are kept with it; replaced as a whole, never changed in place."""
        ...

    @property
    def changed_ms(self) -> int:
        """When a record or an attribute became durable last."""
        ...

    @property
    def record_bytes(self) -> int:
        """The size of all records that were appended to it."""
        ...


class Slice(NamedTuple):
    """Consecutive records: their wire bytes, and the positions where they begin and end."""

    data: bytes
    first: int
    next: int


class StreamPage(NamedTuple):
    """Streams of a folder; ``more`` says that there may be others behind the last, and that there is one."""

    streams: Sequence[StreamView]
    more: bool


class ScannedStream(NamedTuple):
    """A stream found by a scan, and the position after its last durable record."""

    stream: StreamRecord
    tail: int


class StreamListener(Protocol):
    """Told of every durable change of a stream, in the event loop; must be quick."""

    @property
    def name(self) -> str:
        """What it is called in metrics and in ``/readyz``."""
        ...

    def stream_created(self, stream: StreamRecord) -> None:
        """The stream is there."""
        ...

    def stream_appended(self, stream: StreamRecord, first: int) -> None:
        """Records from ``first`` on are durable."""
        ...

    def stream_removed(self, stream: StreamRecord) -> None:
        """The stream is gone, though forks may still need its records."""
        ...

    def reconcile(self) -> None:
        """Find out anew, soon, what is durable: something may have been missed."""
        ...


class Streams(Protocol):
    """The streams of a partition: durable writes, consistent reads, scans and live tails."""

    # Decisions to commit ----------------------------------------------------------------

    def commit(
        self, decide: Callable[[State, int], tuple[Sequence[Effect], T]], on: Sequence[Key] = ()
    ) -> "asyncio.Future[T]":
        """Decide against the tip before returning; the future ends when that, and all before it, is durable.

        A refusal, too, is given only then: it may rest on something not yet durable. Streams that it is
        ``on`` and that have expired are durably gone before somebody is told so.
        """
        ...

    def create(self, key: Key, request: Create, anchor_end: int | None = None) -> "asyncio.Future[Created]":
        """Create a stream durably, or confirm that the same one exists."""
        ...

    def append(self, key: Key, request: Append) -> "asyncio.Future[AppendResult]":
        """Append durably, all or nothing, exactly once if the request names its producer."""
        ...

    def delete(self, key: Key, companion: Companion | None = None) -> "asyncio.Future[None]":
        """Delete a stream durably; its records stay as long as forks need them."""
        ...

    def settled(self) -> "asyncio.Future[None]":
        """Return a future that ends when everything decided so far is durable."""
        ...

    # Whether it takes them --------------------------------------------------------------

    def admit(self, body_bytes: int) -> None:
        """Refuse a request whose body does not fit to what waits to become durable or to be flushed."""
        ...

    def admit_document(self, size: int) -> None:
        """Refuse a document that does not fit to those in memory, or as an append does not."""
        ...

    def require_running(self) -> None:
        """Refuse after the log has failed, and after a close: what was decided may never become durable."""
        ...

    def require_writer(self) -> None:
        """Refuse to answer from a state that may no longer be the current one."""
        ...

    @property
    def refusal(self) -> str | None:
        """Why appends are refused now, None if they are not."""
        ...

    # Views of a stream ------------------------------------------------------------------

    def find(self, key: Key) -> StreamView:
        """Return the stream at a path, or refuse; wait for ``settled`` before answering a refusal.

        One that has expired is refused, and the record that it is gone is on its way.
        """
        ...

    def peek(self, key: Key) -> StreamView | None:
        """Return the durable stream at a path, also if it is removed or expired; None if there is none."""
        ...

    def peek_id(self, number: int) -> StreamView | None:
        """Return a durable stream by its number, also if it is removed or expired; None if there is none."""
        ...

    def in_memory(self, number: int) -> StreamView | None:
        """Return a stream only if it is in memory: nothing is loaded."""
        ...

    def touch(self, view: StreamView) -> None:
        """Note that a stream is in use; the record of it follows within the stated lag."""
        ...

    def named(self, view: StreamView, name: str) -> Name | None:
        """Return which records of a stream, or of those that it inherits, have a name; maybe not durable."""
        ...

    # Records ----------------------------------------------------------------------------

    def read(self, view: StreamView, start: int, bytes_max: int, stop: int | None = None) -> Awaitable[Slice]:
        """Return durable records from ``start``, before ``stop``, at least one if there are any.

        They may be in memory, in the log or in the bucket, of the stream or of those that it is a fork of.
        """
        ...

    def read_hot(
        self, view: StreamView, start: int, bytes_max: int, stop: int | None = None
    ) -> tuple[list[memoryview], int] | None:
        """Return the same if all that are wanted are in memory, and the position after them; else None.

        They are shown where they lie: the views must be let go before the next append.
        """
        ...

    def owner(self, view: StreamView, position: int) -> tuple[StreamView, int]:
        """Return the stream of the fork chain that holds a position, and where its part ends."""
        ...

    async def anchor_end(self, key: Key, fork: Fork) -> int | None:
        """Return where the append at a fork's anchor ends, None if no durable append holds it."""
        ...

    # Pages to scan ----------------------------------------------------------------------

    def page(
        self, workspace: str, folder: str, after: int | None, limit: int, *, newest_first: bool
    ) -> StreamPage:
        """Return the next durable streams of a folder after one, in the order of their creation."""
        ...

    def path_pages(self, workspace: str, prefix: str = "") -> Iterator[Sequence[tuple[int, str]]]:
        """Yield number and path of a workspace's streams whose paths begin so, a page at a time.

        Others may work between two pages: what is there all the while is found, and nothing is loaded.
        """
        ...

    def stream_pages(self, prefix: str, limit: int) -> Iterator[Sequence[ScannedStream]]:
        """Yield all streams whose paths begin so, of all workspaces, those kept only for forks included.

        Others may work between two pages: what is there all the while is found once. A page may be empty.
        """
        ...

    @property
    def stream_count(self) -> int:
        """How many durable streams exist, those kept only for forks included."""
        ...

    # Changes ----------------------------------------------------------------------------

    def wait(self, view: StreamView) -> "asyncio.Future[None]":
        """Return a future that ends at the stream's next durable change; cancel it if it is not needed."""
        ...

    def listen(self, listener: StreamListener) -> None:
        """Tell a listener of every durable change from now on; a failure of it fails no append."""
        ...

    @property
    def failing_listeners(self) -> Mapping[str, str]:
        """The listeners that have failed and will reconcile, with the reason."""
        ...

    async def expire_now(self) -> None:
        """Remove what has expired, durably, before returning; in steps, so that others go on in between."""
        ...

    def counts(self) -> PartitionCounts:
        """Return what metrics show."""
        ...


class BucketControl(Protocol):
    """What operators may know and ask of the bucket behind a partition."""

    @property
    def failure(self) -> Failure | None:
        """Why the bucket takes no flush now, and since when; None if it does."""
        ...

    async def flush_all(self) -> "FlushedThrough":
        """Flush all that is durable now; raise if the bucket fails."""
        ...

    def counts(self) -> BucketCounts:
        """Return what metrics show."""
        ...


class FlushedThrough(NamedTuple):
    """How far the bucket reaches: the number of its newest manifest, and the position of the log."""

    manifest: int
    flushed_through: int
