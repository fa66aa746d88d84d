"""The rules that every history must keep; each yields descriptions of its violations.

A rule examines one incarnation of one stream. A stream that is deleted, or that expires, need not have
been read completely.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import accumulate
from math import inf

from durable_sessions.testing.history import (
    Answered,
    AppendAcknowledged,
    CallRefused,
    ProducerNumbers,
    ReadOperation,
    RecordedCall,
)
from durable_sessions.testing.incarnations import AppendAttempts, StreamIncarnation

Rule = Callable[[StreamIncarnation], Iterator[str]]


def _answers(life: StreamIncarnation) -> Iterator[tuple[RecordedCall, int, Answered]]:
    for call in life.reads:
        assert isinstance(call.request, ReadOperation)
        assert isinstance(call.outcome, Answered)
        assert call.ended is not None
        yield call, call.request.offset, call.outcome


def _acknowledgements(
    life: StreamIncarnation,
) -> Iterator[tuple[AppendAttempts, RecordedCall, AppendAcknowledged]]:
    for attempts in life.attempts:
        for call in attempts.calls:
            if isinstance(call.outcome, AppendAcknowledged):
                yield attempts, call, call.outcome


def reads_are_gap_free(life: StreamIncarnation) -> Iterator[str]:
    """A read says to go on exactly after what it returned, and returns nothing only at the tail."""
    for call, offset, answer in _answers(life):
        if answer.next != offset + len(answer.values):
            yield f"{len(answer.values)} messages from {offset} on, but {answer.next} is next: {call}"
        if not answer.values and not answer.up_to_date:
            yield f"nothing was returned, and yet there is more: {call}"


def reads_agree(life: StreamIncarnation) -> Iterator[str]:
    """Every read shows the same message at the same position."""
    for position, known, call in life.clashes:
        yield f"position {position} was {known!r} in another read: {call}"


def nothing_is_doubled(life: StreamIncarnation) -> Iterator[str]:
    """Every message is at one position."""
    for value, places in life.places.items():
        if len(places) > 1:
            yield f"{value!r} is at {sorted(places)}"


def acknowledged_is_there(life: StreamIncarnation) -> Iterator[str]:
    """An acknowledged append is at the acknowledged position, in all reads that follow."""
    for attempts in life.attempts:
        call = attempts.acknowledged
        if call is not None:
            assert isinstance(call.outcome, AppendAcknowledged)
            first = call.outcome.next - len(attempts.values)
            for position, value in enumerate(attempts.values, first):
                shown = life.log.get(position)
                if shown != value and (shown is not None or life.may_end_from == inf):
                    yield f"position {position} was acknowledged to be {value!r} and is {shown!r}: {call}"
        elif attempts.acknowledged_at < inf and life.may_end_from == inf:
            for value in attempts.values:
                if value not in life.places:
                    yield f"{value!r} was acknowledged as a duplicate and is not there"


def appends_are_whole(life: StreamIncarnation) -> Iterator[str]:
    """Of an append all messages are there, one after the other, or none."""
    for attempts in life.appends:
        places = [life.places.get(value, [None])[0] for value in attempts.values]
        begins = [place - index for index, place in enumerate(places) if place is not None]
        if not begins:
            continue
        parted = len(set(begins)) > 1
        if parted or (len(begins) < len(places) and life.may_end_from == inf):
            yield f"{attempts.values} is at {places}"


def refused_never_appears(life: StreamIncarnation) -> Iterator[str]:
    """What was refused is not there."""
    for attempts in life.attempts:
        for value in attempts.values:
            if attempts.refused and value in life.places:
                yield f"{value!r} is at {life.places[value]}: {attempts.calls[-1]}"


def nothing_comes_from_nowhere(life: StreamIncarnation) -> Iterator[str]:
    """What is read was appended, by a call that began before the read ended."""
    begun = {value: attempts.started for attempts in life.appends for value in attempts.values}
    for call, offset, answer in _answers(life):
        assert call.ended is not None
        for position, value in enumerate(answer.values, offset):
            if position >= life.anchor and begun.get(value, inf) > call.ended:
                yield f"{value!r} was read at {position} before anybody appended it: {call}"


def order_agrees_with_time(life: StreamIncarnation) -> Iterator[str]:
    """What began after an append was acknowledged comes after it."""
    placed = [
        (life.places[attempts.values[0]][0], attempts)
        for attempts in life.appends
        if attempts.values and attempts.values[0] in life.places
    ]
    placed.sort(key=lambda pair: pair[0])
    latest: AppendAttempts | None = None
    for _, attempts in placed:
        if latest is not None and attempts.acknowledged_at < latest.started:
            yield f"{latest.values} comes before {attempts.values}, which was acknowledged before it began"
        if latest is None or attempts.started > latest.started:
            latest = attempts


def up_to_date_was_true(life: StreamIncarnation) -> Iterator[str]:
    """A read that said to be up to date had all that was known before it began."""
    known = [(call.ended, answer.next) for _, call, answer in _acknowledgements(life)]
    known += [(call.ended, answer.next) for call, _, answer in _answers(life)]
    known.sort(key=lambda pair: pair[0] or 0.0)
    times = [ended or 0.0 for ended, _ in known]
    tails = list(accumulate((tail for _, tail in known), max))
    for call, _, answer in _answers(life):
        earlier = bisect_left(times, call.started)
        if answer.up_to_date and earlier and tails[earlier - 1] > answer.next:
            yield f"the tail was {tails[earlier - 1]} already: {call}"


def producers_are_exactly_once(life: StreamIncarnation) -> Iterator[str]:
    """The appends of a producer are in the order of epoch and sequence, each epoch from 0 without a gap."""
    placed: dict[str, list[tuple[int, ProducerNumbers]]] = defaultdict(list)
    for attempts in life.appends:
        if attempts.producer is not None and attempts.values and attempts.values[0] in life.places:
            place = life.places[attempts.values[0]][0]
            placed[attempts.producer.id].append((place, attempts.producer))
    for appends in placed.values():
        last = ProducerNumbers("", -1, -1)
        for place, producer in sorted(appends, key=lambda pair: pair[0]):
            follows = producer.epoch == last.epoch and producer.seq == last.seq + 1
            begins = producer.epoch > last.epoch and producer.seq == 0
            later = (producer.epoch, producer.seq) > (last.epoch, last.seq)
            unread = later and life.may_end_from < inf  # what lies between may be gone before anyone read it
            if not follows and not begins and not unread:
                yield f"{producer} at {place} comes after epoch {last.epoch}, sequence {last.seq}"
            last = producer


def closed_stays_closed(life: StreamIncarnation) -> Iterator[str]:
    """Nothing follows the end of a closed stream, and from the close on every read of the end says so."""
    ends = [
        (call, answer.next)
        for attempts, call, answer in _acknowledgements(life)
        if attempts.close and not answer.duplicate
    ]
    ends += [(call, answer.next) for call, _, answer in _answers(life) if answer.closed]
    if not ends:
        return
    end = min(tail for _, tail in ends)
    closed_at = min(call.ended or inf for call, _ in ends)
    for call, tail in ends:
        if tail != end:
            yield f"closed at {end} and at {tail}: {call}"
    for position in sorted(life.log):
        if position >= end:
            yield f"{life.log[position]!r} is at {position}, and the stream was closed at {end}"
    for call, _, answer in _answers(life):
        if answer.up_to_date and not answer.closed and call.started > closed_at:
            yield f"the stream was closed already: {call}"
    closes = [attempts.started for attempts in life.appends if attempts.close and not attempts.refused]
    for call, _, answer in _answers(life):
        if answer.closed and min(closes, default=inf) > (call.ended or inf):
            yield f"nobody had closed the stream: {call}"


def deleted_stays_deleted(life: StreamIncarnation) -> Iterator[str]:
    """After a delete the stream is missing, until somebody creates it anew."""
    if life.may_be_created_late:
        return
    calls = [*life.reads, *(call for _, call, _ in _acknowledgements(life))]
    for call in calls:
        if call.started > life.gone_at:
            yield f"the stream was gone already: {call}"


def created_stays(life: StreamIncarnation) -> Iterator[str]:
    """A created stream is never missing before somebody deletes it."""
    for call in life.refusals:
        assert isinstance(call.outcome, CallRefused)
        if call.started > life.created_at and (call.ended or inf) < life.may_end_from:
            yield f"nobody had deleted the stream: {call}"


RULES: tuple[Rule, ...] = (
    reads_are_gap_free,
    reads_agree,
    nothing_is_doubled,
    acknowledged_is_there,
    appends_are_whole,
    refused_never_appears,
    nothing_comes_from_nowhere,
    order_agrees_with_time,
    up_to_date_was_true,
    producers_are_exactly_once,
    closed_stays_closed,
    deleted_stays_deleted,
    created_stays,
)
