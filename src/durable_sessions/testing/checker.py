"""Checks that a history keeps the guarantees of streams and sessions, and reports each violation.

The history must end with a read of every stream from its first message to its tail, unless the
stream was deleted: without a read, the presence of a message cannot be checked.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from durable_sessions.testing.history import CallRefused, CreateOperation, RecordedCall, SessionRequest
from durable_sessions.testing.incarnations import StreamIncarnation, lives_of
from durable_sessions.testing.rules import RULES
from durable_sessions.testing.work_rules import WORK_RULES, WorkedSession

SHOWN_MAX = 20


class Violation(NamedTuple):
    """A rule, the stream that breaks it, and how."""

    rule: str
    stream: str
    problem: str


def check(calls: Iterable[RecordedCall]) -> list[Violation]:
    """Return all violations; ValueError if the history cannot be checked."""
    by_stream: dict[str, list[RecordedCall]] = defaultdict(list)
    by_session: dict[str, list[RecordedCall]] = defaultdict(list)
    for call in calls:
        (by_session if isinstance(call.request, SessionRequest) else by_stream)[call.stream].append(call)
    lives = {stream: lives_of(stream, own) for stream, own in by_stream.items()}
    violations = [
        Violation(rule.__name__, stream, problem)
        for stream, own in lives.items()
        for life in own
        for rule in RULES
        for problem in rule(life)
    ]
    violations += [
        Violation("forks_inherit", stream, problem)
        for stream, own in lives.items()
        for life in own
        for problem in _forks_inherit(life, lives)
    ]
    violations += [
        Violation(work_rule.__name__, session, problem)
        for session, own_calls in by_session.items()
        for work_rule in WORK_RULES
        for problem in work_rule(WorkedSession(session, own_calls))
    ]
    return violations


def assert_correct(calls: Sequence[RecordedCall]) -> None:
    """Raise an AssertionError that names the broken rules, if there are any."""
    violations = check(calls)
    if violations:
        lines = [f"{one.rule} {one.stream}: {one.problem}" for one in violations[:SHOWN_MAX]]
        raise AssertionError(f"{len(violations)} violations in {len(calls)} calls\n" + "\n".join(lines))


def _forks_inherit(
    life: StreamIncarnation, lives: Mapping[str, Sequence[StreamIncarnation]]
) -> Iterator[str]:
    """A fork begins with what its source had at its first positions."""
    for call in life.creates:
        request = call.request
        if (
            not isinstance(request, CreateOperation)
            or request.source is None
            or isinstance(call.outcome, CallRefused)
        ):
            continue
        sources = [source.log for source in lives.get(request.source, ())]
        own = [(position, value) for position, value in life.log.items() if position < request.anchor]
        # Any life of the source will do: which one it was when the fork was made is not recorded. A position
        # that no read has shown contradicts nothing.
        if own and not any(all(log.get(place, value) == value for place, value in own) for log in sources):
            yield f"it does not begin as {request.source} does: {call}"
