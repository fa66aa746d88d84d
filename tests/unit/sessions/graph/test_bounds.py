"""Every bound of the work on a session: what fits exactly is taken, one more is refused or left out."""

from typing import Any

import msgspec
import pytest

from durable_sessions.errors import InvalidEventError, TooManyFactsError
from durable_sessions.http.bodies.work import WakeBody
from durable_sessions.limits import DEFAULT_LIMITS, Limits
from durable_sessions.sessions import drafts
from durable_sessions.sessions.graph import strict
from durable_sessions.sessions.graph.lease import Lease
from durable_sessions.sessions.graph.state import Around, state
from durable_sessions.sessions.leases import LeaseTimes
from tests.unit.sessions.graph.ledger import JUDGE, Event, Ledger

LIMITS = DEFAULT_LIMITS
DIGEST = "0" * 64
REF = {"rel": "because", "id": "e"}


def features(count: int) -> list[Event]:
    return [{"id": f"f{number}", "text": "t"} for number in range(count)]


def sized(name: str, size: int) -> Event:
    """Return a definition of an outcome of exactly so many bytes."""
    event: Event = {"type": "ds.outcome.defined", "features": features(1_000)}
    for feature in event["features"]:
        missing = size - len(msgspec.json.encode(event))
        feature["text"] += "x" * min(missing, LIMITS.graph_text_max - 1)
    assert len(msgspec.json.encode(event)) == size, name
    return event


SIZES: dict[str, Any] = {
    "graph_text_max": lambda n: {"type": "ds.session.paused", "reason": "x" * n},
    "graph_name_max": lambda n: {"type": "ds.fact", "key": "k" * n, "value": 1},
    "graph_word_max": lambda n: {"type": "ds.artifact", "sha256": DIGEST, "name": "n", "role": "r" * n},
    "artifact_name_max": lambda n: {"type": "ds.artifact", "sha256": DIGEST, "name": "n" * n, "role": "r"},
    "graph_value_bytes_max": lambda n: {"type": "ds.fact", "key": "k", "value": "x" * (n - 2)},
    "graph_metadata_bytes_max": lambda n: {
        "type": "ds.session.paused",
        "reason": "r",
        "metadata": {"m": "x" * (n - 8)},
    },
    "refs_per_event_max": lambda n: {"type": "ds.session.paused", "reason": "r", "refs": [REF] * n},
    "features_max": lambda n: {"type": "ds.outcome.defined", "features": features(n)},
    "feature_files_max": lambda n: {
        "type": "ds.outcome.defined",
        "features": [{"id": "f", "text": "t", "files": [{"path": "p", "sha256": DIGEST}] * n}],
    },
    "outcome_bytes_max": lambda n: sized("outcome_bytes_max", n),
    "metrics_max": lambda n: {
        "type": "ds.evaluation",
        "verdict": "pass",
        "refs": [REF],
        "metrics": {f"m{number}": 1 for number in range(n)},
    },
    "checkpoint_instructions_max": lambda n: {
        "type": "ds.checkpoint",
        "units": 0,
        "next": "n",
        "instructions": "x" * n,
    },
    "compaction_summary_max": lambda n: {
        "type": "ds.context.compacted",
        "from": 0,
        "to": 1,
        "summary": "x" * n,
    },
    "memory_key_max": lambda n: {
        "type": "ds.memory.written",
        "scope": "project:p",
        "key": "k" * n,
        "value": 1,
        "why": "state",
        "refs": [{"rel": "because", "id": "e"}],
    },
    "memory_returned_max": lambda n: {
        "type": "ds.memory.read",
        "scope": "project:p",
        "at": 0,
        "returned": [{"id": "w", "session": "s"}] * n,
    },
    "see_entries_max": lambda n: {
        "type": "ds.routed",
        "to": "me",
        "reason": "r",
        "see": {"types": ["t"] * n},
    },
}


@pytest.mark.parametrize("limit", SIZES)
def test_an_event_may_be_as_large_as_its_bound(limit: str) -> None:
    most = getattr(LIMITS, limit)

    def parse(size: int) -> None:
        event = SIZES[limit](size)
        strict.parse(event["type"], msgspec.json.encode(event), 0, LIMITS)

    parse(most)
    with pytest.raises(InvalidEventError):
        parse(most + 1)


@pytest.mark.parametrize(
    ("limit", "event"),
    [
        ("facts_per_session_max", {"type": "ds.fact", "key": "k", "value": 1}),
        ("approvals_pending_max", {"type": "ds.approval.requested", "question": "q", "blocking": False}),
    ],
)
def test_a_session_takes_as_many_as_its_bound(limit: str, event: Event) -> None:
    session = Ledger(Limits(**{limit: 3}))
    for _ in range(3):
        session.append(event)
    with pytest.raises(Exception, match="3"):
        session.append(event)


def test_lists_of_the_state_hold_the_newest_and_totals_count_all() -> None:
    session = Ledger(Limits(state_list_max=3, state_decided_max=2))
    for number in range(4):
        session.append({"type": "ds.artifact", "sha256": DIGEST, "name": str(number), "role": "r"})
        (request,) = session.append({"type": "ds.approval.requested", "question": "q", "blocking": False})
        decision = {"type": "ds.approval.decided", "request": request, "decision": "reject", "reason": "r"}
        session.append(decision, by=JUDGE)
    folded = session.fold().folded
    assert [one.name for one in folded.artifacts] == ["1", "2", "3"]
    assert len(folded.decided) == 2


def test_a_checkpoint_is_due_after_its_bound() -> None:
    session = Ledger(Limits(checkpoint_due_events=3))
    session.wake()
    for _ in range(2):
        session.append({"type": "note"})
    assert not session.fold().folded.is_overdue
    session.append({"type": "note"})
    assert session.fold().folded.is_overdue


@pytest.mark.parametrize(
    ("seconds", "fits"),
    [
        (LIMITS.lease_seconds_min - 1, False),
        (LIMITS.lease_seconds_min, True),
        (LIMITS.lease_seconds_max, True),
        (LIMITS.lease_seconds_max + 1, False),
    ],
)
def test_a_lease_lasts_as_long_as_lease_seconds_min_and_lease_seconds_max_allow(
    seconds: int, fits: bool
) -> None:
    body = msgspec.json.encode({"seconds": seconds})
    if fits:
        assert msgspec.json.decode(body, type=WakeBody).seconds == seconds
    else:
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(body, type=WakeBody)


def test_beyond_lease_times_max_the_oldest_lease_has_its_full_time_again() -> None:
    times = LeaseTimes(started_ms=1_000, most=2)
    lease = Lease(1, "w", "p", 60, exclusive=True, claimed_ms=500)
    for stream in (1, 2, 3):
        times.renew(stream, 1, 9_000)
    assert times.renewed_ms(3, lease) == times.renewed_ms(2, lease) == 9_000
    assert times.renewed_ms(1, lease) == 1_000


def test_facts_have_a_bound_in_bytes() -> None:
    session = Ledger(Limits(facts_bytes_per_session_max=100))
    session.append({"type": "ds.fact", "key": "k", "value": "x" * 96})  # 99 bytes
    session.append({"type": "ds.fact", "key": "k", "value": 1})
    with pytest.raises(TooManyFactsError, match="100 bytes"):
        session.append({"type": "ds.fact", "key": "k", "value": 1})


def test_the_state_shows_no_large_inputs() -> None:
    most = LIMITS.open_call_input_bytes_max
    session = Ledger()
    for size in (most, most + 1):
        session.append({"type": "agent.tool_use", "name": "write", "input": "x" * (size - 2)})
    shown = [len(bytes(call.input)) for call in session.fold().folded.open_calls.values()]
    assert shown == [most, len(b"null")]


def test_a_request_has_as_many_refs_as_refs_per_request_max_allows() -> None:
    limits = Limits(refs_per_request_max=3)

    def parse(refs: int) -> None:
        event: Event = {"type": "ds.session.paused", "reason": "r", "refs": [REF] * refs}
        drafts.parse(msgspec.json.encode([event, event | {"refs": [REF]}]), limits)

    parse(2)
    with pytest.raises(InvalidEventError, match="4 refs; send at most 3"):
        parse(3)


def test_a_request_has_as_many_memory_events_as_memory_events_per_request_max_allows() -> None:
    limits = Limits(memory_events_per_request_max=3)
    event: Event = {"type": "ds.memory.rolled_back", "write": "w", "reason": "r"}
    assert len(drafts.parse(msgspec.json.encode([event] * 3), limits)) == 3
    with pytest.raises(InvalidEventError, match="4 memory events; send at most 3"):
        drafts.parse(msgspec.json.encode([event] * 4), limits)


def placed(sandbox: str, status: str, **members: object) -> Event:
    return {"type": "ds.sandbox", "sandbox": sandbox, "backend": "local", "status": status, **members}


@pytest.mark.parametrize("bound", [{"state_list_max": 3}, {"state_sandboxes_bytes_max": 600}])
def test_the_present_sandbox_is_never_forgotten(bound: dict[str, int]) -> None:
    session = Ledger(Limits(**bound))
    session.append(placed("mine", "ready"))
    for number in range(20):
        session.append(placed(f"s{number}", "lost"))
    shown = state(session.fold(), Around("s", 0))
    assert shown.sandbox is not None
    assert bytes(shown.sandbox["sandbox"]) == b'"mine"'
    assert 2 <= len(shown.sandboxes) < 10


def test_a_key_that_is_too_long_makes_no_repeat_harmless() -> None:
    session = Ledger()
    for size in (LIMITS.idempotency_key_max, LIMITS.idempotency_key_max + 1):
        session.append({"type": "agent.tool_use", "name": "n", "idempotency_key": "k" * size})
    keys = [call.idempotency_key for call in session.fold().folded.open_calls.values()]
    assert keys == ["k" * LIMITS.idempotency_key_max, None]
