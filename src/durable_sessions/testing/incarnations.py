"""The incarnations of the streams of a history: each from a create to a delete, with its reads."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf

from durable_sessions.testing.history import (
    Answered,
    AppendAcknowledged,
    AppendOperation,
    CallRefused,
    CreateOperation,
    DeleteOperation,
    Done,
    ReadOperation,
    RecordedCall,
    Unknown,
)

MISSING = frozenset({"stream_not_found", "stream_gone"})


class AppendAttempts:
    """One append and its retries, of which at most one takes effect."""

    def __init__(self, request: AppendOperation) -> None:
        self.values = request.values
        self.producer = request.producer
        self.close = request.close
        self.calls: list[RecordedCall] = []

    @property
    def started(self) -> float:
        """The earliest time at which it can have happened."""
        return min(call.started for call in self.calls)

    @property
    def acknowledged(self) -> RecordedCall | None:
        """The call that was acknowledged with a position; None if there is none."""
        told = [call for call in self.calls if isinstance(call.outcome, AppendAcknowledged)]
        return next((call for call in told if not call.outcome.duplicate), None)  # type: ignore[union-attr]

    @property
    def acknowledged_at(self) -> float:
        """The latest time at which it can have happened; infinite if it was not acknowledged."""
        return min(
            (_end(call) for call in self.calls if isinstance(call.outcome, AppendAcknowledged)), default=inf
        )

    @property
    def refused(self) -> bool:
        """Whether it certainly never happened."""
        return all(isinstance(call.outcome, CallRefused) for call in self.calls)

    @property
    def open(self) -> bool:
        """Whether its outcome is unknown: it may have happened, or may happen yet."""
        return self.acknowledged_at == inf and not self.refused


class StreamIncarnation:
    """One stream between a create and a delete, as seen by its clients.

    ``log`` has the message at each position that a read has shown, ``places`` the positions at
    which a message was shown.
    """

    def __init__(
        self, stream: str, calls: Sequence[RecordedCall], before: "StreamIncarnation | None"
    ) -> None:
        self.stream = stream
        self.creates = [call for call in calls if isinstance(call.request, CreateOperation)]
        self.deletes = [call for call in calls if isinstance(call.request, DeleteOperation)]
        self.attempts = _grouped(call for call in calls if isinstance(call.request, AppendOperation))
        self.reads: list[RecordedCall] = []
        self.refusals = [call for call in calls if _missing(call)]
        # An unanswered append to an earlier incarnation may reach the server during this one.
        self.late = [] if before is None else [one for one in before.appends if one.open]
        self.late_creates = before is not None and before.may_be_created_late
        self.late_deletes = before is not None and before.may_be_deleted_late
        self.log: dict[int, str] = {}
        self.places: dict[str, list[int]] = defaultdict(list)
        self.clashes: list[tuple[int, str, RecordedCall]] = []

    @property
    def appends(self) -> list[AppendAttempts]:
        """The appends that may be in the log of this incarnation."""
        return self.attempts + self.late

    @property
    def may_be_created_late(self) -> bool:
        """Whether a create without an answer may still happen."""
        return self.late_creates or any(isinstance(call.outcome, Unknown) for call in self.creates)

    @property
    def may_be_deleted_late(self) -> bool:
        """Whether a delete without an answer may still happen."""
        return self.late_deletes or any(isinstance(call.outcome, Unknown) for call in self.deletes)

    @property
    def created_at(self) -> float:
        """The time from which on the stream exists; infinite if no create was acknowledged."""
        return min((_end(call) for call in self.creates if isinstance(call.outcome, Done)), default=inf)

    @property
    def may_end_from(self) -> float:
        """The earliest time at which it can be gone; infinite if no client deletes it."""
        if self.late_deletes:
            return -inf
        expiring = [
            call
            for call in self.creates
            if isinstance(call.request, CreateOperation) and call.request.expires
        ]
        ends = [call for call in self.deletes if not isinstance(call.outcome, CallRefused)]
        return min((call.started for call in [*ends, *expiring]), default=inf)

    @property
    def gone_at(self) -> float:
        """The time from which on it is gone: a delete was acknowledged, or it was reported missing."""
        ends = [call for call in self.deletes if isinstance(call.outcome, Done)]
        ends += [call for call in self.refusals if call.started > self.created_at]
        return min(map(_end, ends), default=inf)

    @property
    def anchor(self) -> int:
        """How many messages it inherits."""
        return max(
            (call.request.anchor for call in self.creates if isinstance(call.request, CreateOperation)),
            default=0,
        )

    def see(self, call: RecordedCall) -> None:
        """Add the result of a read."""
        assert isinstance(call.request, ReadOperation)
        if _missing(call):
            self.refusals.append(call)
        if not isinstance(call.outcome, Answered):
            return
        self.reads.append(call)
        for position, value in enumerate(call.outcome.values, call.request.offset):
            known = self.log.setdefault(position, value)
            if known != value:
                self.clashes.append((position, known, call))
            if position not in self.places[value]:
                self.places[value].append(position)


def lives_of(stream: str, calls: Iterable[RecordedCall]) -> list[StreamIncarnation]:
    """Return the incarnations of a stream, in order, from all calls on it."""
    calls = sorted(calls, key=lambda call: call.started)
    changes = [call for call in calls if not isinstance(call.request, ReadOperation)]
    births = _births(changes)
    lives: list[StreamIncarnation] = []
    for start, stop in pairwise([-inf, *births, inf]):
        own = [call for call in changes if start <= call.started < stop]
        for call in own:
            if call.ended is not None and call.ended > stop:
                raise ValueError(f"a change of {stream} overlaps its being created anew: {call}")
        lives.append(StreamIncarnation(stream, own, lives[-1] if lives else None))
    for call in calls:
        if isinstance(call.request, ReadOperation) and (life := _life_of(call, births, lives)) is not None:
            life.see(call)
    return lives


def _births(changes: Sequence[RecordedCall]) -> list[float]:
    """Return when each later incarnation begins: at the first create after an acknowledged delete."""
    births: list[float] = []
    deleted = inf
    for call in changes:
        if isinstance(call.request, CreateOperation) and call.started > deleted:
            births.append(call.started)
            deleted = inf
        elif isinstance(call.request, DeleteOperation) and isinstance(call.outcome, Done):
            deleted = min(deleted, _end(call))
    return births


def _life_of(
    read: RecordedCall, births: Sequence[float], lives: Sequence[StreamIncarnation]
) -> StreamIncarnation | None:
    """Return the incarnation that a read belongs to, None if that cannot be determined."""
    first = sum(birth <= read.started for birth in births)
    last = sum(birth <= _end(read) for birth in births)
    if first == last:
        return lives[first]
    values = read.outcome.values if isinstance(read.outcome, Answered) else ()
    return next(
        (life for life in lives[first : last + 1] for one in life.attempts if set(values) & set(one.values)),
        None,
    )


def _grouped(appends: Iterable[RecordedCall]) -> list[AppendAttempts]:
    groups: dict[object, AppendAttempts] = {}
    for call in appends:
        request = call.request
        assert isinstance(request, AppendOperation)
        key = request.producer or request.values or call
        group = groups.setdefault(key, AppendAttempts(request))
        if group.values != request.values or (group.calls and request.producer is None):
            raise ValueError(f"an append is no retry, but not distinct from another: {call}")
        group.calls.append(call)
    return list(groups.values())


def _missing(call: RecordedCall) -> bool:
    return isinstance(call.outcome, CallRefused) and call.outcome.code in MISSING


def _end(call: RecordedCall) -> float:
    return inf if call.ended is None else call.ended
