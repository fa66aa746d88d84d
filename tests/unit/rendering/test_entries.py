from typing import Any

import pytest
from hypothesis import given, settings

from durable_sessions.rendering import pairing
from durable_sessions.rendering.entries import EntryRole, TranscriptEntry, entry_of
from durable_sessions.rendering.events import decode
from durable_sessions.rendering.pairing import OpenCalls, paired
from durable_sessions.rendering.text import clean
from durable_sessions.rendering.threads import Threads
from tests.unit.exporters import hostile


def call(name: str, at: int = 0) -> TranscriptEntry:
    return entry_of(
        {
            "id": name,
            "type": "agent.tool_use",
            "name": "bash",
            "created_at": f"2026-11-15T12:00:{at:02d}.000Z",
        }
    )


def result(of: str, at: int = 0, **more: Any) -> TranscriptEntry:
    created = f"2026-11-15T12:00:{at:02d}.000Z"
    return entry_of(
        {"id": f"r{of}", "type": "agent.tool_result", "tool_use_id": of, "created_at": created, **more}
    )


def message(name: str) -> TranscriptEntry:
    return entry_of({"id": name, "type": "user.message", "content": "hello"})


@pytest.mark.parametrize(
    ("event", "role", "title", "line"),
    [
        ({"type": "user.message", "content": "hi\nthere"}, EntryRole.USER, "User", "hi there"),
        (
            {"type": "agent.message", "content": [{"type": "text", "text": "hi"}]},
            EntryRole.AGENT,
            "Agent",
            "hi",
        ),
        ({"type": "agent.thinking", "content": "hm"}, EntryRole.THINKING, "Thinking", "hm"),
        (
            {"type": "agent.mcp_tool_use", "name": "get", "mcp_server_name": "db"},
            EntryRole.TOOL,
            "db: get",
            "",
        ),
        ({"type": "session.error", "error": {"message": "no"}}, EntryRole.ERROR, "Error", "no"),
        ({"type": "session.error", "error": "no"}, EntryRole.ERROR, "Error", "no"),
        ({"type": "session.error"}, EntryRole.ERROR, "Error", "an error"),
        (
            {
                "type": "session.error",
                "error": {"message": "busy", "retry_status": {"type": "retrying"}},
                "retry_attempt": 2,
            },
            EntryRole.ERROR,
            "Error",
            "busy (retrying, attempt 2)",
        ),
        ({"type": "agent.thread_context_compacted"}, EntryRole.STATUS, "Context", "compacted"),
        (
            {"type": "agent.thread_context_compacted", "kind": "micro", "cleared": ["a", "b"]},
            EntryRole.STATUS,
            "Context",
            "old tool results cleared (2 tool results)",
        ),
        (
            {"type": "session.status_idle", "stop_reason": {"type": "requires_action"}},
            EntryRole.STATUS,
            "Session",
            "idle (requires action)",
        ),
        ({"type": "deploy.done", "text": "to staging"}, EntryRole.OTHER, "deploy.done", "to staging"),
        ({"type": "x"}, EntryRole.OTHER, "x", ""),
        ({}, EntryRole.OTHER, "event", ""),
        ({"type": 7, "content": 8}, EntryRole.OTHER, "event", "content: 8"),
    ],
)
def test_every_event_can_be_shown(event: dict[str, Any], role: EntryRole, title: str, line: str) -> None:
    entry = entry_of(event)
    assert (entry.role, entry.title, entry.line) == (role, title, line)


@settings(deadline=None)
@given(hostile.lines)
def test_all_texts_of_an_entry_are_clean(lines: list[bytes]) -> None:
    for entry in paired(entry_of(decode(line)) for line in lines):
        for text in (entry.title, entry.line, entry.id, entry.type, entry.thread, entry.text):
            assert clean(text) == text


@pytest.mark.parametrize("line", [b"", b"[]", b"7", b"{", b"\xff", b'{"type":"\\ud800"}'])
def test_a_line_that_is_no_event_can_be_shown(line: bytes) -> None:
    assert entry_of(decode(line)).role is EntryRole.OTHER


def test_an_imported_event_happened_when_it_happened() -> None:
    copied = {"created_at": "2026-11-15T12:00:00Z", "original_processed_at": "2026-01-01T00:00:00Z"}
    assert entry_of(copied).at_ms == 1_767_225_600_000
    event = {"created_at": "2026-11-15T12:00:00Z", "original_created_at": "2026-01-01T00:00:00Z"}
    assert entry_of(event).at_ms == 1_767_225_600_000
    without = {"created_at": "2026-11-15T12:00:00Z", "source": {"tool": "codex", "record_id": "r"}}
    assert entry_of(without).at_ms is None


def test_results_join_their_calls_in_any_order() -> None:
    entries = list(
        paired([call("a"), call("b"), message("m"), result("b", 3), result("a", 5, is_error=True)])
    )
    assert [entry.id for entry in entries] == ["a", "b", "m"]
    assert [entry.took_ms for entry in entries] == [5_000, 3_000, None]
    assert [entry.failed for entry in entries] == [True, False, False]


def test_calls_without_results_and_results_without_calls_stay() -> None:
    entries = list(paired([result("x"), call("a"), message("m"), result("a"), result("a")]))
    assert [entry.id for entry in entries] == ["rx", "a", "m", "ra"]
    assert [entry.id for entry in paired([call("a"), message("m")])] == ["a", "m"]


@pytest.mark.parametrize("behind", [pairing.HELD_ENTRIES_MAX - 1, pairing.HELD_ENTRIES_MAX])
def test_what_waits_for_a_result_is_bounded(behind: int) -> None:
    messages = [message(f"m{number}") for number in range(behind)]
    entries = list(paired([call("a"), *messages, result("a", 9)]))
    joined = behind < pairing.HELD_ENTRIES_MAX
    assert len(entries) == behind + (1 if joined else 2)
    assert (entries[0].result is not None) == joined
    if not joined:
        assert (entries[-1].title, entries[-1].after_ms) == ("bash: result", 9_000)


def test_what_waits_for_a_result_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "HELD_BYTES_MAX", 10_000)
    long = entry_of({"id": "m", "type": "user.message", "content": "x" * 10_000})
    assert [entry.result for entry in paired([call("a"), long, result("a")])] == [None, None, None]


def test_threads_have_the_names_of_their_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("durable_sessions.rendering.threads.THREADS_MAX", 1)
    threads = Threads()
    seen = []
    for kind, thread in (
        ("session.thread_created", "sthr_000001"),
        ("session.thread_created", "sthr_000002"),
        ("agent.message", "sthr_000001"),
        ("agent.message", "sthr_000002"),
        ("agent.message", ""),
    ):
        event = {"type": kind, "session_thread_id": thread, "agent_name": "reviewer"}
        entry = entry_of(event)
        threads.name(event, entry)
        seen.append((entry.thread, entry.nested))
    assert seen[2:] == [("reviewer 000001", True), ("sthr_000002", False), ("", False)]
    assert seen[0] == ("reviewer 000001", False)


def test_open_calls_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "OPEN_CALLS_MAX", 2)
    calls = OpenCalls()
    for name in ("a", "b", "c"):
        calls.remember(call(name))
    late = [result("a"), result("b"), result("c")]
    for one in late:
        calls.name(one)
    assert [one.title for one in late] == ["Result", "bash: result", "bash: result"]
