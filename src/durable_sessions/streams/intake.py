"""Decides to take a record of another partition's outbox: each is taken once, in order."""

from durable_sessions.errors import StreamClosedError
from durable_sessions.streams import offsets
from durable_sessions.streams.effects import Effect, RecordsAppended, StreamCreated
from durable_sessions.streams.outbox import OwedRecord
from durable_sessions.streams.state import State

_JSON = "application/json"
_PRODUCER = "outbox "


def take(state: State, record: OwedRecord, now_ms: int) -> list[Effect]:
    """Return the effects of taking a record, none if it was taken before; its stream is created if missing.

    An outbox delivers to each target in order. So the number of the last record that was taken, which is kept
    as that of a producer, in the same effect as the record, tells which ones are repeated.
    """
    stream = state.get(record.target)
    source = _PRODUCER + record.id.source
    effects: list[Effect] = []
    if stream is None:
        number, tail = state.next_id, 0
        effects.append(StreamCreated(number, *record.target, _JSON, now_ms))
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
