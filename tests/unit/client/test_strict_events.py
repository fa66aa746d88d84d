"""The types of strict events: what a type checker takes and refuses. Only mypy can fail most of this file."""

from typing import assert_type

import pytest

from durable_sessions.client import strict_events
from durable_sessions.client.calls import EventLike
from durable_sessions.client.strict_events import (
    BudgetSetEvent,
    CheckpointEvent,
    ContextCompactedEvent,
    EvaluationEvent,
    FactEvent,
    MemoryWrittenEvent,
    OutcomeDefinedEvent,
    RoutedEvent,
    ServerEvent,
    StrictEvent,
    Verdict,
)
from durable_sessions.sessions.graph.event_guide import GUIDE
from durable_sessions.sessions.graph.schemas import TYPES


def appended(*events: EventLike) -> int:
    """Stand for the append of the client."""
    return len(events)


def test_what_is_right_is_taken() -> None:
    fact: FactEvent = {"type": "ds.fact", "key": "cause", "value": [1, None], "kind": "decision"}
    verdict: EvaluationEvent = {
        "type": "ds.evaluation",
        "verdict": "pass",
        "score": 1,
        "metrics": {"tests": 12, "seconds": 0.5},
        "refs": [{"rel": "because", "id": "call-1", "session": "other"}],
    }
    outcome: OutcomeDefinedEvent = {
        "type": "ds.outcome.defined",
        "features": [{"id": "f1", "text": "It adds.", "files": [{"path": "t.py", "sha256": "0" * 64}]}],
    }
    budget: BudgetSetEvent = {"type": "ds.budget.set", "usd": 5, "tokens": None}
    compacted: ContextCompactedEvent = {"type": "ds.context.compacted", "from": 0, "to": 3, "summary": "s"}
    routed: RoutedEvent = {"type": "ds.routed", "to": "judge", "reason": "r", "see": {"from": 3, "last": 9}}
    assert appended(fact, verdict, outcome, budget, compacted, routed) == 6


def test_what_is_wrong_is_refused() -> None:
    # Each comment is itself checked: mypy refuses one that silences nothing.
    one: FactEvent = {"type": "ds.fact", "key": "a"}  # type: ignore[typeddict-item]
    two: FactEvent = {"type": "ds.fact", "key": "a", "value": 1, "vlaue": 2}  # type: ignore[typeddict-unknown-key]
    three: EvaluationEvent = {"type": "ds.evaluation", "verdict": "maybe"}  # type: ignore[typeddict-item]
    four: CheckpointEvent = {
        "type": "ds.checkpoint",
        "units": "one",  # type: ignore[typeddict-item]
        "next": "n",
        "instructions": "i",
    }
    five: MemoryWrittenEvent = {"type": "ds.fact"}  # type: ignore[typeddict-item]
    assert appended(one, two, three, four, five) == 5


def verdict_of(event: StrictEvent) -> Verdict | None:
    """Return the verdict of an event; its type narrows what it is."""
    if event["type"] == "ds.evaluation":
        assert_type(event, EvaluationEvent)
        return event["verdict"]
    return None


def epoch_of(event: ServerEvent) -> int | None:
    """Return the epoch of an event of a lease."""
    return event["epoch"] if event["type"] in ("ds.lease.claimed", "ds.lease.released") else None


def test_a_type_narrows_an_event() -> None:
    assert verdict_of({"type": "ds.evaluation", "verdict": "fail"}) == "fail"
    assert verdict_of({"type": "ds.session.paused", "reason": "lunch"}) is None
    assert epoch_of({"type": "ds.lease.released", "epoch": 3, "worker": "w"}) == 3


@pytest.mark.parametrize("kind", list(TYPES))
def test_every_type_is_there_with_its_members(kind: str) -> None:
    shape = getattr(strict_events, f"{TYPES[kind].__name__}Event")
    assert {*GUIDE[kind].example} <= {*shape.__annotations__}
    assert shape.__required_keys__ <= {*GUIDE[kind].example}
