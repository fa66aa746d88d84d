"""All streams, subscriptions and the outbox of one partition, changed by effects and by nothing else."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from durable_sessions.errors import OverloadedError
from durable_sessions.partition_id import ONLY_PARTITION, STREAMS_MAX, same_partition
from durable_sessions.streams import slots
from durable_sessions.streams.effects import (
    EMPTIED_PREFIX,
    Effect,
    ErasuresSettled,
    Name,
    OutboxEffect,
    PathFreed,
    RecordsAppended,
    RecordsErased,
    SlotsChanged,
    StreamCreated,
    StreamDescribed,
    StreamRemoved,
    StreamTouched,
)
from durable_sessions.streams.outbox import PartitionOutbox
from durable_sessions.streams.readonly import StreamHeader, StreamRecord
from durable_sessions.streams.slots import FlushedSlots, NameRange, NothingFlushed, UnflushedSlots
from durable_sessions.streams.stream import NO_PRODUCERS, Key, Producer, Stream
from durable_sessions.streams.subscriptions import Subscriptions
from durable_sessions.streams.usage import Usages

SPARE_NUMBERS = 2**20
"""How many of a partition's stream numbers stay unused, for decisions that take several in a row."""


class ColdStreams(FlushedSlots, Protocol):
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

    def load_forks(self, stream: int) -> Iterable[int]:
        """Return the numbers of a stream's forks."""
        ...


class NothingCold(NothingFlushed):
    """The cold streams of a partition whose streams are all in memory."""

    def load(self, key: Key) -> Stream | None:
        """Return None."""

    def load_id(self, stream: int) -> Stream | None:
        """Return None."""

    def load_name(self, stream: int, name: str) -> Name | None:
        """Return None."""

    def load_forks(self, stream: int) -> Iterable[int]:
        """Return nothing."""
        return ()


class State:
    """The tip of a partition; the same effects in the same order give the same state.

    ``streams`` and ``by_id`` are the streams in memory; :meth:`get` and :meth:`get_id` find the others too.
    ``removed`` are streams that were removed since the last flush, so the cold streams may still have them.
    ``era`` is advanced from outside; a stream remembers the era in which it was last looked up. ``govern`` is
    called for each stream that comes into memory, to apply the retention policies. ``usages`` are tracked
    only if set. ``unflushed_slots`` are the streams whose slots have changed, by workspace, and
    ``unflushed_forks`` the forks that were made; some of these may be flushed already. ``next_stream`` is the
    lowest number that no stream has had; it also tells the partition. ``has_neighbours`` says whether there
    are others.
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
        self._forks: dict[int, set[int]] = {}  # the forks in memory, by the number of their source
        self.unflushed_slots: dict[str, dict[int, None]] = {}
        self.unflushed_forks: dict[str, dict[int, None]] = {}
        self.removed: dict[int, Key] = {}
        self.next_stream = ONLY_PARTITION.streams.start
        self.era = 0
        self.subscriptions = Subscriptions()
        self.outbox = PartitionOutbox()
        self.usages: Usages | None = None
        self.attribute_bytes = 0  # of the streams in memory
        self.has_neighbours = False

    @property
    def next_id(self) -> int:
        """The number for a new stream; refused when the partition has given out all of its numbers."""
        if self.next_stream % STREAMS_MAX >= STREAMS_MAX - SPARE_NUMBERS:
            raise OverloadedError(what="streams that its partition can number")
        return self.next_stream

    def as_created(
        self, created: StreamCreated, attributes: dict[str, bytes], tail: int | None = None
    ) -> StreamRecord:
        """Return a stream as it will be once its creation has been carried out, policies included.

        ``tail`` is where it ends then, if its first records come with the creation.
        """
        stream = Stream.of(created)
        stream.attributes = attributes
        stream.tail = created.base if tail is None else tail
        if self._govern is not None:
            self._govern(stream)
        return stream

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

    def slot(self, stream: StreamRecord, name: str, end: int | None = None) -> int | None:
        """Return the position of the record that holds a slot, of a stream or of what it inherits.

        With ``end`` it is the holder among the records before that position.
        """
        holder: StreamRecord | None = stream
        end = stream.tail if end is None else end
        while holder is not None:
            found = slots.last_change(holder, self._cold, name, end)
            if found is not None:
                return found.position if found.held else None
            end = min(end, holder.base)
            holder = self.parent(holder)
        return None

    def slot_history(self, stream: StreamRecord, name: str) -> Iterator[int]:
        """Yield the positions of a stream's own records that ever held a slot, the newest first."""
        end = stream.tail
        while (found := slots.last_change(stream, self._cold, name, end)) is not None:
            if found.held:
                yield found.position
            end = found.position

    def slot_is_known(self, stream: StreamRecord, name: str) -> bool:
        """Say whether a stream's own records ever held or emptied a slot by its name."""
        return slots.is_known(stream, self._cold, name)

    def slot_names(self, stream: StreamRecord, names: NameRange, limit: int, *, held: bool) -> list[str]:
        """Return the next names that may be held, in order, inherited ones included; fewer at the end.

        With ``held``, slots that are not held at the tip may be missing.
        """
        found: set[str] = set()
        holder: StreamRecord | None = stream
        while holder is not None:
            found.update(slots.changed_names(holder, self._cold, names, limit, held=held))
            held = False  # of its source, a fork inherits what was held at its base
            holder = self.parent(holder)
        return sorted(found, reverse=names.descends)[:limit]

    def forks(self, number: int) -> Iterator[int]:
        """Yield the numbers of a stream's forks, those that are not in memory too."""
        known = self._forks.get(number, set())
        yield from sorted(known)
        yield from (fork for fork in self._cold.load_forks(number) if self._is_cold(fork))

    def _is_cold(self, number: int) -> bool:
        return number not in self.by_id and number not in self.removed

    def evict(self, stream: Stream) -> None:
        """Evict a stream from memory; the cold streams must have its current state."""
        self._leave(stream)

    def apply(self, effect: Effect) -> None:
        """Apply one effect."""
        if type(effect) is RecordsAppended:
            self.append(effect)
        elif isinstance(effect, StreamTouched):
            self._touch(self._existing(effect.stream), effect.at_ms)
        elif isinstance(effect, StreamCreated):
            self._create(effect)
        elif isinstance(effect, StreamRemoved):
            self._remove(effect)
        elif isinstance(effect, StreamDescribed):
            self._describe(effect)
        elif isinstance(effect, PathFreed):
            self._free_path(effect)
        elif isinstance(effect, SlotsChanged):
            self._change_slots(effect)
        elif isinstance(effect, RecordsErased):
            self._erase(effect)
        elif isinstance(effect, ErasuresSettled):
            settled = self._existing(effect.stream)
            settled.overlay = settled.overlay.without(effect.positions)
        elif isinstance(effect, OutboxEffect):
            self.outbox.apply(effect)
        else:
            self.subscriptions.apply(effect)

    def _warm(self, stream: Stream | None) -> Stream | None:
        if stream is None or stream.id in self.removed:  # removed since the flush that it was loaded from
            return None
        if stream.id in self.by_id:  # its path was freed since that flush
            return None
        self._enter(stream)
        if self._warmed is not None:
            self._warmed(stream)
        return stream

    def _enter(self, stream: Stream) -> None:
        self.by_id[stream.id] = stream
        if not stream.freed:
            self.streams[stream.key] = stream
        if stream.parent is not None:
            self._forks.setdefault(stream.parent, set()).add(stream.id)
        if stream.attributes:
            self.attribute_bytes += _size(stream.attributes)
        stream.era = self.era
        if self._govern is not None:
            self._govern(stream)

    def _leave(self, stream: Stream) -> None:
        if stream.slot_changes and stream.key.workspace in self.unflushed_slots:
            self.unflushed_slots[stream.key.workspace].pop(stream.id, None)
        del self.by_id[stream.id]
        if not stream.freed:
            del self.streams[stream.key]
        if stream.parent is not None:
            self.unflushed_forks.get(stream.key.workspace, {}).pop(stream.id, None)
            forks = self._forks[stream.parent]
            forks.discard(stream.id)
            if not forks:
                del self._forks[stream.parent]
        self.attribute_bytes -= _size(stream.attributes)

    def _existing(self, number: int) -> Stream:
        stream = self.get_id(number)
        assert stream is not None, "effects name streams that exist"
        return stream

    def append(self, effect: RecordsAppended) -> None:
        """Apply an append."""
        stream = self.by_id.get(effect.stream) or self._existing(effect.stream)
        stream.era = self.era
        assert effect.first == stream.tail, "effects of a stream are consecutive"
        size = len(effect.data)
        stream.tail += len(effect.lengths) or size
        stream.record_bytes += size
        # Otherwise only the producer's number changes: the events were already in the stream.
        at_ms = effect.at_ms
        if size or effect.closed:
            stream.changed_at_ms = at_ms
        if at_ms > stream.recorded_at_ms:  # see _touch
            stream.recorded_at_ms = at_ms
        if at_ms > stream.accessed_at_ms:
            stream.accessed_at_ms = at_ms
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
            if not stream.closed:
                stream.closed_at_ms = effect.at_ms
            stream.closed = True
            stream.closed_by = Producer(*effect.producer) if effect.producer else None
        if self.usages is not None:
            self.usages.appended(stream, len(effect.data))
        if self.subscriptions.by_workspace:
            self.subscriptions.appended(stream.key)

    def _describe(self, effect: StreamDescribed) -> None:
        stream = self._existing(effect.stream)
        stream.changed_at_ms = max(stream.changed_at_ms, effect.at_ms)
        self._touch(stream, effect.at_ms)
        before = stream.attributes
        stream.attributes = described(before, effect)
        for name, value in effect.attributes.items():
            self.attribute_bytes += len(value or b"") - len(before.get(name, b""))

    def _erase(self, effect: RecordsErased) -> None:
        stream = self._existing(effect.stream)
        stream.overlay = stream.overlay.with_records(effect.records)
        stream.erasures += len(effect.records)
        stream.changed_at_ms = max(stream.changed_at_ms, effect.at_ms)
        stream.record_bytes -= effect.bytes_freed
        if self.usages is not None:
            self.usages.appended(stream, -effect.bytes_freed)
        if effect.names:
            stream.names = {**(stream.names or {}), **{name.name: name for name in effect.names}}

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
            self.unflushed_forks.setdefault(effect.workspace, {})[effect.stream] = None
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
        self._leave(stream)
        self.removed[stream.id] = stream.key
        if self.usages is not None:
            self.usages.removed(stream)

    def _change_slots(self, effect: SlotsChanged) -> None:
        stream = self._existing(effect.stream)
        if stream.slots_from is None:
            stream.slots_from = effect.changes[0].position
        stream.slot_changes += len(effect.changes)
        stream.slots_used = effect.used
        if stream.slots is None:
            stream.slots = UnflushedSlots()
        for change in effect.changes:
            stream.slots.add(change)
            stream.emptied_prefixes += change.kind == EMPTIED_PREFIX
        self.unflushed_slots.setdefault(stream.key.workspace, {})[stream.id] = None

    def _free_path(self, effect: PathFreed) -> None:
        stream = self._existing(effect.stream)
        assert stream.soft_deleted, "only a deleted stream gives up its path"
        stream.freed = True
        del self.streams[stream.key]


def _size(attributes: dict[str, bytes]) -> int:
    return sum(map(len, attributes.values()))


def described(attributes: dict[str, bytes], effect: StreamDescribed) -> dict[str, bytes]:
    """Return the attributes as an effect changes them; None removes one."""
    changed = {**attributes, **effect.attributes}
    return {name: value for name, value in changed.items() if value is not None}
