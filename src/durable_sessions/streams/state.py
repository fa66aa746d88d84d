"""All streams, subscriptions and the outbox of one partition, changed by effects and by nothing else."""

from collections.abc import Callable
from typing import Protocol

from durable_sessions.errors import OverloadedError
from durable_sessions.partition_id import ONLY_PARTITION, STREAMS_MAX, same_partition
from durable_sessions.streams.effects import (
    Effect,
    Name,
    OutboxEffect,
    RecordsAppended,
    StreamCreated,
    StreamDescribed,
    StreamRemoved,
    StreamTouched,
)
from durable_sessions.streams.outbox import PartitionOutbox
from durable_sessions.streams.readonly import StreamHeader, StreamRecord
from durable_sessions.streams.stream import NO_PRODUCERS, Key, Producer, Stream
from durable_sessions.streams.subscriptions import Subscriptions
from durable_sessions.streams.usage import Usages

SPARE_NUMBERS = 2**20
"""How many of a partition's stream numbers stay unused, for decisions that take several in a row."""


class ColdStreams(Protocol):
    """Streams as of the last flush; every stream that has changed since then is in memory."""

    def load(self, key: Key) -> Stream | None:
        """Return the stream at a path as it was written, None if there was none."""
        ...

    def load_id(self, stream: int) -> Stream | None:
        """Return a stream by its number as it was written, None if there was none."""
        ...

    def load_name(self, stream: int, name: str) -> Name | None:
        """Return the records of a stream that have a name; None if none has it, or they are not flushed."""
        ...


class NothingCold:
    """The cold streams of a partition whose streams are all in memory."""

    def load(self, key: Key) -> Stream | None:
        """Return None."""

    def load_id(self, stream: int) -> Stream | None:
        """Return None."""

    def load_name(self, stream: int, name: str) -> Name | None:
        """Return None."""


class State:
    """The tip of a partition; the same effects in the same order give the same state.

    ``streams`` and ``by_id`` are the streams in memory; :meth:`get` and :meth:`get_id` find the others too.
    ``removed`` are streams that were removed since the last flush, so the cold streams may still have them.
    ``era`` is advanced from outside; a stream remembers the era in which it was last looked up. ``govern`` is
    called for each stream that comes into memory, to apply the retention policies. ``usages`` are tracked
    only if set. ``next_stream`` is the lowest number that no stream has had; it also tells the partition.
    """

    def __init__(
        self,
        cold: ColdStreams | None = None,
        warmed: Callable[[Stream], None] | None = None,
        govern: Callable[[Stream], None] | None = None,
    ) -> None:
        self._cold = cold or NothingCold()
        self._warmed = warmed
        self._govern = govern
        self.streams: dict[Key, Stream] = {}
        self.by_id: dict[int, Stream] = {}
        self.removed: dict[int, Key] = {}
        self.next_stream = ONLY_PARTITION.streams.start
        self.era = 0
        self.subscriptions = Subscriptions()
        self.outbox = PartitionOutbox()
        self.usages: Usages | None = None
        self.attribute_bytes = 0  # of the streams in memory

    @property
    def next_id(self) -> int:
        """The number for a new stream; refused when the partition has given out all of its numbers."""
        if self.next_stream % STREAMS_MAX >= STREAMS_MAX - SPARE_NUMBERS:
            raise OverloadedError(what="streams that its partition can number")
        return self.next_stream

    def get(self, key: Key) -> Stream | None:
        """Return the stream at a path, None if there is none."""
        stream = self.streams.get(key)
        if stream is None:
            return self._warm(self._cold.load(key))
        stream.era = self.era
        return stream

    def get_id(self, number: int) -> Stream | None:
        """Return a stream by its number, None if there is none."""
        stream = self.by_id.get(number)
        if stream is None:
            return self._warm(self._cold.load_id(number))
        stream.era = self.era
        return stream

    def peek_id(self, number: int) -> Stream | None:
        """Return a stream by its number without bringing it into memory, None if there is none."""
        stream = self.by_id.get(number)
        if stream is not None or number in self.removed:
            return stream
        return self._cold.load_id(number)

    def parent(self, stream: StreamHeader) -> Stream | None:
        """Return the stream that this one is a fork of; it is kept as long as it has forks."""
        return None if stream.parent is None else self._existing(stream.parent)

    def named(self, stream: StreamRecord, name: str) -> Name | None:
        """Return the records with a name, of a stream or of those that it inherits from its fork sources."""
        holder: StreamRecord | None = stream
        end = stream.tail
        while holder is not None:
            found = None
            if holder.names is not None:
                found = holder.names.get(name)
            if found is None and holder.named:
                found = self._cold.load_name(holder.id, name)
            # A fork inherits only the records before its base: a name that was given in the source later on
            # is not the fork's.
            if found is not None and found.first + found.count <= end:
                return found
            end = holder.base
            holder = self.parent(holder)
        return None

    def evict(self, stream: Stream) -> None:
        """Evict a stream from memory; the cold streams must have its current state."""
        del self.streams[stream.key], self.by_id[stream.id]
        self.attribute_bytes -= _size(stream.attributes)

    def apply(self, effect: Effect) -> None:
        """Apply one effect."""
        if type(effect) is RecordsAppended:
            self._append(effect)
        elif isinstance(effect, StreamTouched):
            self._touch(self._existing(effect.stream), effect.at_ms)
        elif isinstance(effect, StreamCreated):
            self._create(effect)
        elif isinstance(effect, StreamRemoved):
            self._remove(effect)
        elif isinstance(effect, StreamDescribed):
            self._describe(effect)
        elif isinstance(effect, OutboxEffect):
            self.outbox.apply(effect)
        else:
            self.subscriptions.apply(effect)

    def _warm(self, stream: Stream | None) -> Stream | None:
        if stream is None or stream.id in self.removed:  # removed since the flush that it was loaded from
            return None
        self._enter(stream)
        if self._warmed is not None:
            self._warmed(stream)
        return stream

    def _enter(self, stream: Stream) -> None:
        self.streams[stream.key] = self.by_id[stream.id] = stream
        if stream.attributes:
            self.attribute_bytes += _size(stream.attributes)
        stream.era = self.era
        if self._govern is not None:
            self._govern(stream)

    def _existing(self, number: int) -> Stream:
        stream = self.get_id(number)
        assert stream is not None, "effects name streams that exist"
        return stream

    def _append(self, effect: RecordsAppended) -> None:
        stream = self.by_id.get(effect.stream) or self._existing(effect.stream)
        stream.era = self.era
        assert effect.first == stream.tail, "effects of a stream are consecutive"
        size = len(effect.data)
        stream.tail += len(effect.lengths) or size
        stream.record_bytes += size
        # Otherwise only the producer's number changes: the events were already in the stream.
        if size or effect.closed:
            stream.changed_at_ms = effect.at_ms
        self._touch(stream, effect.at_ms)
        if effect.seq is not None:
            stream.last_seq = effect.seq
        if effect.producer is not None:
            producer, epoch, seq = effect.producer
            if stream.producers is NO_PRODUCERS:
                stream.producers = {}
            stream.producers[producer] = (epoch, seq)
        if effect.names:
            stream.named += len(effect.names)
            stream.names = stream.names or {}
            stream.names.update((name.name, name) for name in effect.names)
        if effect.closed:
            stream.closed = True
            stream.closed_by = Producer(*effect.producer) if effect.producer else None
        if self.usages is not None:
            self.usages.appended(stream, len(effect.data))
        if self.subscriptions:
            self.subscriptions.appended(stream.key)

    def _describe(self, effect: StreamDescribed) -> None:
        stream = self._existing(effect.stream)
        stream.changed_at_ms = max(stream.changed_at_ms, effect.at_ms)
        self._touch(stream, effect.at_ms)
        before = stream.attributes
        stream.attributes = described(before, effect)
        for name, value in effect.attributes.items():
            self.attribute_bytes += len(value or b"") - len(before.get(name, b""))

    @staticmethod
    def _touch(stream: Stream, at_ms: int) -> None:
        """Note an access; the recorded times never go back, even if the clock does."""
        if at_ms > stream.recorded_at_ms:
            stream.recorded_at_ms = at_ms
        if at_ms > stream.accessed_at_ms:
            stream.accessed_at_ms = at_ms

    def _create(self, effect: StreamCreated) -> None:
        parent = None if effect.parent is None else self._existing(effect.parent)
        stream = Stream.of(effect, depth=0 if parent is None else parent.depth + 1)
        if parent is not None:
            parent.forks += 1
        assert stream.key not in self.streams, "a path is created only when it is free"
        self._enter(stream)
        if same_partition(stream.id, self.next_stream):
            self.next_stream = max(self.next_stream, stream.id + 1)
        if self.usages is not None:
            self.usages.created(stream)

    def _remove(self, effect: StreamRemoved) -> None:
        stream = self._existing(effect.stream)
        if effect.soft:
            stream.soft_deleted = True
            return
        assert stream.forks == 0, "records that forks read are kept"
        parent = self.parent(stream)
        if parent is not None:
            parent.forks -= 1
        del self.streams[stream.key], self.by_id[stream.id]
        self.attribute_bytes -= _size(stream.attributes)
        self.removed[stream.id] = stream.key
        if self.usages is not None:
            self.usages.removed(stream)


def _size(attributes: dict[str, bytes]) -> int:
    return sum(map(len, attributes.values()))


def described(attributes: dict[str, bytes], effect: StreamDescribed) -> dict[str, bytes]:
    """Return the attributes as an effect changes them; None removes one."""
    changed = {**attributes, **effect.attributes}
    return {name: value for name, value in changed.items() if value is not None}
