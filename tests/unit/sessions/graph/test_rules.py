"""What a session refuses: leases, stops, transitions, and judgements by who may not judge."""

import pytest

from durable_sessions.errors import (
    ApprovalPendingError,
    BudgetExceededError,
    ForbiddenError,
    InvalidEventError,
    InvalidTransitionError,
    LeaseLostError,
    LeaseRequiredError,
    NothingPendingError,
    NotIndependentError,
    RatchetError,
    SessionPausedError,
    TooManyApprovalsError,
    TooManyFactsError,
)
from durable_sessions.limits import Limits
from durable_sessions.sessions.graph.governor import governs
from durable_sessions.sessions.graph.rules import Appender
from tests.unit.sessions.graph.ledger import CODER, JUDGE, Event, Ledger

WORK: Event = {"type": "agent.message", "content": []}
PAUSE: Event = {"type": "ds.session.paused", "reason": "wait"}
RESUME: Event = {"type": "ds.session.resumed"}
ASK: Event = {"type": "ds.approval.requested", "question": "Deploy?"}
FILES = [{"path": "test_it.py", "sha256": "a" * 64}]
OUTCOME: Event = {
    "type": "ds.outcome.defined",
    "features": [{"id": "f1", "text": "one"}, {"id": "f2", "text": "two", "files": FILES}],
}


def verdict(feature: str, said: str = "pass", **members: object) -> Event:
    evidence = [{"rel": "because", "id": "e0"}]
    return {"type": "ds.evaluation", "feature": feature, "verdict": said, "refs": evidence, **members}


def test_a_pause_stops_work_until_it_is_lifted() -> None:
    session = Ledger()
    session.append(WORK)
    session.append(PAUSE)
    with pytest.raises(SessionPausedError) as refused:
        session.append(WORK)
    assert refused.value.fields["stops"] == [{"kind": "paused", "id": "e1"}]
    session.append({"type": "user.message"}, {"type": "agent.tool_result"}, {"type": "custom"})
    with pytest.raises(InvalidTransitionError):
        session.append(PAUSE)
    session.append(RESUME)
    session.append(WORK)
    with pytest.raises(InvalidTransitionError):
        session.append(RESUME)


def test_a_batch_is_judged_event_by_event_and_stored_whole_or_not_at_all() -> None:
    session = Ledger()
    session.append(PAUSE, RESUME, WORK)
    before = list(session.events), dict(session.attributes)
    with pytest.raises(SessionPausedError):
        session.append({"type": "note"}, PAUSE, WORK)
    assert (session.events, session.attributes) == before


@pytest.mark.parametrize(
    "kind",
    [
        "agent.tool_result",
        "agent.mcp_tool_result",
        "span.model_request_end",
        "span.outcome_evaluation_end",
        "user.message",
        "session.status_idle",
        "mine",
    ],
)
def test_a_stopped_session_takes_reports_and_what_is_nobodys_work(kind: str) -> None:
    session = Ledger()
    session.append(PAUSE)
    session.append({"type": kind})


@pytest.mark.parametrize("kind", ["agent.message", "agent.tool_use", "span.model_request_start"])
def test_a_stopped_session_takes_no_work(kind: str) -> None:
    session = Ledger()
    session.append(PAUSE)
    with pytest.raises(SessionPausedError):
        session.append({"type": kind})


def test_a_blocking_request_stops_until_somebody_else_decides() -> None:
    session = Ledger()
    session.append(WORK)
    (request,) = session.append(ASK)
    with pytest.raises(ApprovalPendingError):
        session.append(WORK)
    decision = {"type": "ds.approval.decided", "request": request, "decision": "approve", "reason": "ok"}
    with pytest.raises(ForbiddenError):
        session.append(decision, by=CODER)
    with pytest.raises(NotIndependentError):
        session.append(decision, by=Appender("coder", True))
    with pytest.raises(InvalidEventError, match="not offered"):
        session.append({**decision, "decision": "edit"}, by=JUDGE)
    session.append(decision, by=JUDGE)
    session.append(WORK)
    with pytest.raises(NothingPendingError):
        session.append(decision, by=JUDGE)


def test_a_request_that_does_not_block_stops_nothing() -> None:
    session = Ledger()
    session.append({**ASK, "blocking": False})
    session.append(WORK)
    assert [one.id for one in session.control.approvals] == ["e0"]


def test_the_first_outcome_is_anybodys_and_each_further_one_a_judges() -> None:
    session = Ledger()
    session.append(OUTCOME)
    with pytest.raises(ForbiddenError):
        session.append(OUTCOME)
    session.append(OUTCOME, by=JUDGE)
    assert session.control.outcome is not None
    assert session.control.outcome.amendments == 1


def test_a_verdict_needs_a_judge_who_did_not_generate() -> None:
    session = Ledger()
    session.append(OUTCOME, WORK)
    with pytest.raises(ForbiddenError):
        session.append(verdict("f1"))
    with pytest.raises(NotIndependentError, match="coder"):
        session.append(verdict("f1"), by=Appender("coder", True))
    with pytest.raises(InvalidEventError, match="no feature f9"):
        session.append(verdict("f9"), by=JUDGE)
    session.append(verdict("f1"), by=JUDGE)
    outcome = session.control.outcome
    assert outcome is not None
    assert [feature.passing for feature in outcome.features] == [True, False]


def test_a_judge_that_works_in_the_session_is_no_judge_any_more() -> None:
    session = Ledger()
    session.append(OUTCOME)
    session.append(verdict("f1"), by=JUDGE)
    session.append(WORK, by=JUDGE)
    with pytest.raises(NotIndependentError):
        session.append(verdict("f1", "fail"), by=JUDGE)


@pytest.mark.parametrize(
    "kind",
    [
        "adk.event",
        "agent-framework.message",
        "claude.sub_entry",
        "langgraph.write",
        "openai.item",
        "pydantic.entry",
    ],
)
def test_who_works_by_way_of_an_adapter_is_no_judge_either(kind: str) -> None:
    session = Ledger()
    session.append(OUTCOME)
    assert governs({}, kind, JUDGE.principal, None)
    session.append({"type": kind, "raw": {}}, by=JUDGE)
    with pytest.raises(NotIndependentError):
        session.append(verdict("f1"), by=JUDGE)
    assert not governs({}, "agentic.item", JUDGE.principal, None), "a type of somebody's own"


def test_a_pass_must_carry_the_files_of_its_feature() -> None:
    session = Ledger()
    session.append(OUTCOME)
    with pytest.raises(RatchetError):
        session.append(verdict("f2"), by=JUDGE)
    with pytest.raises(RatchetError):
        session.append(verdict("f2", files=[{"path": "test_it.py", "sha256": "b" * 64}]), by=JUDGE)
    session.append(verdict("f2", "fail"), by=JUDGE)
    session.append(verdict("f2", files=FILES), by=JUDGE)


def test_a_stale_worker_is_fenced() -> None:
    session = Ledger()
    old = session.wake()
    session.append(WORK, epoch=old)
    new = session.wake(by="other")
    with pytest.raises(LeaseLostError):
        session.append(WORK, epoch=old)
    with pytest.raises(LeaseLostError):  # the epoch of another principal
        session.append(WORK, epoch=new, by=CODER)
    with pytest.raises(LeaseRequiredError):
        session.append(WORK)
    session.append({"type": "user.message"}, {"type": "ds.fact", "key": "k", "value": 1})
    session.append(WORK, epoch=new, by=Appender("other", False))


def test_a_worker_that_takes_over_from_itself_fences_its_old_self() -> None:
    session = Ledger()
    old, new = session.wake(), session.wake()
    with pytest.raises(LeaseLostError):
        session.append(WORK, epoch=old)
    session.append(WORK, epoch=new)


def test_a_released_lease_is_over_and_binds_nobody() -> None:
    session = Ledger()
    epoch = session.wake()
    session.write({"type": "ds.lease.released", "epoch": epoch, "worker": "host"}, by="coder")
    with pytest.raises(LeaseLostError):
        session.append(WORK, epoch=epoch)
    session.append(WORK)


def test_a_lease_that_is_not_exclusive_lets_others_work() -> None:
    session = Ledger()
    epoch = session.wake(exclusive=False)
    session.append(WORK, by=Appender("other", False))
    session.append(WORK, epoch=epoch)


def test_the_event_that_reaches_a_limit_is_stored_and_the_next_one_refused() -> None:
    session = Ledger()
    session.append({"type": "ds.budget.set", "tool_calls": 2})
    session.append({"type": "agent.tool_use", "name": "a"})
    session.append({"type": "agent.tool_use", "name": "b"}, {"type": "agent.tool_use", "name": "c"})
    assert b'"ds.budget.tripped"' in session.events[-1]
    with pytest.raises(BudgetExceededError) as refused:
        session.append({"type": "agent.tool_use", "name": "d"})
    assert refused.value.fields | {"kind": ""} == {
        "kind": "",
        "limit": "tool_calls",
        "max": 2,
        "value": 3,
        "stops": [{"kind": "budget", "id": "e4"}],
    }
    session.append({"type": "agent.tool_result", "tool_use_id": "e3"})
    with pytest.raises(ForbiddenError):
        session.append({"type": "ds.budget.set", "tool_calls": 9})
    session.append({"type": "ds.budget.set", "tool_calls": 9}, by=JUDGE)
    session.append(WORK)


@pytest.mark.parametrize(
    ("limit", "events"),
    [
        (
            "tokens",
            [{"type": "span.model_request_end", "model_usage": {"input_tokens": 7, "output_tokens": 3}}],
        ),
        ("usd", [{"type": "span.model_request_end", "cost_usd": 12.5}]),
        ("usd", [{"type": "span.model_request_end", "model_usage": {"cost_usd": 12.5}}]),
        (
            "consecutive_errors",
            [{"type": "agent.tool_result", "is_error": True}] * 9 + [{"type": "session.error"}],
        ),
        ("repeated_calls", [{"type": "agent.tool_use", "name": "ls", "input": {"a": 1}}] * 10),
        ("tool_calls", [{"type": "agent.mcp_tool_use", "name": str(number)} for number in range(10)]),
    ],
)
def test_each_measure_trips_at_its_limit(limit: str, events: list[Event]) -> None:
    session = Ledger()
    session.append({"type": "ds.budget.set", limit: 10})
    for event in events[:-1]:
        session.append(event)
    assert not session.control.core.stops
    session.append(events[-1])
    trip = session.control.core.trip
    assert trip is not None
    assert trip.limit == limit


def test_the_time_of_a_session_runs_from_its_first_limit() -> None:
    session = Ledger()
    session.append({"type": "ds.budget.set", "seconds": 5})
    session.now_ms += 3_000
    session.append(WORK)  # 4 s
    session.append(WORK)  # 5 s: reached
    with pytest.raises(BudgetExceededError):
        session.append(WORK)


def test_a_good_result_and_another_call_begin_anew() -> None:
    session = Ledger()
    session.append({"type": "ds.budget.set", "consecutive_errors": 2, "repeated_calls": 2})
    for _ in range(3):
        session.append(
            {"type": "agent.tool_use", "name": "ls"}, {"type": "agent.tool_result", "is_error": True}
        )
        session.append({"type": "agent.tool_use", "name": "cat"}, {"type": "agent.tool_result"})
    assert session.control.core.trip is None


def test_limits_are_bounds_that_hold() -> None:
    session = Ledger(Limits(facts_per_session_max=2, approvals_pending_max=1))
    fact: Event = {"type": "ds.fact", "key": "k", "value": 1}
    session.append(fact, {"type": "ds.fact.retracted", "key": "k"})
    with pytest.raises(TooManyFactsError):
        session.append(fact)
    session.append(ASK)
    with pytest.raises(TooManyApprovalsError):
        session.append(ASK)


def test_a_route_names_features_that_are_there() -> None:
    session = Ledger()
    route: Event = {"type": "ds.routed", "to": "judge", "reason": "verify", "needs": ["f1"]}
    with pytest.raises(InvalidEventError, match="no feature f1"):
        session.append(route)
    session.append(OUTCOME, route)


def test_a_compaction_ends_at_its_own_position_at_the_latest() -> None:
    session = Ledger()
    session.append(WORK)
    session.append({"type": "ds.context.compacted", "from": 0, "to": 1, "summary": "s"})
    with pytest.raises(InvalidEventError, match="beyond"):
        session.append({"type": "ds.context.compacted", "from": 0, "to": 3, "summary": "s"})


def test_a_fork_inherits_outcome_budget_and_generators_and_nothing_that_is_under_way() -> None:
    session = Ledger()
    session.append(OUTCOME, {"type": "ds.budget.set", "tool_calls": 1})
    session.wake()
    session.append({"type": "agent.tool_use", "name": "ls"}, epoch=1)
    session.append(ASK, PAUSE, {"type": "ds.routed", "to": "judge", "reason": "r"})
    forked = session.fork(len(session.events))
    core = forked.control.core
    assert (core.epoch, core.lease, core.route, core.paused, core.blocking) == (0, None, None, None, [])
    assert forked.control.approvals == []
    assert core.trip is not None
    with pytest.raises(BudgetExceededError):
        forked.append(WORK)
    with pytest.raises(NotIndependentError):
        forked.append(verdict("f1"), by=Appender("coder", True))


def test_a_principal_whose_name_ends_anothers_is_somebody_else() -> None:
    session = Ledger()
    session.append(WORK, by=Appender('a"judge', False))
    assert governs(session.attributes, "agent.message", "judge", None), "it has not generated yet"
    session.append(WORK, by=JUDGE)
    assert session.control.generators.keys() == {'a"judge', "judge"}
