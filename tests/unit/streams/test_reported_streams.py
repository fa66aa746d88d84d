"""Streams of other partitions that are watched, and wake events for streams of other partitions."""

import msgspec
import pytest

from durable_sessions.streams import reported_streams, wake_intake
from durable_sessions.streams.effects import RecordsAppended, StreamCreated, StreamRemoved, StreamTold
from durable_sessions.streams.reported_streams import ReportedStreams, Tail
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.streams.subscriptions import Subscriptions
from durable_sessions.streams.wake_intake import WakeEvent

OTHER = 1 << 40


def tell(streams: ReportedStreams, *tails: Tail, watched: bool = True) -> list[StreamTold]:
    news = list(streams.news("w", tails))
    for effect in news:
        streams.apply(effect, watched=watched)
    return news


def test_only_what_is_newer_is_news() -> None:
    streams = ReportedStreams()
    assert len(tell(streams, Tail("a", OTHER, 0, 3))) == 1
    assert not tell(streams, Tail("a", OTHER, 0, 3), Tail("a", OTHER, 0, 2)), "known, and older"
    assert not tell(streams, Tail("b", OTHER + 1, 0, None)), "gone, and never heard of"
    tell(streams, Tail("a", OTHER, 0, 5))
    assert (found := streams.get(Key("w", "a"))) is not None
    assert (found.id, found.tail, found.base) == (OTHER, 5, 0)
    assert streams.numbered(OTHER) is found


def test_a_stream_that_is_made_again_replaces_the_one_before() -> None:
    streams = ReportedStreams()
    tell(streams, Tail("a", OTHER + 5, 0, 3))
    assert not tell(streams, Tail("a", OTHER + 4, 0, 8)), "an older one of the same partition"
    assert not tell(streams, Tail("a", OTHER + 4, 0, None)), "the end of an older one"
    assert tell(streams, Tail("a", OTHER + 6, 0, 1))
    assert tell(streams, Tail("a", 2 * OTHER + 1, 0, 2)), "one that lives in another partition now"
    assert streams.numbered(OTHER + 6) is None
    assert tell(streams, Tail("a", 2 * OTHER + 1, 0, None))
    assert streams.get(Key("w", "a")) is None
    assert streams.is_gone(2 * OTHER + 1)


def test_what_nobody_watches_is_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reported_streams, "_UNWATCHED_MAX", 2)
    streams = ReportedStreams()
    tell(streams, Tail("watched", OTHER, 0, 1))
    for number in range(1, 3):
        tell(streams, Tail(f"{number}", OTHER + number, 0, 1), watched=False)
    assert len(streams) == 3
    streams.watched(Key("w", "1"))
    for number in range(3, 6):
        tell(streams, Tail(f"{number}", OTHER + number, 0, 1), watched=False)
    assert sorted(streams.paths("w")) == ["1", "4", "5", "watched"]


def test_a_snapshot_gives_the_same_streams() -> None:
    subscriptions = Subscriptions()
    for number in range(3):
        subscriptions.apply(StreamTold("w", f"{number}", OTHER + number, 1, number + 1))
    again = Subscriptions()
    for effect in subscriptions.snapshot():
        again.apply(effect)
    assert list(again.reported.snapshot()) == list(subscriptions.reported.snapshot())
    assert len(again.reported) == 3


def wake(generation: int, created_at_ms: int = 7) -> WakeEvent:
    return WakeEvent("sub", created_at_ms, generation, msgspec.Raw(b'{"type":"wake"}'))


@pytest.mark.parametrize(("content_type", "end"), [("application/json", b","), ("text/plain", b"\n")])
def test_a_wake_event_is_taken_once(content_type: str, end: bytes) -> None:
    state, key = State(), Key("w", "wakes")
    assert wake_intake.take(state, key, wake(1), 0) == [], "there is no such stream"
    state.apply(StreamCreated(1, *key, content_type, 0))
    for event in (wake(1), wake(1), wake(2), wake(1), wake(2), wake(1, 8), wake(3), wake(1, 8), wake(2, 8)):
        for effect in wake_intake.take(state, key, event, 0):
            assert isinstance(effect, RecordsAppended)
            assert effect.data == b'{"type":"wake"}' + end
            state.apply(effect)
    stream = state.get(key)
    assert stream is not None
    assert stream.record_bytes == 4 * len(b'{"type":"wake"},'), "two of the first one, two of its successor"
    state.apply(RecordsAppended(1, stream.tail, 0, (), None, None, True, b""))
    assert wake_intake.take(state, key, wake(9, 9), 0) == [], "it is closed"
    state.apply(StreamRemoved(1))
    assert wake_intake.take(state, key, wake(9, 9), 0) == []
