"""Events whose bodies were erased say so to their readers."""

from typing import Any

import pytest

from durable_sessions.rendering.entries import entry_of

MARK = {"event": "e9", "at": "2026-11-18T02:00:00.000Z", "reason": "a password", "sha256": None, "bytes": 90}


@pytest.mark.parametrize(
    "kind", ["user.message", "agent.message", "agent.tool_use", "agent.tool_result", "note"]
)
def test_a_redacted_event_tells_why(kind: str) -> None:
    entry = entry_of({"id": "e1", "type": kind, "redacted": MARK})
    assert "(redacted: a password)" in entry.line
    assert entry.text == "(redacted: a password)"


def test_a_dropped_event_tells_that_it_was() -> None:
    entry = entry_of(
        {"id": "e1", "type": "row", "slot": "s", "dropped": {"by": "e2", "bytes": 9, "sha256": "0"}}
    )
    assert entry.text == "(dropped with its slot)"


@pytest.mark.parametrize("own", [True, "yes", {}, {"reason": "mine"}])
def test_a_member_of_your_own_is_no_mark(own: Any) -> None:
    entry = entry_of({"type": "user.message", "content": "hello", "redacted": own, "dropped": own})
    assert entry.text == "hello"
