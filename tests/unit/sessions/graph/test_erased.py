"""What is left of each strict event that is erased: folds read it as before, and no text of it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.sessions import tombstones
from durable_sessions.sessions.graph import control, schemas, strict
from durable_sessions.sessions.graph.control import ATTRIBUTES
from durable_sessions.sessions.graph.schemas import StrictEvent
from durable_sessions.sessions.tombstones import Mark, remains
from tests.unit.sessions.graph.ledger import JUDGE, Event, Ledger
from tests.unit.sessions.graph.test_fold import acts, play

SECRET = "xylophone"
FILE = {"path": "test_calc.py", "sha256": "b" * 64}
COMMON = {"refs": [{"rel": "because", "id": "e0"}], "metadata": {"note": SECRET}, "session_thread_id": "t1"}
ERASABLE: dict[str, Event] = {
    "ds.session.paused": {"reason": SECRET},
    "ds.session.resumed": {"reason": SECRET},
    "ds.session.ended": {"outcome": "failed", "reason": SECRET},
    "ds.routed": {"to": "judge", "reason": SECRET, "needs": ["f1"], "see": {"last": 3, "facts": ["a*"]}},
    "ds.fact": {"key": "k", "value": {"text": SECRET}, "kind": "decision"},
    "ds.fact.retracted": {"key": "k", "reason": SECRET},
    "ds.outcome.defined": {
        "features": [{"id": "f1", "text": SECRET, "check": "pytest", "files": [FILE]}],
        "description": SECRET,
    },
    "ds.evaluation": {
        "verdict": "pass",
        "feature": "f1",
        "score": 0.5,
        "metrics": {"value": 1.5, "text": 2},
        "command": SECRET,
        "exit_code": 0,
        "files": [FILE],
        "sandbox": "s1",
        "model": "m",
        "note": SECRET,
    },
    "ds.checkpoint": {
        "units": 2,
        "next": SECRET,
        "instructions": SECRET,
        "done": [SECRET],
        "git": {"commit": "c0ffee", "branch": "main"},
        "state": [SECRET],
    },
    "ds.context.compacted": {"from": 0, "to": 1, "summary": SECRET},
    "ds.context.reset": {"checkpoint": "e0"},
    "ds.approval.requested": {"question": SECRET, "options": ["approve"], "blocking": False},
    "ds.approval.decided": {"request": "e0", "decision": "approve", "reason": SECRET, "payload": SECRET},
    "ds.budget.set": {"tokens": 5, "usd": None},
    "ds.budget.tripped": {"limit": "tokens", "max": 5, "value": 7},
    "ds.sandbox": {
        "sandbox": "s1",
        "backend": "docker",
        "status": "ready",
        "image": SECRET,
        "image_digest": "sha256:1",
        "workdir": SECRET,
        "network": SECRET,
        "host": SECRET,
        "reason": SECRET,
        "exit_code": 1,
        "retry_of": "s0",
        "spec": {"env": {"TOKEN": SECRET}},
    },
    "ds.memory.written": {
        "scope": "project:calc",
        "key": "k",
        "value": SECRET,
        "why": "validation",
        "kind": "procedure",
        "confidence": 0.5,
    },
    "ds.memory.read": {
        "scope": "project:calc",
        "at": 3,
        "returned": [{"id": "e0", "session": "other"}],
        "query": SECRET,
        "influence": "planning",
        "workflow": "w",
        "backend": "b",
    },
    "ds.memory.rolled_back": {"write": "e0", "reason": SECRET, "session": "other"},
    "ds.artifact": {"sha256": "a" * 64, "name": "n", "role": "diff", "bytes": 3, "media_type": "text/plain"},
    "ds.adopted": {
        "session": "branch",
        "position": 4,
        "facts": [{"key": "k", "value": SECRET, "kind": "fact", "id": "e1"}],
        "verdicts": [{"feature": "f1", "verdict": "pass", "id": "e2", "by": "judge"}],
        "artifacts": [{"id": "e3", "sha256": "a" * 64, "name": "n", "role": "diff"}],
    },
}
NOT_ERASABLE = {"ds.lease.claimed", "ds.lease.released", "ds.redacted"}


def erased(stored: bytes) -> bytes:
    return remains(stored).tombstone(Mark("e9", "t", "asked for", None, len(stored)))


def stored(kind: str, event: Event) -> bytes:
    front = {"id": "e1", "offset": "0_1", "created_at": "t", "processed_at": "t", "actor": "me", "type": kind}
    return msgspec.json.encode({**front, **event, **COMMON})


def test_every_type_is_looked_at() -> None:
    assert ERASABLE.keys() | NOT_ERASABLE == schemas.TYPES.keys()


@pytest.mark.parametrize("kind", ERASABLE)
def test_an_erased_event_has_no_text_and_is_read_as_before(kind: str) -> None:
    before, left = stored(kind, ERASABLE[kind]), erased(stored(kind, ERASABLE[kind]))
    assert SECRET.encode() not in left
    assert_same_structure(strict.read(kind, before), strict.read(kind, left), strict.erased_members(kind))
    assert remains(left).kept == remains(before).kept  # erasing again takes nothing more


def assert_same_structure(
    before: StrictEvent | None, after: StrictEvent | None, texts: frozenset[str]
) -> None:
    assert before is not None
    assert after is not None
    was, now = (msgspec.to_builtins(event, builtin_types=(msgspec.Raw,)) for event in (before, after))
    for name in was.keys() - texts - {"features", "facts"}:
        assert now[name] == was[name], name
    for name in was.keys() & {"features", "facts"}:
        for one, left in zip(was[name], now[name], strict=True):
            assert {key: left[key] for key in one.keys() - texts} == {
                key: one[key] for key in one.keys() - texts
            }


def test_of_an_event_that_has_not_the_shape_of_its_type_nothing_stays() -> None:
    left = msgspec.json.decode(erased(stored("ds.fact", {"key": {"name": SECRET}, "value": 1})))
    assert "key" not in left
    assert SECRET not in str(left)


def test_control_loses_the_texts_of_erased_events_only_and_is_that_of_the_fold() -> None:
    """Two features may have the same words, and only one of the events that said them is erased."""
    session = Ledger()
    features = [{"id": "f1", "text": SECRET, "check": "pytest"}]
    session.append({"type": "ds.outcome.defined", "id": "o1", "features": features, "description": SECRET})
    session.append({"type": "ds.outcome.defined", "id": "o2", "features": features}, by=JUDGE)
    session.append({"type": "ds.approval.requested", "id": "q1", "question": SECRET, "metadata": {"a": 1}})
    session.append({"type": "ds.approval.requested", "id": "q2", "question": SECRET})
    session.append({"type": "ds.routed", "id": "r1", "to": "judge", "reason": SECRET})
    for gone in ({"o1", "q1"}, {"o2"}, {"r1", "q2"}):
        session.events = [
            erased(event) if msgspec.json.decode(event)["id"] in gone else event for event in session.events
        ]
        session.attributes |= control.without_events(session.attributes, gone, session.limits)
        told = session.fold().control.attributes()
        assert {name: without_counts(told[name]) for name in ATTRIBUTES if name in told} == {
            name: without_counts(value) for name, value in session.attributes.items()
        }
    assert SECRET.encode() not in b"".join(session.attributes.values())


SAID_LAST: list[tuple[str, list[Event], int]] = [
    ("append", [{"type": "ds.approval.requested", "question": "q", "blocking": False}], 1),
    ("append", [{"type": "ds.routed", "to": "judge", "reason": "r"}], 1),
    ("append", [{"type": "ds.outcome.defined", "features": [{"id": "f1", "text": "t"}]}], 2),
]
"""What control has texts of: few random sessions end with it."""


@settings(max_examples=150, deadline=None)
@given(acts, acts, st.sets(st.integers(0, 2), min_size=1))
def test_control_is_that_of_a_fold_from_zero_whatever_was_erased(
    steps: Any, more: Any, thirds: set[int]
) -> None:
    """Control at the tip has seen the events as they came; a fold made anew sees what is left of them."""
    session = play([*steps, *SAID_LAST])
    gone: set[str] = set()
    for position, event in enumerate(session.events):
        said = msgspec.json.decode(event)
        if position % 3 in thirds and tombstones.can_be_erased(said["type"]):
            gone.add(said["id"])
            session.events[position] = erased(event)
    session.attributes |= control.without_events(session.attributes, gone, session.limits)
    session = play(more, session)
    told = session.fold().control.attributes()
    assert {name: without_counts(value) for name, value in told.items()} == {
        name: without_counts(value) for name, value in session.attributes.items()
    }


def without_counts(attribute: bytes) -> object:
    """Return an attribute without what is measured by texts: their bytes, and calls that are alike."""
    document = msgspec.json.decode(attribute)
    if isinstance(document, dict):
        for measured in ("facts_bytes", "last_call", "repeated_calls"):
            document.pop(measured, None)
    return document
