"""All streams and subscriptions of one partition, changed by effects and by nothing else."""

from collections.abc import Callable
from typing import Protocol

from durable_sessions.streams.effects import Appended, Effect, StreamCreated, StreamRemoved, StreamTouched
from durable_sessions.streams.stream import Key, Producer, Stream
from durable_sessions.streams.subscriptions import Subscriptions


class ColdStreams(Protocol):
    """Streams that are not in memory; what has changed since it was written there is in memory."""

    def load(self, key: Key) -> Stream | None:
        """Return the stream at a path as it was written, None if there was none."""
        ...

    def load_id(self, stream: int) -> Stream | None:
        """Return a stream by its number as it was written, None if there was none."""
        ...


class NothingCold:
    """For a partition whose streams are all in memory."""

    def load(self, key: Key) -> Stream | None:
        """Return None."""

    def load_id(self, stream: int) -> Stream | None:
        """Return None."""


class State:
    """The tip of a partition; the same effects in the same order give the same state.

    ``streams`` and ``by_id`` are those in memory; :meth:`get` and :meth:`get_id` find the others too.
    ``removed`` are those that the cold ones may still have. ``era`` is moved on from outside; a stream
    remembers in which one it was last looked up. ``govern`` is told of each stream that comes into
    memory, to say what the retention policies mean for it.
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
        self.next_id = 1
        self.era = 0
        self.subscriptions = Subscriptions()

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

    def parent(self, stream: Stream) -> Stream | None:
        """Return the stream that this one is a fork of; it is kept as long as it has forks."""
        return None if stream.parent is None else self._existing(stream.parent)

    def evict(self, stream: Stream) -> None:
        """Take a stream out of memory; the cold ones must have it as it is."""
        del self.streams[stream.key], self.by_id[stream.id]

    def apply(self, effect: Effect) -> None:
        """Carry out one effect."""
        if isinstance(effect, Appended):
            self._append(effect)
        elif isinstance(effect, StreamTouched):
            self._touch(self._existing(effect.stream), effect.at_ms)
        elif isinstance(effect, StreamCreated):
            self._create(effect)
        elif isinstance(effect, StreamRemoved):
            self._remove(effect)
        else:
            self.subscriptions.apply(effect)

    def _warm(self, stream: Stream | None) -> Stream | None:
        if stream is None or stream.id in self.removed:
            return None
        self._enter(stream)
        if self._warmed is not None:
            self._warmed(stream)
        return stream

    def _enter(self, stream: Stream) -> None:
        self.streams[stream.key] = self.by_id[stream.id] = stream
        stream.era = self.era
        if self._govern is not None:
            self._govern(stream)

    def _existing(self, number: int) -> Stream:
        stream = self.get_id(number)
        assert stream is not None, "effects name streams that exist"
        return stream

    def _append(self, effect: Appended) -> None:
        stream = self._existing(effect.stream)
        assert effect.first == stream.tail, "effects of a stream are consecutive"
        stream.tail = effect.next
        self._touch(stream, effect.at_ms)
        if effect.seq is not None:
            stream.last_seq = effect.seq
        if effect.producer is not None:
            producer, epoch, seq = effect.producer
            stream.producers[producer] = (epoch, seq)
        if effect.closed:
            stream.closed = True
            stream.closed_by = Producer(*effect.producer) if effect.producer else None

    @staticmethod
    def _touch(stream: Stream, at_ms: int) -> None:
        """Note an access; one under a clock that was set back is no older than those before it."""
        stream.recorded_at_ms = max(stream.recorded_at_ms, at_ms)
        stream.accessed_at_ms = max(stream.accessed_at_ms, at_ms)

    def _create(self, effect: StreamCreated) -> None:
        parent = None if effect.parent is None else self._existing(effect.parent)
        key = Key(effect.workspace, effect.path)
        stream = Stream(
            id=effect.stream,
            key=key,
            content_type=effect.content_type,
            tail=effect.base,
            ttl_seconds=effect.ttl_seconds,
            expires_at_ms=effect.expires_at_ms,
            created_at_ms=effect.created_at_ms,
            accessed_at_ms=effect.created_at_ms,
            recorded_at_ms=effect.created_at_ms,
            parent=effect.parent,
            base=effect.base,
            fork_at_tail=effect.fork_at_tail,
            depth=0 if parent is None else parent.depth + 1,
        )
        if parent is not None:
            parent.forks += 1
        assert key not in self.streams, "a path is created only when it is free"
        self._enter(stream)
        self.next_id = max(self.next_id, stream.id + 1)

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
        self.removed[stream.id] = stream.key
