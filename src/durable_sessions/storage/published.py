"""The state that readers see: durable streams, their recent records, and waiting readers."""

import asyncio
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

import google_crc32c

from durable_sessions.errors import OverloadedError
from durable_sessions.limits import Limits
from durable_sessions.log import Extent
from durable_sessions.storage.durable_stream import DurableStream
from durable_sessions.storage.listeners import Listeners
from durable_sessions.storage.memory import MemoryTier
from durable_sessions.streams.effects import (
    Effect,
    ErasuresSettled,
    PathFreed,
    RecordsAppended,
    RecordsErased,
    StreamDescribed,
    StreamRemoved,
    StreamTouched,
)
from durable_sessions.streams.state import described
from durable_sessions.streams.stream import Key, Stream

_Other = StreamRemoved | StreamTouched | StreamDescribed | PathFreed | RecordsErased | ErasuresSettled


@dataclass(slots=True)
class Counters:
    """Totals of what became durable since the partition was opened."""

    appends: int = 0
    records: int = 0
    bytes: int = 0
    erased: int = 0


class PublishedStreams:
    """The durable side of a partition: changed only by effects whose sync has returned.

    ``by_key`` and ``by_id`` are the streams in memory; :meth:`get` and :meth:`get_id` find the others too.
    ``count`` is how many exist in all, including those kept only for forks.
    """

    def __init__(self, limits: Limits, warm: Callable[[Key | int], object], count: int) -> None:
        self._waiters_max = limits.waiters_max
        self._warm = warm
        self._loop = asyncio.get_running_loop()
        self._memory = MemoryTier(limits.memory_bytes_max)
        # Evicted streams that are still referenced, for example by a reader that waits for the disk.
        self._held: WeakValueDictionary[int, DurableStream] = WeakValueDictionary()
        self.listeners = Listeners(limits.task_restart_seconds)
        self.by_key: dict[Key, DurableStream] = {}
        self.by_id: dict[int, DurableStream] = {}
        self._folders: dict[tuple[str, str], list[int]] = {}
        # Streams that have changed since an index last looked at them; None if no index is kept.
        self.changed: set[int] | None = None
        self._changed_max = limits.indexed_changes_max
        self.counters = Counters()
        self.count = count
        self.waiting = 0

    @property
    def memory_bytes(self) -> int:
        """How much memory recent records take."""
        return self._memory.bytes_used

    def get(self, key: Key) -> DurableStream | None:
        """Return the durable stream at a path, None if there is none."""
        if key not in self.by_key:
            self._warm(key)
        return self.by_key.get(key)

    def get_id(self, number: int) -> DurableStream | None:
        """Return a durable stream by its number, None if there is none."""
        if number not in self.by_id:
            self._warm(number)
        return self.by_id.get(number)

    def folder(self, workspace: str, folder: str) -> Sequence[int]:
        """Return the numbers of a folder's streams in memory, in order; some may be kept only for forks."""
        return self._folders.get((workspace, folder), ())

    # Publishing -------------------------------------------------------------------------

    def warmed(self, stream: Stream) -> None:
        """Show a stream that was loaded into memory.

        There is never more than one object for it: a reader that looked it up before it was evicted, and
        still has a reference, sees its changes as well.
        """
        durable = self._held.pop(stream.id, None) or DurableStream(stream)
        durable.restore(stream)
        self._add(durable)

    def _add(self, durable: DurableStream) -> None:
        key = durable.stream.key
        self.by_id[durable.stream.id] = durable
        if not durable.freed:
            self.by_key[key] = durable
        if self.changed is not None:
            self.changed.add(durable.stream.id)
            if len(self.changed) > self._changed_max:
                self.changed = None  # nobody lists any more; the next one who does makes the index again
        if folder := key.folder:
            insort(self._folders.setdefault((key.workspace, folder), []), durable.stream.id)

    def create(self, stream: Stream, extent: Extent) -> None:
        """Show a stream that has become durable."""
        durable = DurableStream(stream)
        durable.changed_at = extent.position
        self._add(durable)
        self.count += 1
        if stream.parent is not None:
            self._note_change(stream.parent, extent)
        self.listeners.created(stream)

    def append(self, effect: RecordsAppended, position: int, offset: int, encoded: bytes) -> None:
        """Show records that have become durable: every append comes here."""
        durable = self.by_id.get(effect.stream)
        if durable is None:
            return  # it was created and removed again before any reader could see it
        first, data, lengths = effect.first, effect.data, effect.lengths
        size = len(data)
        durable.changed_at = position
        if size:
            # A frame's checksum covers a whole batch, so reading one append back needs one of its own.
            durable.index.add(first, position, offset, len(encoded), google_crc32c.value(encoded))
            self._memory.append(effect.stream, durable.hot, first, data, lengths)
            durable.changed_ms = effect.at_ms
            durable.record_bytes += size
        elif effect.closed:  # otherwise only the producer state changed
            durable.changed_ms = effect.at_ms
        durable.tail = first + (len(lengths) or size)
        if effect.closed:
            durable.closed = True
        if durable.waiters:
            durable.wake()
        counters = self.counters
        counters.appends += 1
        counters.records += len(lengths) or bool(size)
        counters.bytes += size
        self.listeners.appended.append((durable.stream, first))
        if self.changed is not None:
            self.changed.add(effect.stream)

    def show(self, effect: Effect, extent: Extent) -> None:
        """Show another change that has become durable; effects on subscriptions have nothing to show."""
        if not isinstance(effect, _Other):
            return
        durable = self.by_id.get(effect.stream)
        if durable is None:
            return
        durable.changed_at = extent.position
        if self.changed is not None:
            self.changed.add(effect.stream)
        if isinstance(effect, StreamRemoved):
            self._remove(durable, extent, soft=effect.soft)
        elif isinstance(effect, StreamDescribed):
            durable.changed_ms = max(durable.changed_ms, effect.at_ms)
            durable.attributes = described(durable.attributes, effect)
        elif isinstance(effect, RecordsErased):
            self._erase(durable, effect)
        elif isinstance(effect, ErasuresSettled):
            durable.overlay = durable.overlay.without(effect.positions)
        elif isinstance(effect, PathFreed):
            durable.freed = True
            if self.by_key.get(durable.stream.key) is durable:
                del self.by_key[durable.stream.key]

    def _remove(self, durable: DurableStream, extent: Extent, *, soft: bool) -> None:
        durable.removed = True
        if not soft:
            self._drop(durable)
            self.count -= 1
            if durable.stream.parent is not None:
                self._note_change(durable.stream.parent, extent)
        durable.wake()
        self.listeners.removed(durable.stream)

    def _erase(self, durable: DurableStream, effect: RecordsErased) -> None:
        # Its hot records are dropped, so that those in memory never need the overlay: all that come later are
        # not erased yet, and older ones are read from the log or the bucket.
        self._memory.forget(durable.stream.id)
        durable.overlay = durable.overlay.with_records(effect.records)
        durable.erasures += len(effect.records)
        if not durable.closed:
            durable.changed_ms = max(durable.changed_ms, effect.at_ms)
        durable.record_bytes -= effect.bytes_freed
        self.counters.erased += len(effect.records)
        self.listeners.erased(durable.stream, [record.position for record in effect.records])

    def _note_change(self, number: int, extent: Extent) -> None:
        """Note that a stream's number of forks has changed, which has to be flushed, too."""
        durable = self.by_id.get(number)
        if durable is not None:
            durable.changed_at = extent.position

    # Eviction ---------------------------------------------------------------------------

    def flushed(self, number: int, tail: int, through: int) -> None:
        """Note that a stream's records before ``tail`` are in the bucket, the log's up to ``through``."""
        durable = self.by_id.get(number)
        if durable is not None:
            durable.flushed = max(durable.flushed, tail)
            durable.index.forget(through)

    def evict(self, durable: DurableStream) -> None:
        """Evict a stream; all of it must be flushed."""
        self._drop(durable)
        self._held[durable.stream.id] = durable

    def _drop(self, durable: DurableStream) -> None:
        del self.by_id[durable.stream.id]
        if self.changed is not None:
            self.changed.add(durable.stream.id)
        key = durable.stream.key
        if folder := key.folder:
            numbers = self._folders[key.workspace, folder]
            del numbers[bisect_left(numbers, durable.stream.id)]
            if not numbers:
                del self._folders[key.workspace, folder]
        if self.by_key.get(durable.stream.key) is durable:
            del self.by_key[durable.stream.key]
        self._memory.forget(durable.stream.id)

    # Waiting ----------------------------------------------------------------------------

    def wait(self, durable: DurableStream) -> "asyncio.Future[None]":
        """Return a future that is resolved at the stream's next durable change; cancel it when not needed."""
        if self.waiting >= self._waiters_max:
            raise OverloadedError(what="waiting readers")
        self.waiting += 1
        waiter: asyncio.Future[None] = self._loop.create_future()
        if durable.waiters is None:
            durable.waiters = {}
        durable.waiters[waiter] = None

        def done(_: "asyncio.Future[None]") -> None:
            self.waiting -= 1
            if durable.waiters is not None:
                durable.waiters.pop(waiter, None)
                durable.waiters = durable.waiters or None

        waiter.add_done_callback(done)
        return waiter

    def wake_all(self) -> None:
        """Wake every waiting reader, so that it can end."""
        for durable in (*self.by_id.values(), *self._held.values()):
            durable.wake()
