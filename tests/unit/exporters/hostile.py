"""Events that nobody has checked: any type, any member, texts that mean something elsewhere."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from durable_sessions.rendering import work_events

_MEANING = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</pre></article>", "```", "~~~~", "# head",
    "\n", "> ", "| a | b |", "<!--", "]]>", "&lt;", '"><b>', "javascript:alert(1)", "[x](data:x)",
    "![i](http://e.example/x.png)", "\x1b[31m", "\x1b]0;t\x07", "\x9b2J", "\r", "\u202e", "\ud800", "\x00",
    "---\n", "    code", "- item", "1. one", "[a]: http://e.example 't'\n", "\\", "`", "*x*", "$x$",
    "<a href='x'>", "text",
)  # fmt: skip
texts = st.lists(
    st.one_of(st.sampled_from(_MEANING), st.text(st.characters(codec=None), max_size=12)), max_size=6
).map("".join)
_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
_blocks = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": texts}),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(("image", "document")),
            "source": st.fixed_dictionaries(
                {"type": texts, "media_type": texts, "url": texts, "data": st.one_of(st.none(), texts)}
            ),
        }
    ),
    _values,
)
_types = st.one_of(
    st.sampled_from(
        (
            "user.message", "agent.message", "agent.thinking", "agent.tool_use", "agent.tool_result",
            "system.message",
            "session.error", "session.status_idle", "span.model_request_end", "user.tool_confirmation",
            "agent.mcp_tool_use", "session.thread_created", "agent.thread_message_sent",
            "user.define_outcome", *work_events.TYPES,
        )
    ),
    texts,
)  # fmt: skip


_MEMBERS = (
    "content", "name", "input", "is_error", "error", "session_thread_id", "description", "model",
    "model_usage", "tool_use_id", "stop_reason", "agent_name", "deny_message", "mcp_server_name", "note",
    "key", "value", "reason", "features", "verdict", "refs", "usd", "next", "units", "worker", "epoch", "to",
    "sandbox", "status", "sha256", "events",
)  # fmt: skip
_INPUTS = ("command", "file_path", "old_string", "new_string", "content", "type", "message")


@st.composite
def events(
    draw: st.DrawFn, types: st.SearchStrategy[str] = _types, members: Sequence[str] = _MEMBERS
) -> dict[str, Any]:
    """Draw an event in the rough shape that its type has, with members that nobody has checked."""
    event: dict[str, Any] = {
        "id": draw(st.one_of(st.sampled_from(("a", "b")), texts)),
        "offset": draw(st.one_of(st.integers(0, 99).map(lambda n: f"{0:016d}_{n:016d}"), texts)),
        "created_at": draw(st.one_of(st.just("2026-11-15T12:00:00.000Z"), texts)),
        "type": draw(types),
    }
    loose = st.one_of(
        _values,
        st.lists(_blocks, max_size=3),
        st.sampled_from(("a", "b")),
        st.dictionaries(st.sampled_from(_INPUTS), texts, max_size=4),
    )
    return {**event, **draw(st.dictionaries(st.sampled_from(members), loose, max_size=5))}


lines = st.lists(events().map(lambda event: json.dumps(event).encode()), max_size=8)
