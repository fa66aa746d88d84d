"""What readers see: durable streams, their records, and those who wait for more."""

import asyncio
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import google_crc32c

from durable_sessions.errors import ColdReadError, LogError, OverloadedError
from durable_sessions.limits import Limits
from durable_sessions.log import Extent, Log
from durable_sessions.storage import batch
from durable_sessions.storage.durable import DurableStream
from durable_sessions.storage.memory import MemoryTier
from durable_sessions.streams.effects import Appended, Effect, StreamRemoved
from durable_sessions.streams.stream import Key, Stream


class StreamListener(Protocol):
    """Told of every durable change of a stream, in the event loop; must be quick."""

    def stream_appended(self, key: Key, tail: int) -> None:
        """Records up to ``tail`` are durable."""
        ...

    def stream_removed(self, key: Key) -> None:
        """The stream is gone."""
        ...


class Slice(NamedTuple):
    """Consecutive records: their wire bytes, and the positions where they begin and end."""

    data: bytes
    first: int
    next: int


@dataclass(slots=True)
class Counters:
    """What has become durable since the partition was opened, and what was read back."""

    appends: int = 0
    records: int = 0
    bytes: int = 0
    cold_reads: int = 0


class PublishedStreams:
    """The durable side of a partition: changed only by effects whose sync has returned."""

    def __init__(self, log: Log, limits: Limits) -> None:
        self._log = log
        self._waiters_max = limits.waiters_max
        self._loop = asyncio.get_running_loop()
        self._memory = MemoryTier(limits.memory_bytes_max)
        self._listeners: list[StreamListener] = []
        self.by_key: dict[Key, DurableStream] = {}
        self.by_id: dict[int, DurableStream] = {}
        self.counters = Counters()
        self.waiting = 0

    @property
    def memory_bytes(self) -> int:
        """How much memory recent records take."""
        return self._memory.bytes_used

    def listen(self, listener: StreamListener) -> None:
        """Tell a listener of every durable change from now on."""
        self._listeners.append(listener)

    # Publishing -------------------------------------------------------------------------

    def create(self, stream: Stream) -> None:
        """Show a stream that has become durable."""
        self.by_key[stream.key] = self.by_id[stream.id] = DurableStream(stream)

    def show(self, effect: Effect, extent: Extent, encoded: bytes) -> None:
        """Show an append or a removal that has become durable; other effects have nothing to show."""
        if type(effect) is Appended:
            durable = self.by_id.get(effect.stream)
            if durable is not None:
                self._append(durable, effect, extent, encoded)
        elif type(effect) is StreamRemoved:
            durable = self.by_id.get(effect.stream)
            if durable is not None:
                self._remove(durable, soft=effect.soft)

    def _append(self, durable: DurableStream, effect: Appended, extent: Extent, encoded: bytes) -> None:
        if effect.data:
            durable.index.add(effect.first, extent, google_crc32c.value(encoded))
            self._memory.append(effect.stream, durable.hot, effect.first, effect.data, effect.lengths)
        durable.tail = effect.next
        durable.closed = durable.closed or effect.closed
        if durable.waiters:
            durable.wake()
        counters = self.counters
        counters.appends += 1
        counters.records += len(effect.lengths) or bool(effect.data)
        counters.bytes += len(effect.data)
        for listener in self._listeners:
            listener.stream_appended(durable.stream.key, durable.tail)

    def _remove(self, durable: DurableStream, *, soft: bool) -> None:
        key = durable.stream.key
        durable.removed = True
        if not soft:
            del self.by_id[durable.stream.id]
            if self.by_key.get(key) is durable:
                del self.by_key[key]
            self._memory.forget(durable.stream.id)
        durable.wake()
        for listener in self._listeners:
            listener.stream_removed(key)

    # Reading ----------------------------------------------------------------------------

    def owner(self, durable: DurableStream, position: int) -> tuple[DurableStream, int]:
        """Return the stream of the fork chain that holds a position, and where its part ends."""
        holder, stop = durable, durable.tail
        while position < holder.stream.base:
            assert holder.stream.parent is not None
            stop = min(stop, holder.stream.base)
            holder = self.by_id[holder.stream.parent]
        return holder, stop

    def read_hot(self, durable: DurableStream, start: int, bytes_max: int) -> Slice | None:
        """Return records from ``start`` if the first of them is in memory, else None."""
        if start >= durable.tail:
            return Slice(b"", start, start)
        pieces: list[memoryview] = []
        position = start
        while position < durable.tail and (bytes_max > 0 or not pieces):
            owner, stop = self.owner(durable, position)
            if not owner.hot.holds(position):
                break
            found, position = owner.hot.cut(position, stop, bytes_max)
            pieces += found
            bytes_max -= sum(map(len, found))
            if position < stop:
                break
        return Slice(b"".join(pieces), start, position) if pieces else None

    async def read(self, durable: DurableStream, start: int, bytes_max: int) -> Slice:
        """Return records from ``start``, at least one if there are any, from memory or from the log."""
        return self.read_hot(durable, start, bytes_max) or await self._read_cold(durable, start, bytes_max)

    async def _read_cold(self, durable: DurableStream, start: int, bytes_max: int) -> Slice:
        owner, stop = self.owner(durable, start)
        extents: list[Extent] = []
        checksums: list[int] = []
        size = 0
        for extent, checksum in owner.index.extents(start):
            extents.append(extent)
            checksums.append(checksum)
            size += extent.length
            if size >= bytes_max:
                break
        self.counters.cold_reads += 1
        try:
            found = await self._log.read(extents)
        except LogError as error:
            raise ColdReadError(reason=str(error)) from error
        return _slice_of(found, checksums, start, stop, bytes_max)

    def append_end(self, stream: Stream, position: int) -> int | None:
        """Return where the append that holds a position ends; None if no durable append holds it."""
        durable = self.by_id.get(stream.id)
        if durable is None or position >= durable.tail:
            return None
        owner, stop = self.owner(durable, position)
        return min(owner.index.append_end(position, owner.tail), stop)

    def tail(self, key: Key) -> int | None:
        """Return where a stream ends, None if there is none to read."""
        durable = self.by_key.get(key)
        return None if durable is None or durable.removed else durable.tail

    def paths(self, workspace: str) -> list[str]:
        """Return the paths of a workspace's streams."""
        return [
            k.path for k, durable in self.by_key.items() if k.workspace == workspace and not durable.removed
        ]

    # Waiting ----------------------------------------------------------------------------

    def wait(self, durable: DurableStream) -> "asyncio.Future[None]":
        """Return a future that ends at the stream's next durable change; cancel it if it is not needed."""
        if self.waiting >= self._waiters_max:
            raise OverloadedError(what="waiting readers")
        self.waiting += 1
        waiter: asyncio.Future[None] = self._loop.create_future()
        durable.waiters.add(waiter)

        def done(_: "asyncio.Future[None]") -> None:
            self.waiting -= 1
            durable.waiters.discard(waiter)

        waiter.add_done_callback(done)
        return waiter

    def wake_all(self) -> None:
        """Wake every waiting reader, so that it can end."""
        for durable in self.by_id.values():
            durable.wake()


def _slice_of(found: list[bytes], checksums: list[int], start: int, stop: int, bytes_max: int) -> Slice:
    """Return the records from ``start`` before ``stop`` out of appends read back from the log."""
    pieces: list[bytes] = []
    position = start
    for encoded, checksum in zip(found, checksums, strict=True):
        if google_crc32c.value(encoded) != checksum:
            raise ColdReadError(reason="the bytes in the log have changed since they were written")
        effect = batch.decode_one(encoded)
        assert type(effect) is Appended
        skip, take = position - effect.first, min(effect.next, stop) - effect.first
        if effect.lengths:
            begin = sum(effect.lengths[:skip])
            piece = effect.data[begin : begin + sum(effect.lengths[skip:take])]
        else:
            take = min(take, skip + max(bytes_max, 1))
            piece = effect.data[skip:take]
        pieces.append(piece)
        bytes_max -= len(piece)
        position = effect.first + take
        if position >= stop or bytes_max <= 0:
            break
    return Slice(b"".join(pieces), start, position)
