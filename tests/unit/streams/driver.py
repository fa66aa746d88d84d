"""Drives the pure state machine as the partition does: decide, then apply."""

from dataclasses import dataclass, field
from typing import Any

from durable_sessions.limits import DEFAULT_LIMITS, Limits
from durable_sessions.streams import append, create, lifetime
from durable_sessions.streams.append import Append, AppendResult
from durable_sessions.streams.create import Create, Created
from durable_sessions.streams.effects import Effect, RecordsAppended
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Producer, Stream


@dataclass
class Machine:
    """A state, a clock and the record of every effect."""

    limits: Limits = DEFAULT_LIMITS
    now_ms: int = 1_000_000
    state: State = field(default_factory=State)
    effects: list[Effect] = field(default_factory=list)

    def create(self, path: str, **options: Any) -> Created:
        request = Create(**options)
        decided, result = create.decide(
            self.state, key(path), request, self.now_ms, self.limits, self.anchor_end(request)
        )
        self.apply(decided)
        return result

    def append(
        self, path: str, body: bytes = b"x", content_type: str | None = "text/plain", **options: Any
    ) -> AppendResult:
        decided, result = append.decide(
            self.state, key(path), Append(body, content_type, **options), self.now_ms, self.limits
        )
        self.apply(decided)
        return result

    def delete(self, path: str) -> None:
        self.apply(lifetime.remove(self.state, self.find(path)))

    def find(self, path: str) -> Stream:
        return lifetime.find(self.state, key(path), self.now_ms)

    def touch(self, path: str) -> int:
        """Touch a stream and return how many effects that gave."""
        decided = lifetime.touch(self.find(path), self.now_ms, self.limits)
        self.apply(decided)
        return len(decided)

    def expire(self, path: str) -> None:
        self.apply(lifetime.expire(self.state, key(path), self.now_ms))

    def advance(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)

    def apply(self, decided: list[Any]) -> None:
        for effect in decided:
            self.state.apply(effect)
            self.effects.append(effect)

    def anchor_end(self, request: Create) -> int | None:
        source = None if request.fork is None else self.state.get(key(request.fork.source))
        if request.fork is None or request.fork.anchor is None or source is None:
            return None
        return self.append_end(source, request.fork.anchor)

    def append_end(self, stream: Stream, position: int) -> int | None:
        owner, stop = stream, stream.tail
        while owner.parent is not None and position < owner.base:
            stop = min(stop, owner.base)
            owner = self.state.by_id[owner.parent]
        for effect in self.effects:
            if (
                type(effect) is RecordsAppended
                and effect.stream == owner.id
                and effect.first <= position < effect.next
            ):
                return min(effect.next, stop)
        return None


def key(path: str) -> Key:
    return Key("default", path)


def producer(seq: int, epoch: int = 0, name: str = "p") -> Producer:
    return Producer(name, epoch, seq)


def snapshot(state: State) -> object:
    """Everything of a state that decisions depend on, comparable; in-memory touches left out."""
    return state.next_id, {
        stream.id: (
            stream.key,
            stream.content_type,
            stream.tail,
            stream.base,
            stream.parent,
            stream.forks,
            stream.depth,
            stream.ttl_seconds,
            stream.expires_at_ms,
            stream.recorded_at_ms,
            stream.closed,
            stream.closed_by,
            stream.last_seq,
            stream.soft_deleted,
            dict(stream.producers),
        )
        for stream in state.by_id.values()
    }
