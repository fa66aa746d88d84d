"""Dossiers of any events at all: they are filled, can be read, and rest on events that were there."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.evidence.statement import OutcomeResult
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.sessions.dossier.builder import DossierBuilder, FamilyEvent
from durable_sessions.sessions.dossier.kinds import KINDS, DossierKind
from durable_sessions.sessions.dossier.made import MadeDossier
from durable_sessions.sessions.dossier.text import document
from durable_sessions.sessions.dossier.trials import TrialRun
from durable_sessions.sessions.graph.folded_session import Goal
from durable_sessions.sessions.graph.graph_nodes import GraphNode, SessionGraph
from durable_sessions.sessions.graph.stored import happened
from tests.unit.exporters import hostile

STRICT: list[dict[str, Any]] = [
    {"type": "ds.sandbox", "sandbox": "s", "backend": "b", "status": "lost", "reason": "`x` ``y``"},
    {"type": "ds.evaluation", "verdict": "fail", "command": "c", "metrics": {"m": 1}},
    {"type": "ds.approval.decided", "request": "r", "decision": "approve", "reason": "ok"},
    {"type": "ds.artifact", "sha256": "ab" * 32, "name": "n", "role": "policy"},
    {"type": "ds.fact", "key": "k", "value": {"a": [1]}, "kind": "decision"},
    {"type": "ds.budget.tripped", "limit": "usd", "max": 1, "value": 2.5},
    {"type": "ds.memory.rolled_back", "write": "w", "reason": "wrong"},
    {"type": "ds.adopted", "session": "b", "position": 1, "facts": [], "verdicts": [], "artifacts": []},
    {"type": "agent.tool_use", "name": "t", "input": {"x": 1}, "schema_sha256": "cd" * 32},
    {"type": "agent.tool_result", "tool_use_id": "e0", "is_error": True, "effects": [{"target": "f"}]},
    {"type": "session.error", "error": {"message": "no"}},
]
EVENTS = st.lists(
    st.one_of(
        st.sampled_from(STRICT).map(lambda event: json.dumps(event).encode()), hostile.lines.map(b"".join)
    ),
    max_size=12,
)


def filled(kind: DossierKind, lines: list[bytes]) -> tuple[DossierBuilder, set[tuple[str, str]]]:
    builder = DossierBuilder(kind, Goal("Do it", "e0"), DEFAULT_LIMITS)
    known = set()
    for position, line in enumerate(lines):
        try:
            members = json.loads(line)
        except ValueError:
            members = {}
        if not isinstance(members, dict):
            members = {}
        members["id"] = f"e{position}"
        session = ("a", "b")[position % 2]
        event = happened(json.dumps(members).encode(), position, 0)
        known.add((session, event.id))
        builder.step(FamilyEvent(session, event, position % 2 == 0))
    builder.finish({"t": [TrialRun("a", True, []), TrialRun("b", False, [])]})
    return builder, known


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(lines=EVENTS)
def test_any_events_make_a_dossier(kind: DossierKind, lines: list[bytes]) -> None:
    builder, known = filled(kind, lines)
    graph = SessionGraph("a", "0", [], [], False)
    result = OutcomeResult(False, [], [], None)
    made = MadeDossier("a", "0", "keys", builder, graph, result, lambda: True)
    found = json.loads(b"".join(made.json()))
    assert found["complete"] == (not found["missing"])
    refs = [ref for answer in found["questions"].values() for ref in answer]
    for section in found["sections"].values():
        refs += [ref for item in section["items"] for ref in item["refs"]]
    assert {(ref["session"], ref["id"]) for ref in refs} <= known
    empty = {name for name, section in found["sections"].items() if not section["items"]}
    empty |= {name for name, answers in found["questions"].items() if not answers}
    assert set(found["missing"]) <= empty
    assert b"".join(document(builder, "a", "0", "keys", graph)).decode().startswith("# Dossier of `a`")


def test_the_document_says_what_the_events_of_an_answer_are() -> None:
    builder, _ = filled("report", [json.dumps(event).encode() for event in [*STRICT[:2], *[STRICT[0]] * 20]])
    graph = SessionGraph("a", "0", [GraphNode("event:a/e0", "event", "Sandbox: `s` lost")], [], False)
    lines = b"".join(document(builder, "a", "0", "keys", graph)).decode().splitlines()
    answer = lines.index("- sandbox:")
    assert lines[answer + 1] == "  - ``Sandbox: `s` lost`` (`a/e0`)"
    assert lines[answer + 2] == "  - `a/e2`", "not in the graph"
    assert lines[answer + 11] == "  - and 11 more events"
    assert "- workflow: **nothing**" in lines


def test_how_likely_all_of_some_trials_pass() -> None:
    builder = DossierBuilder("trading", None, DEFAULT_LIMITS)
    builder.finish({"t": [TrialRun(f"s{n}", n < 3, [f"v{n}"]) for n in range(5)]})

    (item,) = builder.items("reliability")
    assert item.said["pass_k"] == [3 / 5, 3 / 10, 1 / 10, 0, 0]


def test_failures_of_every_sort_are_told() -> None:
    builder, _ = filled("report", [json.dumps(event).encode() for event in STRICT])
    failures = [item.said["failure"] for item in builder.items("failure_analysis")]
    assert failures == ["sandbox", "verdict", "budget", "result", "error"]
