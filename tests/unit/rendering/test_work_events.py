"""Events of the work on a session are shown as what they say, whatever is in them."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.exporters import html, markdown
from durable_sessions.exporters.options import ExportOptions
from durable_sessions.rendering import work_events
from durable_sessions.rendering.entries import EntryRole, entry_of
from durable_sessions.rendering.events import encode
from durable_sessions.rendering.text import clean
from durable_sessions.sessions.graph.schemas import TYPES
from tests.unit.exporters import hostile

SHA = "ab" * 32
TOLD: list[tuple[dict[str, Any], str, str, str]] = [
    ({"type": "ds.session.paused", "reason": "lunch"}, "Session", "paused: lunch", ""),
    ({"type": "ds.session.resumed"}, "Session", "resumed", ""),
    (
        {"type": "ds.session.ended", "outcome": "timed_out", "reason": "slow"},
        "Session",
        "ended, timed out: slow",
        "",
    ),
    (
        {"type": "ds.lease.claimed", "epoch": 3, "worker": "w1", "seconds": 60, "exclusive": True},
        "Lease",
        "w1 took the session for 60 seconds (epoch 3)",
        "",
    ),
    (
        {"type": "ds.lease.released", "epoch": 3, "worker": "w1", "reason": "done"},
        "Lease",
        "w1 gave the session back (epoch 3): done",
        "",
    ),
    (
        {"type": "ds.routed", "to": "bob", "reason": "review", "needs": ["tests"], "see": {"last": 5}},
        "Route",
        "to bob: review",
        'needs: tests\nsees: {"last":5}',
    ),
    ({"type": "ds.routed", "to": "*", "reason": "any"}, "Route", "to anybody: any", ""),
    ({"type": "ds.fact", "key": "goal", "value": "Go.", "kind": "goal"}, "Goal", "Go.", ""),
    ({"type": "ds.fact", "key": "port", "value": 80}, "Fact", "port: 80", ""),
    (
        {"type": "ds.memory.written", "scope": "project:p", "key": "sum", "value": "ends early"},
        "Memory",
        "project:p, sum: ends early",
        "",
    ),
    (
        {"type": "ds.memory.read", "scope": "project:p", "returned": [{"id": "w"}], "query": "sum"},
        "Memory",
        "1 write of project:p for sum",
        "",
    ),
    (
        {"type": "ds.memory.rolled_back", "write": "w", "reason": "wrong"},
        "Memory",
        "w rolled back: wrong",
        "",
    ),
    ({"type": "ds.fact", "key": "db", "value": "pg", "kind": "decision"}, "Decision", "db: pg", ""),
    (
        {"type": "ds.fact.retracted", "key": "port", "reason": "moved"},
        "Fact",
        "port no longer holds: moved",
        "",
    ),
    (
        {
            "type": "ds.outcome.defined",
            "features": [
                {"id": "tests", "text": "All pass.", "check": "make test"},
                {"id": "d", "text": "D"},
            ],
            "description": "Green.",
        },
        "Outcome wanted",
        "2 features to pass: tests, d",
        "Green.\ntests: All pass. (check: make test)\nd: D",
    ),
    (
        {
            "type": "ds.evaluation",
            "verdict": "fail",
            "feature": "tests",
            "score": 0.5,
            "note": "two fail",
            "command": "make test",
            "exit_code": 2,
            "metrics": {"speed": 1.5},
            "refs": [{"rel": "because", "id": "e1"}, {"rel": "uses", "id": "e2", "session": "s2"}],
        },
        "Evaluation",
        "tests: fail, score 0.5: two fail",
        "command: make test\nexit_code: 2\nspeed: 1.5\nbecause: e1\nuses: e2 of the session s2",
    ),
    (
        {
            "type": "ds.checkpoint",
            "units": 1,
            "next": "write docs",
            "instructions": "Go on.",
            "done": ["code"],
            "git": {"commit": "abc", "branch": "main"},
            "state": {"n": 1},
        },
        "Checkpoint",
        "1 unit done; next: write docs",
        'Go on.\nnext: write docs\ncommit: abc\nbranch: main\ndone: code\n{\n  "n": 1\n}',
    ),
    (
        {"type": "ds.context.compacted", "from": 0, "to": 40, "summary": "We began."},
        "Context",
        "events 0 to 40 replaced by a summary",
        "We began.",
    ),
    (
        {"type": "ds.context.reset", "checkpoint": "e9"},
        "Context",
        "begins anew from the checkpoint e9",
        "",
    ),
    (
        {"type": "ds.approval.requested", "question": "Deploy?", "blocking": False},
        "Approval",
        "asked for (approve or reject, while the work goes on): Deploy?",
        "",
    ),
    (
        {"type": "ds.approval.decided", "request": "e1", "decision": "approve", "reason": "fine"},
        "Approval",
        "approved: fine",
        "",
    ),
    (
        {"type": "ds.budget.set", "usd": 5, "tool_calls": 1500, "tokens": None},
        "Budget",
        "at most 5 USD, 1,500 tool calls; no limit on tokens",
        "",
    ),
    (
        {"type": "ds.budget.tripped", "limit": "usd", "max": 5, "value": 5.25},
        "Budget",
        "used up: 5.25 of 5 USD",
        "",
    ),
    (
        {"type": "ds.sandbox", "sandbox": "b1", "backend": "docker", "status": "lost", "image": "alpine"},
        "Sandbox",
        "b1 (docker) lost",
        "image: alpine",
    ),
    (
        {"type": "ds.artifact", "sha256": SHA, "name": "log.txt", "role": "log", "bytes": 1200},
        "Artifact",
        "log.txt (log): 1.2 kB, sha256 abababababab…",
        f"sha256: {SHA}",
    ),
    (
        {
            "type": "ds.adopted",
            "session": "s2",
            "position": 7,
            "facts": [{"key": "port", "value": 80, "kind": "fact", "id": "e1"}],
            "verdicts": [],
            "artifacts": [],
        },
        "Adopted",
        "1 fact, 0 verdicts, 0 artifacts of the session s2, as of #7",
        "port: 80",
    ),
    (
        {
            "type": "ds.redacted",
            "events": [{"id": "e1", "type": "note", "offset": "0", "sha256": SHA, "bytes": 3}],
            "reason": "a key",
            "artifacts": [SHA],
        },
        "Redaction",
        "1 event and 1 artifact erased: a key",
        f"e1: note\nartifact: {SHA}",
    ),
]


@pytest.mark.parametrize(("event", "title", "line", "text"), TOLD)
def test_each_type_is_told_in_a_line(event: dict[str, Any], title: str, line: str, text: str) -> None:
    entry = entry_of(event)
    assert (entry.title, entry.line, entry.text) == (title, line, text)
    assert entry.role is EntryRole.STATUS
    assert not entry.quiet


def test_every_type_is_told() -> None:
    assert {event["type"] for event, *_ in TOLD} == set(TYPES) == set(work_events.TYPES)


def test_what_went_wrong_is_marked() -> None:
    failed = {entry.title for entry in (entry_of(event) for event, *_ in TOLD) if entry.failed}
    assert failed == {"Session", "Evaluation", "Budget", "Sandbox"}


@pytest.mark.parametrize("kind", ["ds.fact", "ds.outcome.defined", "ds.sandbox", "ds.memory.written"])
def test_an_event_of_an_older_log_is_shown_by_its_members(kind: str) -> None:
    entry = entry_of({"type": kind, "mine": "kept"})
    assert (entry.role, entry.title) == (EntryRole.OTHER, kind)
    assert "kept" in entry.text


def test_a_long_text_is_cut_in_the_line_and_whole_in_the_parts() -> None:
    entry = entry_of({"type": "ds.fact", "key": "k", "value": "word " * 100})
    assert len(entry.line) == work_events.LINE_CHARACTERS_MAX
    assert entry.text == "word " * 100
    exact = entry_of({"type": "ds.fact", "key": "k", "value": "x" * (work_events.LINE_CHARACTERS_MAX - 3)})
    assert (exact.line.endswith("x"), exact.parts) == (True, ())


def test_an_erased_event_says_so() -> None:
    mark = {"at": "2026-11-18T02:00:00.000Z", "reason": "a key", "sha256": None, "bytes": 90}
    entry = entry_of({"type": "ds.fact", "key": "k", "value": None, "redacted": mark})
    assert entry.line == entry.text == "(redacted: a key)"


MEMBERS = sorted({name for event, *_ in TOLD for name in event if name != "type"})


@settings(max_examples=300, deadline=None)
@given(hostile.events(st.sampled_from(work_events.TYPES), MEMBERS))
def test_anything_in_them_is_shown_and_clean(event: dict[str, Any]) -> None:
    entry = entry_of(event)
    for text in (entry.title, entry.line):
        assert clean(text) == text
        assert "\n" not in text
    assert clean(entry.text) == entry.text


@pytest.mark.parametrize("event", [event for event, *_ in TOLD], ids=lambda event: str(event["type"]))
def test_exports_tell_them_and_escape_what_they_say(event: dict[str, Any]) -> None:
    poisoned = {**_poisoned(event), "type": event["type"], "kind": event.get("kind")}
    title, line = entry_of(event).title, encode(poisoned)
    page = b"".join(html.export({"id": "s"}, [line], ExportOptions())).decode()
    assert page.count("<script>") == 1  # the page's own
    assert f'<div class="who">{title}' in page
    document = b"".join(markdown.export({"id": "s"}, [line], ExportOptions())).decode()
    assert f"*{title}*" in document
    assert "<script>" not in _FENCED.sub("", document).replace("\\<script", "")


_FENCED = re.compile(r"^```.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)


def _poisoned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _poisoned(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_poisoned(one) for one in value]
    return f"{value}<script>alert(1)</script>" if isinstance(value, str) else value
