"""What a subscription watches: its links held against the streams as they are now."""

from collections.abc import Mapping

import msgspec

from durable_sessions.streams import offsets
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.streams.subscriptions import Link, Subscription

Changes = Mapping[str, Link | None]
"""What becomes of links, by path; None is a link that goes away."""


class StreamInfo(msgspec.Struct, frozen=True):
    """A watched stream as clients see it."""

    path: str
    link_type: str
    acked_offset: str
    tail_offset: str
    has_pending: bool


def visible(state: State, key: Key, now_ms: int) -> Stream | None:
    """Return the stream at a path if it can be used now."""
    stream = state.get(key)
    return None if stream is None or stream.soft_deleted or stream.expired(now_ms) else stream


def linked(state: State, link: Link, now_ms: int) -> Stream | None:
    """Return the stream that a link is about, None if it is gone or was never there."""
    stream = None if link.stream is None else state.get_id(link.stream)
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
    without pending records are left out beyond that length.
    """
    pending: list[StreamInfo] = []
    others: list[StreamInfo] = []
    for path, link in subscription.links.items():
        stream = linked(state, link, now_ms)
        if stream is None and link.stream is not None:
            continue
        acked = max(link.acked, 0)
        now_at = 0 if stream is None else stream.tail
        tail = now_at if tails is None else max(tails.get(path, 0), acked)
        if tail > acked:
            pending.append(stream_info(path, explicit=link.explicit, acked=link.acked, tail=tail))
        elif listed_max is None or len(others) < listed_max:
            others.append(stream_info(path, explicit=link.explicit, acked=link.acked, tail=tail))
    return pending + (others if listed_max is None else others[: max(listed_max - len(pending), 0)])


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
    """Return the tails of the watched streams that reach beyond what was acknowledged."""
    found = {}
    links = {**subscription.links, **changes} if changes else subscription.links
    for path, link in links.items():
        # Most links of a wide pattern are caught up, so the cheap test comes first.
        if link is None or link.stream is None:
            continue
        stream = state.get_id(link.stream)
        if (
            stream is not None
            and stream.tail > max(link.acked, 0)
            and not stream.soft_deleted
            and not stream.expired(now_ms)
        ):
            found[path] = stream.tail
    return found
