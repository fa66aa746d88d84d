"""All streams and subscriptions of one partition, changed by effects and by nothing else."""

from durable_sessions.streams.effects import Appended, Effect, StreamCreated, StreamRemoved, StreamTouched
from durable_sessions.streams.stream import Key, Producer, Stream
from durable_sessions.streams.subscriptions import Subscriptions


class State:
    """The tip of a partition; the same effects in the same order give the same state."""

    def __init__(self) -> None:
        self.streams: dict[Key, Stream] = {}
        self.by_id: dict[int, Stream] = {}
        self.next_id = 1
        self.subscriptions = Subscriptions()

    def apply(self, effect: Effect) -> None:
        """Carry out one effect."""
        if isinstance(effect, Appended):
            self._append(effect)
        elif isinstance(effect, StreamTouched):
            stream = self.by_id[effect.stream]
            stream.recorded_at_ms = effect.at_ms
            stream.accessed_at_ms = max(stream.accessed_at_ms, effect.at_ms)
        elif isinstance(effect, StreamCreated):
            self._create(effect)
        elif isinstance(effect, StreamRemoved):
            self._remove(effect)
        else:
            self.subscriptions.apply(effect)

    def _append(self, effect: Appended) -> None:
        stream = self.by_id[effect.stream]
        assert effect.first == stream.tail, "effects of a stream are consecutive"
        stream.tail = effect.next
        stream.recorded_at_ms = effect.at_ms
        stream.accessed_at_ms = max(stream.accessed_at_ms, effect.at_ms)
        if effect.seq is not None:
            stream.last_seq = effect.seq
        if effect.producer is not None:
            producer, epoch, seq = effect.producer
            stream.producers[producer] = (epoch, seq)
        if effect.closed:
            stream.closed = True
            stream.closed_by = Producer(*effect.producer) if effect.producer else None

    def _create(self, effect: StreamCreated) -> None:
        parent = None if effect.parent is None else self.by_id[effect.parent]
        key = Key(effect.workspace, effect.path)
        stream = Stream(
            id=effect.stream,
            key=key,
            content_type=effect.content_type,
            tail=effect.base,
            ttl_seconds=effect.ttl_seconds,
            expires_at_ms=effect.expires_at_ms,
            accessed_at_ms=effect.created_at_ms,
            recorded_at_ms=effect.created_at_ms,
            parent=parent,
            base=effect.base,
            fork_at_tail=effect.fork_at_tail,
            depth=0 if parent is None else parent.depth + 1,
        )
        if parent is not None:
            parent.forks += 1
        assert key not in self.streams, "a path is created only when it is free"
        self.streams[key] = self.by_id[stream.id] = stream
        self.next_id = max(self.next_id, stream.id + 1)

    def _remove(self, effect: StreamRemoved) -> None:
        stream = self.by_id[effect.stream]
        if effect.soft:
            stream.soft_deleted = True
            return
        assert stream.forks == 0, "records that forks read are kept"
        del self.streams[stream.key], self.by_id[stream.id]
        if stream.parent is not None:
            stream.parent.forks -= 1
