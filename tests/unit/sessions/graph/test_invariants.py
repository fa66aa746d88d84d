"""What holds in every log of a session, whatever was sent; other invariants are named in other modules.

1 and 9 are in test_fold.py; 4 and 5 in tests/unit/sessions/test_contexts.py; 2 and the rest of 11 in
tests/integration/test_work.py.
"""

from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.errors import DurableSessionsError, UnresolvedReferenceError
from durable_sessions.sessions.graph import strict
from durable_sessions.sessions.graph.control import Control
from durable_sessions.sessions.graph.rules import Appender
from durable_sessions.sessions.graph.state import Around, state
from tests.unit.sessions.graph.ledger import Event, Ledger
from tests.unit.sessions.graph.test_fold import acts, play
from tests.unit.sessions.world import SessionWorld

REPORTS = (
    "agent.tool_result",
    "agent.mcp_tool_result",
    "span.model_request_end",
    "span.outcome_evaluation_",
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = [
    "refs",
    "metadata",
    "key",
    "value",
    "verdict",
    "epoch",
    "features",
    "tokens",
    "tool_use_id",
    "effect",
]
free_events = st.fixed_dictionaries(
    {"type": st.sampled_from(["note", "user.message", "agent.message", "agent.tool_use", "dsx.fact", "ds"])},
    optional=dict.fromkeys(MEMBERS, json_values),
)


def shown(session: Ledger, at: int) -> bytes:
    fold = session.fold(at)
    return msgspec.json.encode(state(fold, Around("s", fold.folded.at_ms)))


@settings(max_examples=60, deadline=None)
@given(steps=acts, more=acts, data=st.data())
def test_invariant_3_a_fork_leaves_its_source_alone_and_the_past_never_changes(
    steps: Any, more: Any, data: st.DataObject
) -> None:
    session = play(steps)
    at = data.draw(st.integers(0, len(session.events)))
    events, attributes, past = list(session.events), dict(session.attributes), shown(session, at)
    branch = session.fork(at)
    for act, sent, number in more:
        if act == "append":
            try:
                branch.append(*sent, by=Appender(f"p{number}", number > 0))
            except DurableSessionsError:
                continue
    assert (session.events, session.attributes) == (events, attributes)
    before = shown(branch, at)
    branch.append({"type": "note"}, {"type": "ds.fact", "key": "late", "value": 1})
    assert shown(branch, at) == before
    session.append({"type": "note"}, {"type": "ds.fact", "key": "late", "value": 1})
    assert shown(session, at) == past


STOPS = (
    {"type": "ds.session.paused", "reason": "r"},
    {"type": "ds.approval.requested", "question": "q"},
)
WORK = tuple({"type": kind} for kind in ("agent.message", "agent.tool_use", "span.model_request_start"))


@settings(max_examples=150, deadline=None)
@given(steps=acts, stop=st.sampled_from(STOPS), work=st.sampled_from(WORK))
def test_invariant_10_behind_a_stop_there_is_no_work_until_it_is_lifted(
    steps: Any, stop: Any, work: Any
) -> None:
    # Few random logs have work behind a stop: each is stopped at its begin, and work is tried after each act.
    # Forks do not inherit stops, so there are none here.
    tried = ("append", [work], 0)
    own = [step for step in steps if step[0] != "fork"]
    session = play([("append", [stop], 1), tried, *(one for step in own for one in (step, tried))])
    control = Control({}, session.limits)
    for position in range(len(session.events)):
        event = session.happened(position)
        is_work = event.type.startswith(("agent.", "span.")) and not event.type.startswith(REPORTS)
        assert not (is_work and control.core.stops), f"{event.type} at {position}"
        control.step(event)


@settings(max_examples=150, deadline=None)
@given(events=st.lists(free_events, min_size=1, max_size=5), is_controlled=st.booleans())
def test_invariant_11_a_free_event_is_never_refused_for_what_it_holds(
    events: list[Event], *, is_controlled: bool
) -> None:
    session = Ledger()
    if is_controlled:
        session.append({"type": "ds.fact", "key": "k", "value": 1})
    before = len(session.events)
    session.append(*events)
    assert len(session.events) == before + len(events)


@pytest.mark.anyio
@pytest.mark.parametrize("seed", range(10))
async def test_invariant_7_no_stored_ref_dangles_and_all_lead_back(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    world = await SessionWorld(tmp_path).open()
    try:
        for number in range(40):
            batch: list[Event] = []
            for index in range(random.randrange(1, 4)):
                target = random.choice([f"e{random.randrange(45)}-{random.randrange(3)}", "nowhere"])
                refs = [{"rel": random.choice(["because", "about", "uses"]), "id": target}]
                said: Event = {"type": "note"} if random.random() < 0.3 else {"type": "ds.fact", "key": "k"}
                if said["type"] == "ds.fact":
                    said |= {"value": number, "refs": refs if random.random() < 0.7 else []}
                batch.append({**said, "id": f"e{number}-{index}"})
            with suppress(UnresolvedReferenceError):
                await world.send("s", *batch)
        seen: set[str] = set()
        for event in await world.events("s"):
            if strict.is_strict(event["type"]):
                assert {ref["id"] for ref in event.get("refs", [])} <= seen, "each leads to an earlier event"
            seen.add(event["id"])
        assert len(seen) > 5
    finally:
        await world.close()
