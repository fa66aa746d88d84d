"""What a subscription watches: its links, compared with the streams as they are now."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from durable_sessions.streams import offsets
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.streams.subscriptions import Link, Subscription

Changes = Mapping[str, Link | None]
"""The new links by path; None removes a link."""


class StreamInfo(msgspec.Struct, frozen=True):
    """A watched stream as clients see it."""

    path: str
    link_type: str
    acked_offset: str
    tail_offset: str
    has_pending: bool


def stream_at(state: State, key: Key) -> Stream | None:
    """Return the stream at a path, of this partition or as another one has told of it."""
    return state.get(key) or state.subscriptions.reported.get(key)


def peeked(state: State, number: int) -> Stream | None:
    """Return a stream by its number without bringing it into memory, or as another partition told of it."""
    return state.by_id.get(number) or state.subscriptions.reported.numbered(number) or state.peek_id(number)


def visible(state: State, key: Key, now_ms: int) -> Stream | None:
    """Return the stream at a path if it can be used now."""
    stream = stream_at(state, key)
    return None if stream is None or stream.soft_deleted or stream.expired(now_ms) else stream


def linked(state: State, link: Link, now_ms: int) -> Stream | None:
    """Return the stream that a link is about, None if it is gone or was never there."""
    stream = None
    if link.stream is not None:
        stream = state.subscriptions.reported.numbered(link.stream) or state.get_id(link.stream)
    return None if stream is None or stream.soft_deleted or stream.expired(now_ms) else stream


def stream_infos(
    state: State,
    subscription: Subscription,
    now_ms: int,
    *,
    tails: Mapping[str, int] | None = None,
    listed_max: int | None = None,
) -> list[StreamInfo]:
    """Return the watched streams, pending ones first; a link whose stream is gone is left out.

    With ``tails`` they are shown as of a wake, else as they are now. With ``listed_max``, streams
    without pending records are left out beyond that length. No stream that is caught up is loaded.
    """
    now_at = pending_tails(state, subscription, now_ms) if tails is None else tails
    return infos_of(state, subscription.links.items(), now_at, now_ms, listed_max)


def infos_of(
    state: State,
    links: Iterable[tuple[str, Link]],
    now_at: Mapping[str, int],
    now_ms: int,
    listed_max: int | None = None,
) -> list[StreamInfo]:
    """Return links as clients see them, pending ones first; ``now_at`` are the tails of these."""
    pending: list[StreamInfo] = []
    others: list[StreamInfo] = []
    for path, link in links:
        acked = max(link.acked, 0)
        tail = max(now_at.get(path, 0), acked)
        # Nothing is lost by leaving it out, and whether its stream is still there need not be asked.
        if tail <= acked and listed_max is not None and len(others) >= listed_max:
            continue
        if link.stream is not None and _is_gone(state, link.stream, now_ms):
            continue
        info = stream_info(path, explicit=link.explicit, acked=link.acked, tail=tail)
        (pending if tail > acked else others).append(info)
    return pending + (others if listed_max is None else others[: max(listed_max - len(pending), 0)])


def _is_gone(state: State, number: int, now_ms: int) -> bool:
    """Say whether a linked stream is known to be gone; one that nobody has used since is still there."""
    if state.subscriptions.reported.is_gone(number):
        return True
    stream = state.by_id.get(number)
    if stream is None:
        return number in state.removed
    return stream.soft_deleted or stream.expired(now_ms)


def stream_info(path: str, *, explicit: bool, acked: int, tail: int) -> StreamInfo:
    """Return one watched stream as clients see it."""
    return StreamInfo(
        path,
        "explicit" if explicit else "glob",
        "-1" if acked < 0 else offsets.encode(acked),
        offsets.encode(tail),
        tail > max(acked, 0),
    )


def pending_tails(
    state: State, subscription: Subscription, now_ms: int, changes: Changes | None = None
) -> dict[str, int]:
    """Return the tails of the watched streams that reach beyond what was acknowledged.

    Links that turn out to be caught up are no longer looked at until their stream grows.
    """
    return dict(_pending(state, subscription, now_ms, changes or {}))


def has_pending(
    state: State, subscription: Subscription, now_ms: int, changes: Changes | None = None
) -> bool:
    """Say whether any watched stream reaches beyond what was acknowledged; stops at the first."""
    return any(True for _ in _pending(state, subscription, now_ms, changes or {}))


def settle(state: State, subscription: Subscription, paths: Iterable[str]) -> list[str]:
    """Find out which of these links are caught up, and return those whose streams are gone or not there yet.

    It changes no decision, only how long the next one takes.
    """
    without: list[str] = []
    for path in paths:
        link = subscription.links.get(path)
        if link is None:
            continue
        stream = None if link.stream is None else peeked(state, link.stream)
        if stream is None or stream.soft_deleted:
            without.append(path)
        else:
            _note_if_caught_up(subscription, path, link, stream)
    return without


def _pending(
    state: State, subscription: Subscription, now_ms: int, changes: Changes
) -> Iterator[tuple[str, int]]:
    links = subscription.links
    # Only links that may be behind are looked at, not all. A copy, because the loop removes from it those
    # that turn out to be caught up.
    for path in [*subscription.behind, *(path for path in changes if path not in subscription.behind)]:
        link = changes[path] if path in changes else links.get(path)
        if link is None or link.stream is None:
            continue
        stream = peeked(state, link.stream)
        if path in links:
            _note_if_caught_up(subscription, path, links[path], stream)
        if stream is None or stream.soft_deleted or stream.expired(now_ms):
            continue
        if stream.tail > max(link.acked, 0):
            yield path, stream.tail


def _note_if_caught_up(subscription: Subscription, path: str, link: Link, stream: Stream | None) -> None:
    if stream is None or (stream.id == link.stream and stream.tail <= max(link.acked, 0)):
        subscription.behind.pop(path, None)
