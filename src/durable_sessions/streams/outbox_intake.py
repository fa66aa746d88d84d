"""Decides to accept a record from another partition's outbox: each exactly once, in order."""

from durable_sessions.errors import StreamClosedError
from durable_sessions.streams import offsets
from durable_sessions.streams.effects import Effect, RecordsAppended, StreamCreated
from durable_sessions.streams.outbox import OwedRecord
from durable_sessions.streams.state import State

_JSON = "application/json"
_PRODUCER = "outbox "


def take(
    state: State, record: OwedRecord, now_ms: int, creation: type[StreamCreated] = StreamCreated
) -> list[Effect]:
    """Return the effects of accepting a record, none if it is a repeat; its stream is created if missing.

    An outbox delivers to each target in order. The number of the last accepted record is stored as the number
    of a producer, in the same effect as the record itself, so every repeat is recognised.
    """
    stream = state.get(record.target)
    source = _PRODUCER + record.id.source
    effects: list[Effect] = []
    if stream is None:
        number, tail = state.next_id, 0
        effects.append(creation(number, *record.target, _JSON, now_ms))
    else:
        if record.id.number <= stream.producers.get(source, (0, 0))[1]:
            return []
        if stream.closed or stream.soft_deleted:
            raise StreamClosedError(tail=offsets.encode(stream.tail))
        number, tail = stream.id, stream.tail
    data = record.data + b","
    producer = (source, 0, record.id.number)
    effects.append(RecordsAppended(number, tail, now_ms, (len(data),), producer, None, False, data))
    return effects
