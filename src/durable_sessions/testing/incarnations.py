"""The lives of the streams of a history: each from a create to a delete, with what was seen of it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf

from durable_sessions.testing.history import (
    Answered,
    Append,
    Appended,
    Call,
    Create,
    Delete,
    Done,
    Read,
    Refused,
    Unknown,
)

MISSING = frozenset({"stream_not_found", "stream_gone"})


class Attempts:
    """One append and its retries, of which at most one takes effect."""

    def __init__(self, request: Append) -> None:
        self.values = request.values
        self.producer = request.producer
        self.close = request.close
        self.calls: list[Call] = []

    @property
    def started(self) -> float:
        """Before this it cannot have happened."""
        return min(call.started for call in self.calls)

    @property
    def acknowledged(self) -> Call | None:
        """The call that was told where it is; None if none was."""
        told = [call for call in self.calls if isinstance(call.outcome, Appended)]
        return next((call for call in told if not call.outcome.duplicate), None)  # type: ignore[union-attr]

    @property
    def acknowledged_at(self) -> float:
        """By this it must have happened; infinite if nobody was told so."""
        return min((_end(call) for call in self.calls if isinstance(call.outcome, Appended)), default=inf)

    @property
    def refused(self) -> bool:
        """Whether it certainly never happened."""
        return all(isinstance(call.outcome, Refused) for call in self.calls)

    @property
    def open(self) -> bool:
        """Whether it may or may not have happened, or may happen yet."""
        return self.acknowledged_at == inf and not self.refused


class Life:
    """What is known of one stream between a create and a delete.

    ``log`` has the message at each position that a read has shown, ``places`` the positions at
    which a message was shown.
    """

    def __init__(self, stream: str, calls: Sequence[Call], before: "Life | None") -> None:
        self.stream = stream
        self.creates = [call for call in calls if isinstance(call.request, Create)]
        self.deletes = [call for call in calls if isinstance(call.request, Delete)]
        self.attempts = _grouped(call for call in calls if isinstance(call.request, Append))
        self.reads: list[Call] = []
        self.refusals = [call for call in calls if _missing(call)]
        # What had no answer in an earlier life may reach the server in this one.
        self.late = [] if before is None else [one for one in before.appends if one.open]
        self.late_creates = before is not None and before.may_be_created_late
        self.late_deletes = before is not None and before.may_be_deleted_late
        self.log: dict[int, str] = {}
        self.places: dict[str, list[int]] = defaultdict(list)
        self.clashes: list[tuple[int, str, Call]] = []

    @property
    def appends(self) -> list[Attempts]:
        """The appends that may be in this life's log."""
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
        """From here on the stream exists; infinite if no create was acknowledged."""
        return min((_end(call) for call in self.creates if isinstance(call.outcome, Done)), default=inf)

    @property
    def may_end_from(self) -> float:
        """Before this it cannot be gone; infinite if nobody deletes it."""
        if self.late_deletes:
            return -inf
        expiring = [
            call for call in self.creates if isinstance(call.request, Create) and call.request.expires
        ]
        ends = [call for call in self.deletes if not isinstance(call.outcome, Refused)]
        return min((call.started for call in [*ends, *expiring]), default=inf)

    @property
    def gone_at(self) -> float:
        """From here on it is gone: a delete was acknowledged, or it was said to be missing."""
        ends = [call for call in self.deletes if isinstance(call.outcome, Done)]
        ends += [call for call in self.refusals if call.started > self.created_at]
        return min(map(_end, ends), default=inf)

    @property
    def anchor(self) -> int:
        """How many messages it inherits."""
        return max(
            (call.request.anchor for call in self.creates if isinstance(call.request, Create)), default=0
        )

    def see(self, call: Call) -> None:
        """Take in what a read has shown."""
        assert isinstance(call.request, Read)
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


def lives_of(stream: str, calls: Iterable[Call]) -> list[Life]:
    """Return the lives of a stream, in order, from all calls on it."""
    calls = sorted(calls, key=lambda call: call.started)
    changes = [call for call in calls if not isinstance(call.request, Read)]
    births = _births(changes)
    lives: list[Life] = []
    for start, stop in pairwise([-inf, *births, inf]):
        own = [call for call in changes if start <= call.started < stop]
        for call in own:
            if call.ended is not None and call.ended > stop:
                raise ValueError(f"a change of {stream} overlaps its being created anew: {call}")
        lives.append(Life(stream, own, lives[-1] if lives else None))
    for call in calls:
        if isinstance(call.request, Read) and (life := _life_of(call, births, lives)) is not None:
            life.see(call)
    return lives


def _births(changes: Sequence[Call]) -> list[float]:
    """Return when each later life begins: at the first create after an acknowledged delete."""
    births: list[float] = []
    deleted = inf
    for call in changes:
        if isinstance(call.request, Create) and call.started > deleted:
            births.append(call.started)
            deleted = inf
        elif isinstance(call.request, Delete) and isinstance(call.outcome, Done):
            deleted = min(deleted, _end(call))
    return births


def _life_of(read: Call, births: Sequence[float], lives: Sequence[Life]) -> Life | None:
    """Return the life that a read is of, None if it cannot be told."""
    first = sum(birth <= read.started for birth in births)
    last = sum(birth <= _end(read) for birth in births)
    if first == last:
        return lives[first]
    values = read.outcome.values if isinstance(read.outcome, Answered) else ()
    return next(
        (life for life in lives[first : last + 1] for one in life.attempts if set(values) & set(one.values)),
        None,
    )


def _grouped(appends: Iterable[Call]) -> list[Attempts]:
    groups: dict[object, Attempts] = {}
    for call in appends:
        request = call.request
        assert isinstance(request, Append)
        key = request.producer or request.values or call
        group = groups.setdefault(key, Attempts(request))
        if group.values != request.values or (group.calls and request.producer is None):
            raise ValueError(f"an append is no retry, but not distinct from another: {call}")
        group.calls.append(call)
    return list(groups.values())


def _missing(call: Call) -> bool:
    return isinstance(call.outcome, Refused) and call.outcome.code in MISSING


def _end(call: Call) -> float:
    return inf if call.ended is None else call.ended
