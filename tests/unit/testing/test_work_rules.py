"""The judge of the work on sessions: what is right passes, and each rule catches a history that breaks it."""

from pathlib import Path

import pytest

from durable_sessions.testing.checker import check
from durable_sessions.testing.history import (
    AppendAcknowledged,
    CallRefused,
    Done,
    LeaseGranted,
    Outcome,
    ReadSessionOperation,
    RecordedCall,
    ReleaseOperation,
    RenewOperation,
    SentWork,
    SessionRequest,
    SessionShown,
    ShownWork,
    Unknown,
    WakeOperation,
    WorkOperation,
    load,
    save,
)
from durable_sessions.testing.work_rules import WORK_RULES, WorkedSession, live_leases_are_kept


def call(
    started: float, request: SessionRequest, outcome: Outcome, ended: float | None = None
) -> RecordedCall:
    end = None if isinstance(outcome, Unknown) else ended or started + 0.5
    return RecordedCall("c", "run", request, started, end, outcome)


def woken(at: float, epoch: int, by: str, *, force: bool = False) -> RecordedCall:
    return call(at, WakeOperation(f"host-{epoch}", by, 10, force), LeaseGranted(epoch))


def worked(
    at: float, name: str, epoch: int | None, by: str = "ann", outcome: Outcome | None = None
) -> RecordedCall:
    events = tuple(SentWork(one, "agent.message") for one in name.split())
    return call(at, WorkOperation(events, by, epoch), outcome or AppendAcknowledged(9))


def shown(*events: ShownWork) -> RecordedCall:
    return call(1_000, ReadSessionOperation(), SessionShown(events))


def claim(epoch: int, by: str, worker: str | None = None) -> ShownWork:
    return ShownWork(f"claim-{epoch}", "ds.lease.claimed", by, epoch, worker or f"host-{epoch}")


def release(epoch: int, by: str) -> ShownWork:
    return ShownWork(f"release-{epoch}", "ds.lease.released", by, epoch, f"host-{epoch}")


def event(name: str, by: str = "ann", kind: str = "agent.message") -> ShownWork:
    return ShownWork(name, kind, by)


RIGHT: dict[str, list[RecordedCall]] = {
    "one worker after the other": [
        woken(1, 1, "ann"),
        worked(2, "a", 1),
        call(3, ReleaseOperation(1, "ann"), Done()),
        woken(4, 2, "bob"),
        worked(5, "b", 2, "bob"),
        worked(6, "late", 1, outcome=CallRefused("lease_lost")),
        shown(
            claim(1, "ann"),
            event("a"),
            release(1, "ann"),
            event("between", "nobody", "session.status_idle"),
            claim(2, "bob"),
            event("b", "bob"),
        ),
    ],
    "what was not answered is there, and repeated": [
        woken(1, 1, "ann"),
        worked(2, "a b", 1, outcome=Unknown()),
        worked(4, "c", 1, outcome=Unknown()),
        woken(20, 2, "bob"),
        worked(21, "a b", 1),
        shown(claim(1, "ann"), event("a"), event("b"), claim(2, "bob")),
    ],
    "a stopped session takes reports and what is no work": [
        woken(1, 1, "ann"),
        shown(
            claim(1, "ann"),
            event("p", "op", "ds.session.paused"),
            event("r", "ann", "agent.tool_result"),
            event("m", "user", "user.message"),
            event("q", "op", "ds.session.resumed"),
            event("a"),
        ),
    ],
    "nobody made it": [
        call(1, WakeOperation("host-1", "ann", 10), CallRefused("session_not_found")),
        call(1_000, ReadSessionOperation(), CallRefused("session_not_found")),
    ],
}
WRONG: dict[str, tuple[str, list[RecordedCall]]] = {
    "an older epoch behind a newer claim": (
        "no_work_of_an_older_epoch",
        [
            woken(1, 1, "ann"),
            woken(2, 2, "bob"),
            worked(3, "a", 1, outcome=Unknown()),
            shown(claim(1, "ann"), claim(2, "bob"), event("a")),
        ],
    ),
    "work behind a release": (
        "no_work_of_an_older_epoch",
        [woken(1, 1, "ann"), worked(3, "a", 1), shown(claim(1, "ann"), release(1, "ann"), event("a"))],
    ),
    "work without an epoch in a lease": (
        "no_work_of_an_older_epoch",
        [woken(1, 1, "ann"), worked(3, "a", None, "bob"), shown(claim(1, "ann"), event("a", "bob"))],
    ),
    "the same epoch twice": (
        "epochs_count_up",
        [woken(1, 1, "ann"), shown(claim(1, "ann"), claim(1, "bob", "host-2"))],
    ),
    "a lease that was never written": ("epochs_count_up", [woken(1, 1, "ann"), shown()]),
    "acknowledged work is lost": ("acknowledged_work_is_there", [worked(1, "a b", None), shown(event("a"))]),
    "work is stored twice": (
        "acknowledged_work_is_there",
        [worked(1, "a", None), shown(event("a"), event("a"))],
    ),
    "refused work is stored": (
        "acknowledged_work_is_there",
        [worked(1, "a", None, outcome=CallRefused("lease_required")), shown(event("a"))],
    ),
    "a part of what was not answered": (
        "acknowledged_work_is_there",
        [worked(1, "a b", None, outcome=Unknown()), shown(event("b"))],
    ),
    "work behind a pause": (
        "nothing_works_behind_a_stop",
        [worked(1, "a", None), shown(event("p", "op", "ds.session.paused"), event("a"))],
    ),
    "a claim behind a pause": (
        "nothing_works_behind_a_stop",
        [woken(1, 1, "ann"), shown(event("p", "op", "ds.session.paused"), claim(1, "ann"))],
    ),
    "two pauses": (
        "nothing_works_behind_a_stop",
        [shown(event("p", "op", "ds.session.paused"), event("q", "op", "ds.session.paused"))],
    ),
    "a log that changes": (
        "logs_only_grow",
        [call(1, ReadSessionOperation(), SessionShown((event("a"),))), shown(event("b"))],
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_passes(name: str, tmp_path: Path) -> None:
    save(RIGHT[name], tmp_path / "history")
    assert check(load(tmp_path / "history")) == []


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(name: str) -> None:
    rule, calls = WRONG[name]
    assert rule in {one.rule for one in check(calls)}


def test_every_rule_is_broken_once() -> None:
    assert {rule for rule, _ in WRONG.values()} == {rule.__name__ for rule in WORK_RULES}


def test_a_history_without_its_log_cannot_be_judged() -> None:
    with pytest.raises(ValueError, match="nobody has read"):
        check([woken(1, 1, "ann")])
    retried = [worked(1, "a b", 1), worked(2, "a", 1), shown()]
    with pytest.raises(ValueError, match="not distinct"):
        check(retried)


@pytest.mark.parametrize(
    ("calls", "kept"),
    [
        ([woken(1, 1, "ann"), woken(5, 2, "bob")], False),
        ([woken(1, 1, "ann"), woken(5, 2, "ann")], True),
        ([woken(1, 1, "ann"), woken(5, 2, "bob", force=True)], True),
        ([woken(1, 1, "ann"), woken(11, 2, "bob")], True),
        ([woken(1, 1, "ann"), worked(8, "a", 1), woken(12, 2, "bob")], False),
        ([woken(1, 1, "ann"), call(8, RenewOperation(1, "ann"), Done()), woken(12, 2, "bob")], False),
        ([woken(1, 1, "ann"), call(2, ReleaseOperation(1, "ann"), Unknown()), woken(5, 2, "bob")], True),
    ],
)
def test_a_lease_is_not_given_to_another_while_it_lives(calls: list[RecordedCall], kept: bool) -> None:
    found = list(live_leases_are_kept(WorkedSession("run", [*calls, shown()])))
    assert (not found) == kept
