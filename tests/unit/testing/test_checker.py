"""The judge is judged: what is right passes, and for every rule a history that breaks it is caught."""

from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.testing.checker import assert_correct, check
from durable_sessions.testing.history import (
    Answered,
    AppendAcknowledged,
    AppendOperation,
    CallRefused,
    CreateOperation,
    DeleteOperation,
    Done,
    Outcome,
    ProducerNumbers,
    ReadOperation,
    RecordedCall,
    Recorder,
    Request,
    Unknown,
    load,
    save,
)
from durable_sessions.testing.rules import RULES


def call(started: float, ended: float, request: Request, outcome: Outcome, stream: str = "s") -> RecordedCall:
    return RecordedCall(
        "c", stream, request, started, None if isinstance(outcome, Unknown) else ended, outcome
    )


def appended(started: float, ended: float, *values: str, tail: int, close: bool = False) -> RecordedCall:
    return call(started, ended, AppendOperation(values, close=close), AppendAcknowledged(tail))


def read(
    started: float, ended: float, offset: int, *values: str, up_to_date: bool = True, closed: bool = False
) -> RecordedCall:
    next_offset = offset + len(values)
    return call(started, ended, ReadOperation(offset), Answered(values, next_offset, up_to_date, closed))


def produced(at: float, value: str, epoch: int, seq: int, outcome: Outcome) -> RecordedCall:
    return call(at, at + 0.5, AppendOperation((value,), ProducerNumbers("p", epoch, seq)), outcome)


CREATED = call(0, 1, CreateOperation(), Done())

RIGHT: dict[str, list[RecordedCall]] = {
    "appends one after the other": [
        CREATED,
        appended(2, 3, "a", tail=1),
        appended(4, 5, "b", "c", tail=3),
        read(6, 7, 0, "a", "b", up_to_date=False),
        read(8, 9, 2, "c"),
    ],
    "appends at the same time in either order": [
        CREATED,
        appended(2, 6, "a", tail=2),
        appended(3, 5, "b", tail=1),
        read(7, 8, 0, "b", "a"),
    ],
    "a read sees what is not yet acknowledged": [
        CREATED,
        appended(2, 9, "a", tail=1),
        read(3, 4, 0, "a"),
    ],
    "a read misses what was acknowledged while it ran": [
        CREATED,
        read(2, 5, 0),
        appended(3, 4, "a", tail=1),
        read(6, 7, 0, "a"),
    ],
    "an unknown outcome that happened": [
        CREATED,
        call(2, 3, AppendOperation(("a",)), Unknown()),
        read(4, 5, 0, "a"),
    ],
    "an unknown outcome that did not": [
        CREATED,
        call(2, 3, AppendOperation(("a",)), Unknown()),
        read(4, 5, 0),
    ],
    "an unknown outcome that happens late": [
        CREATED,
        call(2, 3, AppendOperation(("a",)), Unknown()),
        read(4, 5, 0),
        appended(6, 7, "b", tail=1),
        read(8, 9, 0, "b", "a"),
    ],
    "a refusal": [CREATED, call(2, 3, AppendOperation(("a",)), CallRefused("overloaded")), read(4, 5, 0)],
    "a retry that succeeds": [
        CREATED,
        produced(2, "a", 0, 0, CallRefused("overloaded")),
        produced(3, "a", 0, 0, Unknown()),
        produced(4, "a", 0, 0, AppendAcknowledged(1)),
        read(5, 6, 0, "a"),
    ],
    "a retry that is a duplicate": [
        CREATED,
        produced(2, "a", 0, 0, Unknown()),
        produced(3, "a", 0, 0, AppendAcknowledged(1, duplicate=True)),
        produced(4, "b", 0, 1, AppendAcknowledged(2)),
        produced(5, "c", 3, 0, AppendAcknowledged(3)),
        read(6, 7, 0, "a", "b", "c"),
    ],
    "a close": [
        CREATED,
        appended(2, 3, "a", tail=1, close=True),
        read(4, 5, 0, "a", closed=True),
        call(6, 7, AppendOperation(("b",)), CallRefused("stream_closed")),
        read(8, 9, 1, closed=True),
    ],
    "a delete": [
        CREATED,
        appended(2, 3, "a", tail=1),
        call(4, 5, DeleteOperation(), Done()),
        call(6, 7, ReadOperation(0), CallRefused("stream_not_found")),
    ],
    "a delete of an unknown outcome": [
        CREATED,
        appended(2, 3, "a", tail=1),
        call(4, 5, DeleteOperation(), Unknown()),
        read(6, 7, 0, "a"),
        call(8, 9, ReadOperation(0), CallRefused("stream_not_found")),
        call(10, 11, AppendOperation(("b",)), CallRefused("stream_gone")),
    ],
    "a stream that expires": [
        call(0, 1, CreateOperation(expires=True), Done()),
        appended(2, 3, "a", tail=1),
        call(4, 5, ReadOperation(0), CallRefused("stream_not_found")),
    ],
    "a second life": [
        CREATED,
        appended(2, 3, "a", tail=1),
        read(3, 4, 0, "a"),
        call(4, 5, DeleteOperation(), Done()),
        read(3.5, 6.5, 0, "a"),
        call(6, 7, CreateOperation(), Done()),
        read(5.5, 8.5, 0, "b"),
        appended(8, 9, "b", tail=1),
        read(10, 11, 0, "b"),
    ],
    "an append that reaches the second life": [
        CREATED,
        call(2, 3, AppendOperation(("a",)), Unknown()),
        call(4, 5, DeleteOperation(), Done()),
        call(6, 7, CreateOperation(), Done()),
        read(8, 9, 0, "a"),
    ],
    "a create that comes too late": [
        CREATED,
        call(0, 1, CreateOperation(), Unknown()),
        call(2, 3, DeleteOperation(), Done()),
        read(4, 5, 0),
    ],
    "a fork": [
        CREATED,
        appended(2, 3, "a", "b", tail=2),
        read(4, 5, 0, "a", "b"),
        call(4, 5, CreateOperation("s", 1), Done(), stream="f"),
        call(6, 7, AppendOperation(("c",)), AppendAcknowledged(2), stream="f"),
        call(8, 9, ReadOperation(0), Answered(("a", "c"), 2, True), stream="f"),
    ],
}

WRONG: dict[str, tuple[str, list[RecordedCall]]] = {
    "a read skips a message": (
        "reads_are_gap_free",
        [CREATED, appended(2, 3, "a", "b", tail=2), call(4, 5, ReadOperation(0), Answered(("a",), 2, True))],
    ),
    "a read returns nothing before the tail": (
        "reads_are_gap_free",
        [CREATED, appended(2, 3, "a", tail=1), read(4, 5, 0, up_to_date=False), read(6, 7, 0, "a")],
    ),
    "two reads disagree": (
        "reads_agree",
        [
            CREATED,
            call(2, 3, AppendOperation(("a",)), Unknown()),
            call(2, 3, AppendOperation(("b",)), Unknown()),
            read(4, 5, 0, "a"),
            read(6, 7, 0, "b"),
        ],
    ),
    "a message is there twice": (
        "nothing_is_doubled",
        [CREATED, appended(2, 3, "a", tail=1), read(4, 5, 0, "a", "a")],
    ),
    "an acknowledged append is lost": (
        "acknowledged_is_there",
        [CREATED, appended(2, 3, "a", tail=1), read(4, 5, 0)],
    ),
    "an acknowledged append is elsewhere": (
        "acknowledged_is_there",
        [CREATED, appended(2, 4, "a", tail=1), appended(2, 4, "b", tail=2), read(5, 6, 0, "b", "a")],
    ),
    "an acknowledged duplicate was never there": (
        "acknowledged_is_there",
        [CREATED, produced(2, "a", 0, 0, AppendAcknowledged(0, duplicate=True)), read(4, 5, 0)],
    ),
    "another message is where a deleted stream had one": (
        "acknowledged_is_there",
        [
            CREATED,
            appended(2, 4, "a", tail=1),
            appended(2, 4, "b", tail=2),
            read(5, 6, 0, "b"),
            call(7, 8, DeleteOperation(), Done()),
        ],
    ),
    "half an append": (
        "appends_are_whole",
        [CREATED, call(2, 3, AppendOperation(("a", "b")), Unknown()), read(4, 5, 0, "a")],
    ),
    "an append with another in its middle": (
        "appends_are_whole",
        [
            CREATED,
            call(2, 3, AppendOperation(("a", "c")), Unknown()),
            call(2, 3, AppendOperation(("b",)), Unknown()),
            read(4, 5, 0, "a", "b", "c"),
        ],
    ),
    "a refused append is there": (
        "refused_never_appears",
        [CREATED, call(2, 3, AppendOperation(("a",)), CallRefused("overloaded")), read(4, 5, 0, "a")],
    ),
    "a message that nobody sent": (
        "nothing_comes_from_nowhere",
        [CREATED, read(2, 3, 0, "a")],
    ),
    "a message before it was sent": (
        "nothing_comes_from_nowhere",
        [CREATED, read(2, 3, 0, "a"), appended(4, 5, "a", tail=1)],
    ),
    "a message of the life before": (
        "nothing_comes_from_nowhere",
        [
            CREATED,
            appended(2, 3, "a", tail=1),
            call(4, 5, DeleteOperation(), Done()),
            call(6, 7, CreateOperation(), Done()),
            read(8, 9, 0, "a"),
        ],
    ),
    "a later append comes first": (
        "order_agrees_with_time",
        [
            CREATED,
            produced(2, "a", 0, 0, Unknown()),
            produced(3, "a", 0, 0, AppendAcknowledged(2, duplicate=True)),
            appended(4, 5, "b", tail=1),
            read(6, 7, 0, "b", "a"),
        ],
    ),
    "up to date without what was acknowledged": (
        "up_to_date_was_true",
        [CREATED, appended(2, 3, "a", tail=1), read(4, 5, 0), read(6, 7, 0, "a")],
    ),
    "up to date without what was read": (
        "up_to_date_was_true",
        [CREATED, call(2, 9, AppendOperation(("a",)), Unknown()), read(3, 4, 0, "a"), read(5, 6, 0)],
    ),
    "a producer's append is there under two sequences": (
        "producers_are_exactly_once",
        [
            CREATED,
            produced(2, "a", 0, 0, AppendAcknowledged(1)),
            produced(3, "b", 0, 2, AppendAcknowledged(2)),
            read(4, 5, 0, "a", "b"),
        ],
    ),
    "an old epoch after a new one": (
        "producers_are_exactly_once",
        [
            CREATED,
            produced(2, "a", 1, 0, AppendAcknowledged(1)),
            produced(3, "b", 0, 0, AppendAcknowledged(2)),
            read(4, 5, 0, "a", "b"),
        ],
    ),
    "a producer that does not begin at 0": (
        "producers_are_exactly_once",
        [CREATED, produced(2, "a", 0, 1, AppendAcknowledged(1)), read(4, 5, 0, "a")],
    ),
    "an append after the close": (
        "closed_stays_closed",
        [
            CREATED,
            appended(2, 3, "a", tail=1, close=True),
            appended(4, 5, "b", tail=2),
            read(6, 7, 0, "a", "b"),
        ],
    ),
    "a close that is forgotten": (
        "closed_stays_closed",
        [CREATED, appended(2, 3, "a", tail=1, close=True), read(4, 5, 0, "a")],
    ),
    "a close that nobody asked for": (
        "closed_stays_closed",
        [CREATED, appended(2, 3, "a", tail=1), read(4, 5, 0, "a", closed=True)],
    ),
    "a close at two ends": (
        "closed_stays_closed",
        [
            CREATED,
            appended(2, 3, "a", tail=1, close=True),
            appended(4, 5, "b", tail=2, close=True),
            read(6, 7, 0, "a", "b", closed=True),
        ],
    ),
    "a deleted stream is read": (
        "deleted_stays_deleted",
        [CREATED, call(2, 3, DeleteOperation(), Done()), read(4, 5, 0)],
    ),
    "a deleted stream takes an append": (
        "deleted_stays_deleted",
        [CREATED, call(2, 3, DeleteOperation(), Done()), appended(4, 5, "a", tail=1)],
    ),
    "a missing stream comes back": (
        "deleted_stays_deleted",
        [
            CREATED,
            call(2, 3, DeleteOperation(), Unknown()),
            call(4, 5, ReadOperation(0), CallRefused("stream_not_found")),
            read(6, 7, 0),
        ],
    ),
    "a created stream is missing": (
        "created_stays",
        [
            CREATED,
            call(2, 3, ReadOperation(0), CallRefused("stream_not_found")),
            call(4, 5, DeleteOperation(), Done()),
        ],
    ),
    "a fork has something else": (
        "forks_inherit",
        [
            CREATED,
            appended(2, 3, "a", tail=1),
            read(4, 5, 0, "a"),
            call(4, 5, CreateOperation("s", 1), Done(), stream="f"),
            call(6, 7, AppendOperation(("c",)), Unknown(), stream="f"),
            call(8, 9, ReadOperation(0), Answered(("c",), 1, True), stream="f"),
        ],
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_passes(name: str) -> None:
    assert_correct(RIGHT[name])


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_caught_by_its_rule(name: str) -> None:
    rule, calls = WRONG[name]
    assert rule in {violation.rule for violation in check(calls)}
    with pytest.raises(AssertionError, match=rule):
        assert_correct(calls)


def test_every_rule_is_tested() -> None:
    assert {rule for rule, _ in WRONG.values()} == {rule.__name__ for rule in RULES} | {"forks_inherit"}


def test_a_history_that_cannot_be_judged_is_refused() -> None:
    with pytest.raises(ValueError, match="not distinct"):
        check([CREATED, appended(2, 3, "a", tail=1), appended(4, 5, "a", tail=2)])
    with pytest.raises(ValueError, match="created anew"):
        check(
            [
                CREATED,
                appended(2, 9, "a", tail=1),
                call(3, 4, DeleteOperation(), Done()),
                call(5, 6, CreateOperation(), Done()),
            ]
        )


@dataclass
class Server:
    """Does each call at one moment between its start and its end, correctly."""

    log: list[str]
    closed: bool = False


@st.composite
def histories(draw: st.DrawFn) -> list[RecordedCall]:
    """Return what clients record of a correct server: calls that overlap, with some answers lost."""
    server = Server([])
    calls = [CREATED]
    moment = 2.0
    for number in range(draw(st.integers(1, 30))):
        moment += 1.0
        started = moment - draw(st.floats(0.1, 5.0))
        ended = moment + draw(st.floats(0.1, 5.0))
        request: Request
        outcome: Outcome
        match draw(st.sampled_from(["append", "append", "append", "read", "read", "close", "refused"])):
            case "read":
                offset = draw(st.integers(0, len(server.log)))
                values = tuple(server.log[offset:][: draw(st.integers(1, 3))])
                tail = offset + len(values)
                up_to_date = tail == len(server.log)
                request = ReadOperation(offset)
                outcome = Answered(values, tail, up_to_date, up_to_date and server.closed)
            case "refused":
                request, outcome = AppendOperation((f"{number}",)), CallRefused("overloaded")
            case kind:
                values = tuple(f"{number}.{part}" for part in range(draw(st.integers(1, 3))))
                request, outcome = (
                    AppendOperation(values, close=kind == "close"),
                    CallRefused("stream_closed"),
                )
                if not server.closed:
                    server.log += values
                    server.closed = kind == "close"
                    outcome = AppendAcknowledged(len(server.log))
                    if draw(st.integers(0, 4)) == 0:
                        outcome = Unknown()
        calls.append(call(max(started, 1.5), ended, request, outcome))
    calls.append(
        call(100, 101, ReadOperation(0), Answered(tuple(server.log), len(server.log), True, server.closed))
    )
    return calls


@given(histories())
def test_every_history_of_a_correct_server_passes(calls: list[RecordedCall]) -> None:
    assert_correct(calls)


def _last(calls: list[RecordedCall]) -> Answered:
    outcome = calls[-1].outcome
    assert isinstance(outcome, Answered)
    return outcome


@given(histories(), st.data())
def test_a_lost_moved_or_doubled_message_is_always_caught(
    calls: list[RecordedCall], data: st.DataObject
) -> None:
    values = list(_last(calls).values)
    sure = [
        one.request.values[0]
        for one in calls
        if isinstance(one.request, AppendOperation) and isinstance(one.outcome, AppendAcknowledged)
    ]
    if not sure:
        return
    place = values.index(data.draw(st.sampled_from(sure)))
    match data.draw(st.sampled_from(["lose", "double", "move"])):
        case "lose":
            del values[place]
        case "double":
            values.append(values[place])
        case _:
            values.append(values.pop(place))
            if values == list(_last(calls).values):
                return
    spoilt = msgspec.structs.replace(_last(calls), values=tuple(values), next=len(values))
    calls[-1] = msgspec.structs.replace(calls[-1], outcome=spoilt)
    assert check(calls)


@pytest.mark.anyio
async def test_the_recorder_writes_down_answers_and_their_absence(tmp_path: Path) -> None:
    times = iter(range(10))
    recorder = Recorder(lambda: float(next(times)))

    async def answer() -> Outcome:
        return Done()

    async def fail() -> Outcome:
        raise OSError

    assert await recorder.record("c", "s", CreateOperation(), answer) == Done()
    with pytest.raises(OSError):  # noqa: PT011 (any that perform raises)
        await recorder.record("c", "s", DeleteOperation(), fail)
    assert recorder.calls == [
        RecordedCall("c", "s", CreateOperation(), 0, 1, Done()),
        RecordedCall("c", "s", DeleteOperation(), 2, None, Unknown()),
    ]
    save([*recorder.calls, *RIGHT["a fork"]], tmp_path / "history.jsonl")
    assert load(tmp_path / "history.jsonl") == [*recorder.calls, *RIGHT["a fork"]]
