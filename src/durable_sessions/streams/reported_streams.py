"""Streams of other partitions that subscriptions watch: their tails, as their owners reported them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from durable_sessions.partition_id import same_partition
from durable_sessions.streams.effects import StreamTold
from durable_sessions.streams.stream import Key, Stream

_UNWATCHED_MAX = 20_000
"""How many streams are kept that no subscription has linked yet; beyond it the oldest is dropped."""

_GONE_MAX = 1_000
"""How many streams that are gone are remembered: until the links to them are removed."""


class Tail(NamedTuple):
    """The durable tail of a stream, as its owner reported it; without a tail the stream is gone."""

    path: str
    stream: int
    base: int
    tail: int | None


class ReportedStreams:
    """The reported tails, changed by effects and by nothing else.

    A stream that no subscription watches is kept only for a while: a subscription may be about to link it.
    """

    def __init__(self) -> None:
        self._streams: dict[Key, Stream] = {}
        self._numbered: dict[int, Stream] = {}
        self._unwatched: dict[Key, None] = {}
        self._gone: dict[int, None] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReportedStreams) and list(self.snapshot()) == list(other.snapshot())

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __len__(self) -> int:
        return len(self._streams)

    def get(self, key: Key) -> Stream | None:
        """Return what was reported of the stream at a path; None if nothing was, or if it is gone."""
        return self._streams.get(key)

    def numbered(self, number: int) -> Stream | None:
        """Return what was reported of the stream with this number."""
        return self._numbered.get(number)

    def is_gone(self, number: int) -> bool:
        """Say whether a stream is known to be gone, though links to it may not have been removed yet."""
        return number in self._gone

    def paths(self, workspace: str) -> list[str]:
        """Return the paths of the streams of a workspace."""
        return [key.path for key in self._streams if key.workspace == workspace]

    def news(self, workspace: str, tails: Iterable[Tail]) -> Iterator[StreamTold]:
        """Yield effects for the reports that are news; those older than what is known are left out."""
        for tail in tails:
            known = self._streams.get(Key(workspace, tail.path))
            if known is None:
                is_news = tail.tail is not None
            elif known.id == tail.stream:
                is_news = tail.tail is None or tail.tail > known.tail
            else:
                is_older = same_partition(known.id, tail.stream) and tail.stream < known.id
                is_news = tail.tail is not None and not is_older
            if is_news:
                yield StreamTold(workspace, *tail)

    def apply(self, effect: StreamTold, *, watched: bool) -> None:
        """Apply one effect."""
        key = Key(effect.workspace, effect.path)
        self.drop(key)
        if effect.tail is None:
            self._gone[effect.stream] = None
            if len(self._gone) > _GONE_MAX:
                del self._gone[next(iter(self._gone))]
            return
        stream = Stream(effect.stream, key, "", effect.tail, None, None, 0, 0, 0, base=effect.base)
        self._streams[key] = self._numbered[stream.id] = stream
        if not watched:
            self._unwatched[key] = None
            if len(self._unwatched) > _UNWATCHED_MAX:
                self.drop(next(iter(self._unwatched)))

    def watched(self, key: Key) -> None:
        """Keep a stream: a subscription has linked it."""
        self._unwatched.pop(key, None)

    def drop(self, key: Key) -> None:
        """Forget a stream."""
        stream = self._streams.pop(key, None)
        if stream is not None:
            del self._numbered[stream.id]
        self._unwatched.pop(key, None)

    def snapshot(self) -> Iterator[StreamTold]:
        """Yield effects that give the same streams when they are applied to none."""
        for key, stream in self._streams.items():
            yield StreamTold(*key, stream.id, stream.base, stream.tail)
