"""Decides to append the wake event of a subscription that another partition has: each exactly once."""

import msgspec

from durable_sessions.errors import StreamGoneError, StreamNotFoundError
from durable_sessions.streams import lifetime
from durable_sessions.streams.effects import Effect, RecordsAppended
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key

_PRODUCER = "__sub/"


class WakeEvent(msgspec.Struct, frozen=True):
    """A wake event on its way to the partition of its wake stream.

    Two subscriptions can have the same id, one after the other; the time of creation tells them apart.
    """

    subscription: str
    created_at_ms: int
    generation: int
    event: msgspec.Raw


def take(state: State, wake_stream: Key, wake: WakeEvent, now_ms: int) -> list[Effect]:
    """Return the append; nothing if it was taken before, or if the stream takes no appends.

    The generation of the last wake is kept as the number of a producer, in the same effect as the event.
    """
    try:
        stream = lifetime.find(state, wake_stream, now_ms)
    except (StreamNotFoundError, StreamGoneError):
        return []  # the wake can be claimed anyhow
    producer = _PRODUCER + wake.subscription
    number = wake.created_at_ms, wake.generation
    if stream.closed or number <= stream.producers.get(producer, (-1, 0)):
        return []
    # Messages of a stream that is not JSON have no borders of their own.
    data = bytes(wake.event) + (b"," if stream.is_json else b"\n")
    lengths = (len(data),) if stream.is_json else ()
    return [RecordsAppended(stream.id, stream.tail, now_ms, lengths, (producer, *number), None, False, data)]
