"""Decides an append or a close; checks closed, content type, producer, precondition, Stream-Seq, body."""

from dataclasses import dataclass

from durable_sessions.errors import (
    ContentTypeMismatchError,
    DurableSessionsError,
    EmptyBodyError,
    MissingContentTypeError,
    NewEpochSequenceError,
    PreconditionNotMetError,
    ProducerGapError,
    SequenceConflictError,
    StaleEpochError,
    StreamClosedError,
    TooManyProducersError,
)
from durable_sessions.limits import Limits
from durable_sessions.streams import content, lifetime, messages, offsets
from durable_sessions.streams.effects import Effect, RecordsAppended
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Producer, Stream


@dataclass(slots=True)
class Append:
    """A request to append, to close, or both; the tail must be one of ``if_tail``, if that is given.

    ``if_exists`` and ``incarnation`` are for streams that an append may create: the stream must exist
    already, and be this incarnation. ``parsed`` is the body parsed in advance, or the error from parsing it.
    """

    body: bytes
    content_type: str | None = None
    producer: Producer | None = None
    seq: str | None = None
    close: bool = False
    if_tail: frozenset[int] | None = None
    if_exists: bool = False
    incarnation: str | None = None
    parsed: messages.Payload | DurableSessionsError | None = None


@dataclass(slots=True)
class AppendResult:
    """The answer to an append; ``producer`` has the highest accepted number, ``duplicate`` marks a repeat."""

    tail: int
    closed: bool
    producer: Producer | None = None
    duplicate: bool = False


def decide(
    state: State, key: Key, request: Append, now_ms: int, limits: Limits
) -> tuple[list[Effect], AppendResult]:
    """Return the effects and the answer of an append, or refuse it; a refusal changes nothing."""
    stream = lifetime.find(state, key, now_ms)
    if request.incarnation is not None:
        raise PreconditionNotMetError(
            problem="Only sessions have an incarnation.", exists=True, tail=offsets.encode(stream.tail)
        )
    close_only = request.close and not request.body
    if not request.body and not request.close:
        raise EmptyBodyError
    if not close_only and not stream.closed:  # of a closed stream, only that it is closed is reported
        _require_content_type(stream, request.content_type)
    repeat = admit(stream, request, now_ms, limits, close_only=close_only)
    if repeat is not None:
        return repeat
    if close_only:
        payload = messages.EMPTY
    else:
        payload = messages.require_some(
            messages.payload(request.parsed, request.body, json=stream.is_json, limits=limits)
        )
    effect = RecordsAppended(
        stream.id,
        stream.tail,
        now_ms,
        payload.lengths,
        request.producer,
        request.seq,
        request.close,
        payload.data,
    )
    return [effect], AppendResult(effect.next, closed=request.close, producer=request.producer)


def plain(
    stream: StreamRecord, content_type: str | None, body: bytes, now_ms: int, limits: Limits
) -> RecordsAppended | None:
    """Return what :func:`decide` does with nothing but a body: a fast path for most; None if it needs more.

    What could be refused needs more, and so do streams that can expire.
    """
    if (
        stream.closed
        or stream.soft_deleted
        or stream.ttl_seconds is not None
        or stream.expires_at_ms is not None
        or content_type != stream.content_type
        or not body
    ):
        return None
    lengths: tuple[int, ...] = ()
    if stream.is_json:
        message = messages.plain(body, limits)
        if message is None:
            return None
        body, lengths = message, (len(message),)
    return RecordsAppended(stream.id, stream.tail, now_ms, lengths, None, None, False, body)


def admit(
    stream: StreamRecord, request: Append, now_ms: int, limits: Limits, *, close_only: bool
) -> tuple[list[Effect], AppendResult] | None:
    """Return None for a new append, effects and answer for a repeat, or refuse it.

    Everything but the body is checked: closed, producer, precondition and Stream-Seq.
    """
    assert isinstance(stream, Stream)
    if stream.closed:
        return _on_closed(stream, request, now_ms, limits, close_only=close_only)
    # The producer is checked before the precondition: if the first attempt of a retry succeeded, it has moved
    # the tail itself, and the retry must get the answer of that attempt rather than a conflict.
    producer = request.producer
    if producer is not None:
        repeat = _check_producer(stream, producer, limits)
        if repeat is not None:
            return list(lifetime.touch(stream, now_ms, limits)), AppendResult(
                stream.tail, closed=False, producer=repeat, duplicate=True
            )
    if request.if_tail is not None and stream.tail not in request.if_tail:
        tail = offsets.encode(stream.tail)
        raise PreconditionNotMetError(
            problem=f"It ends at {tail}, which If-Match does not name.", exists=True, tail=tail
        )
    if request.seq is not None and stream.last_seq is not None and request.seq <= stream.last_seq:
        raise SequenceConflictError(sent=request.seq, last=stream.last_seq)
    return None


def _on_closed(
    stream: Stream, request: Append, now_ms: int, limits: Limits, *, close_only: bool
) -> tuple[list[Effect], AppendResult]:
    """A closed stream accepts the repeat of what closed it, and a bare close; nothing else."""
    repeats_the_close = request.producer is not None and request.producer == stream.closed_by
    if not repeats_the_close and not (close_only and request.producer is None):
        raise StreamClosedError(tail=offsets.encode(stream.tail))
    return list(lifetime.touch(stream, now_ms, limits)), AppendResult(
        stream.tail, closed=True, producer=request.producer, duplicate=True
    )


def _require_content_type(stream: Stream, sent: str | None) -> None:
    if sent is None:
        raise MissingContentTypeError
    if sent != stream.content_type and content.media_type(sent) != content.media_type(stream.content_type):
        raise ContentTypeMismatchError(sent=sent, expected=stream.content_type)


def is_repeat(stream: StreamRecord, sent: Producer) -> bool:
    """Say whether a producer has appended under this number already."""
    assert isinstance(stream, Stream)
    known = stream.producers.get(sent.id)
    return known is not None and known[0] == sent.epoch and sent.seq <= known[1]


def _check_producer(stream: Stream, sent: Producer, limits: Limits) -> Producer | None:
    """Return None for a new append, or the highest accepted number for a repeat of an old one."""
    known = stream.producers.get(sent.id)
    if known is None:
        if sent.seq != 0:  # an unknown producer starts at 0; a higher number means that appends are missing
            raise ProducerGapError(received=sent.seq, expected=0)
        if len(stream.producers) >= limits.producers_per_stream_max:
            raise TooManyProducersError(producers_per_stream_max=limits.producers_per_stream_max)
        return None
    epoch, last = known
    if sent.epoch < epoch:
        raise StaleEpochError(sent=sent.epoch, current=epoch)
    if sent.epoch > epoch:  # a restarted producer; its higher epoch fences the one before it
        if sent.seq != 0:
            raise NewEpochSequenceError(received=sent.seq)
        return None
    if sent.seq <= last:
        return Producer(sent.id, epoch, last)
    if sent.seq > last + 1:
        raise ProducerGapError(received=sent.seq, expected=last + 1)
    return None
