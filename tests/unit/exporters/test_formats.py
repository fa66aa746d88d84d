"""Every format against its golden file, its own reader, and events that nobody has checked."""

import io
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from anthropic.types.beta.sessions import BetaManagedAgentsSessionEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from durable_sessions.exporters import FORMATS, ExportOptions, jsonl
from durable_sessions.exporters.managed_shapes import SHAPES
from tests.support.skips import disabled
from tests.unit.exporters import atif_rules, hostile
from tests.unit.exporters.golden import GOLDEN, SESSION, compared, exported, sample

OFFICIAL: TypeAdapter[Any] = TypeAdapter(BetaManagedAgentsSessionEvent)
SHORT = ("markdown", "otlp", "prov")
"""Formats that do not tell all of a result."""
MEMBERS = sorted({name for shape in SHAPES.values() for name in shape})


@pytest.mark.parametrize("name", GOLDEN)
def test_is_as_it_was(name: str) -> None:
    assert compared(name) == GOLDEN[name].read_text(encoding="utf-8"), (
        "if this is meant: python -m tests.unit.exporters.golden"
    )


@pytest.mark.parametrize("name", FORMATS)
def test_reads_events_once_and_as_they_come(name: str) -> None:
    taken = 0

    def lines() -> Any:
        nonlocal taken
        for number in range(10_000):
            taken += 1
            event = {
                "id": f"e{number}",
                "type": "user.message",
                "content": [{"type": "text", "text": "hello"}],
            }
            yield json.dumps(event).encode()

    pieces = FORMATS[name].export(SESSION, lines(), ExportOptions())
    while taken < 100:
        next(pieces)
    assert taken < 5_000
    assert sum(1 for _ in pieces) > 0
    assert taken == 10_000


@pytest.mark.parametrize("name", FORMATS)
def test_little_is_kept_in_memory(name: str) -> None:
    def lines() -> Iterator[bytes]:
        for number in range(3_000):
            call = {
                "id": f"c{number}",
                "type": "agent.tool_use",
                "name": "bash",
                "input": {"command": "make"},
            }
            output = f"{number} " * 2_000
            result = {
                "id": f"r{number}",
                "type": "agent.tool_result",
                "tool_use_id": f"c{number}",
                "content": output,
            }
            yield from (json.dumps(call).encode(), json.dumps(result).encode())

    tracemalloc.start()
    try:
        written = sum(map(len, FORMATS[name].export(SESSION, lines(), ExportOptions())))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert written > 10_000_000 or name in SHORT
    assert peak < 4_000_000


@pytest.mark.parametrize("name", FORMATS)
def test_a_session_without_events_can_be_exported(name: str) -> None:
    text = exported(name, [])
    if FORMATS[name].suffix == ".json":
        json.loads(text)


# jsonl ----------------------------------------------------------------------------------


def test_jsonl_is_what_is_stored_byte_for_byte() -> None:
    lines = [
        rb'{"type":"x", "n": 1.0e5, "n":1,"half":"\ud800","big":123456789012345678901234567890}',
        *sample(),
    ]
    text = b"".join(FORMATS["jsonl"].export({"id": "plain"}, lines, ExportOptions()))
    assert text.split(b"\n") == [*lines, b""]
    head, *rest = b"".join(FORMATS["jsonl"].export(SESSION, lines, ExportOptions())).split(b"\n")
    assert rest == [*lines, b""]
    said = {"session": "build-42", "title": SESSION["title"], "metadata": SESSION["metadata"]}
    assert json.loads(head) == {"type": "export.session", **said}


@pytest.mark.parametrize("session", [SESSION, {"id": "plain"}], ids=["titled", "plain"])
def test_jsonl_is_read_back_for_the_other_formats(session: Any) -> None:
    text = b"".join(FORMATS["jsonl"].export(session, sample(), ExportOptions()))
    said, events = jsonl.read(io.BytesIO(text))
    assert [line.rstrip(b"\n") for line in events] == sample()
    assert said.get("title") == session.get("title")
    assert list(jsonl.read([])[1]) == []


@pytest.mark.parametrize("name", FORMATS)
def test_the_head_of_a_jsonl_export_stops_no_format(name: str) -> None:
    text = b"".join(FORMATS["jsonl"].export(SESSION, sample(), ExportOptions()))
    assert b"".join(FORMATS[name].export(SESSION, text.splitlines(), ExportOptions()))


# managed-agents -------------------------------------------------------------------------


def test_managed_agents_events_are_of_the_official_types() -> None:
    page = json.loads(exported("managed-agents"))
    assert page["next_page"] is None
    assert page["omitted"] == {"deploy.finished": 1}
    for event in page["data"]:
        assert OFFICIAL.validate_python(event).type == event["type"]
        assert not event.keys() & {"offset", "actor", "created_at"}
    assert len(page["data"]) == len(sample()) - 1


@pytest.mark.parametrize("kind", sorted(SHAPES))
def test_managed_agents_fills_what_must_not_be_missing(kind: str) -> None:
    stored = {"id": "e", "created_at": "2026-11-15T12:00:00.000Z", "type": kind}
    event = json.loads(exported("managed-agents", [json.dumps(stored).encode()]))["data"][0]
    assert OFFICIAL.validate_python(event).type == kind


def test_managed_agents_knows_all_types_of_the_official_sdk() -> None:
    official = {
        str(one.model_fields["type"].annotation.__args__[0])
        for one in _members(BetaManagedAgentsSessionEvent)
    }
    assert set(SHAPES) == official


def _members(union: Any) -> tuple[Any, ...]:
    found = get_args(union)
    return found if hasattr(found[0], "model_fields") else get_args(found[0])


@settings(max_examples=120, deadline=None)
@given(st.lists(hostile.events(types=st.sampled_from(sorted(SHAPES)), members=MEMBERS), max_size=6))
def test_managed_agents_is_always_a_page_of_the_official_types(events: list[dict[str, Any]]) -> None:
    page = json.loads(exported("managed-agents", [json.dumps(event).encode() for event in events]))
    assert len(page["data"]) == len(events)
    for event in page["data"]:
        assert OFFICIAL.validate_python(event).type == event["type"]


@settings(max_examples=100, deadline=None)
@given(hostile.lines)
def test_managed_agents_tells_what_it_leaves_out(lines: list[bytes]) -> None:
    page = json.loads(exported("managed-agents", lines))
    assert len(page["data"]) + sum(page.get("omitted", {}).values()) == len(lines)


@pytest.mark.parametrize(
    ("kind", "member", "stored", "told"),
    [
        ("user.message", "content", "hi", [{"type": "text", "text": "hi"}]),
        (
            "user.message",
            "content",
            [{"type": "audio", "n": 1}],
            [{"type": "text", "text": '{"type":"audio","n":1}'}],
        ),
        (
            "session.error",
            "error",
            {"type": "my_error", "message": "no", "retry_status": {"type": "retrying"}},
            {"type": "unknown_error", "message": "no", "retry_status": {"type": "retrying"}},
        ),
        ("session.status_idle", "stop_reason", {"type": "tired"}, {"type": "end_turn"}),
        ("session.updated", "metadata", {"n": 1, "t": "x"}, {"n": "1", "t": "x"}),
        ("agent.tool_use", "input", {"any": [1, None]}, {"any": [1, None]}),
        ("agent.tool_use", "own_member", {"kept": True}, {"kept": True}),
    ],
)
def test_managed_agents_keeps_what_fits_and_replaces_what_does_not(
    kind: str, member: str, stored: object, told: object
) -> None:
    line = json.dumps({"id": "e", "type": kind, member: stored}).encode()
    assert json.loads(exported("managed-agents", [line]))["data"][0][member] == told


# atif -----------------------------------------------------------------------------------


def test_atif_keeps_the_rules() -> None:
    trajectory = json.loads(exported("atif", server_url="http://127.0.0.1:4437"))
    atif_rules.check(trajectory)
    assert trajectory["extra"]["omitted_events"] == {
        "deploy.finished": 1,
        "session.status_idle": 1,
        "session.status_running": 1,
    }
    first = next(step for step in trajectory["steps"] if step["source"] == "agent")
    assert [call["function_name"] for call in first["tool_calls"]] == ["bash", "edit"]
    assert len(first["observation"]["results"]) == 2
    assert first["metrics"] == {
        "prompt_tokens": 1012,
        "completion_tokens": 80,
        "cached_tokens": 900,
        "cost_usd": 0.0123,
        "extra": {"cache_creation_input_tokens": 100},
    }
    assert trajectory["subagent_trajectories"][0]["steps"][0]["message"] == "Looks right."


@settings(max_examples=150, deadline=None)
@given(hostile.lines)
def test_atif_keeps_the_rules_whatever_happens(lines: list[bytes]) -> None:
    atif_rules.check(json.loads(exported("atif", lines)))


NO_HARBOR = disabled(
    "harbor, which wants Python 3.12, is missing: its validator did not see our ATIF",
    ".venv/bin/pip install --no-deps harbor",
)


def test_atif_passes_harbors_own_validator() -> None:
    """Needs harbor, which wants Python 3.12; its wheel alone on PYTHONPATH is enough."""
    validator = pytest.importorskip("harbor.utils.trajectory_validator", reason=NO_HARBOR)
    for lines in (sample(), []):
        checked = validator.TrajectoryValidator()
        assert checked.validate(json.loads(exported("atif", lines))), checked.errors


@settings(max_examples=100, deadline=None)
@given(hostile.lines)
def test_atif_passes_harbors_own_validator_whatever_happens(lines: list[bytes]) -> None:
    validator = pytest.importorskip("harbor.utils.trajectory_validator", reason=NO_HARBOR)
    checked = validator.TrajectoryValidator()
    assert checked.validate(json.loads(exported("atif", lines))), checked.errors


@pytest.mark.parametrize("kind", ["user.message", "agent.message", "agent.tool_result", "system.message"])
def test_atif_says_nothing_of_content_that_is_not_there(kind: str) -> None:
    contents: list[dict[str, Any]] = [{}, {"content": None}, {"content": [None]}]
    events = [{"id": str(at), "type": kind, **one} for at, one in enumerate(contents)]
    written = exported("atif", [json.dumps(event).encode() for event in events])
    atif_rules.check(json.loads(written))
    assert "null" not in json.dumps(json.loads(written)["steps"])


def test_atif_gives_far_results_a_step_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("durable_sessions.exporters.atif.HELD_STEPS_MAX", 3)
    events: list[dict[str, Any]] = [{"id": "call", "type": "agent.tool_use", "name": "wait", "input": {}}]
    events += [{"id": f"m{n}", "type": "user.message", "content": "still there?"} for n in range(6)]
    events.append({"id": "r", "type": "agent.tool_result", "tool_use_id": "call", "content": "yes"})
    trajectory = json.loads(exported("atif", [json.dumps(event).encode() for event in events]))
    atif_rules.check(trajectory)
    assert trajectory["steps"][-1]["observation"]["results"] == [
        {"content": "yes", "extra": {"result_of": "call"}}
    ]


@given(st.sampled_from(sorted(FORMATS)), hostile.lines)
@settings(max_examples=150, deadline=None)
def test_every_format_is_utf_8_whatever_happens(name: str, lines: list[bytes]) -> None:
    exported(name, lines)
