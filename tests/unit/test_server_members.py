"""What the server sets on an event is told from what the event says, by all that shows or copies events."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import durable_sessions
from durable_sessions.client.context import Context
from durable_sessions.client.event import Event
from durable_sessions.exporters import managed_agents
from durable_sessions.exporters.options import ExportOptions
from durable_sessions.mcp.options import PastOptions
from durable_sessions.mcp.shown import Shown
from durable_sessions.rendering import lenses
from durable_sessions.rendering.content import text_of
from durable_sessions.rendering.entries import entry_of
from durable_sessions.search.text import searchable
from durable_sessions.server_members import SERVER_MEMBERS, SET_BY_SERVER

UI = Path(durable_sessions.__file__).parent / "ui"
MARK = "set-by-the-server"
PREAMBLE: dict[str, Any] = {"goal": None, "facts": {}, "outcome": None, "approvals": [], "handoff": None}


def stored(kind: str, **said: Any) -> dict[str, Any]:
    return {
        **dict.fromkeys(SERVER_MEMBERS, MARK),
        "offset": "0000000000000000_0000000000000001",
        "ref_incarnations": [MARK, None],
        "type": kind,
        **said,
    }


@pytest.mark.parametrize("kind", ["app.note", "ds.fact", "ds.of_tomorrow", "agent.message"])
def test_what_the_server_sets_is_neither_shown_nor_searched(kind: str) -> None:
    event = stored(kind, key="k", value="v", content="said")
    entry = entry_of(event)
    assert MARK not in entry.line + text_of(entry.parts)
    assert MARK not in searchable(msgspec.json.encode(event)).text
    assert Shown(PastOptions()).event(Event(event))["body"].keys() == {"key", "value", "content"}


def test_a_model_is_told_what_an_event_says_and_its_type() -> None:
    item = {"kind": "event", "event": stored("app.note", key="k")}
    (message,) = Context("s", "now", 100, 10, PREAMBLE, [item], [], 0, []).messages()[1:]
    assert message["content"][-1]["text"] == '{"type":"app.note","key":"k"}'


def test_an_event_of_langgraph_keeps_what_the_server_set() -> None:
    event = stored(
        "langgraph.write", raw_format="langgraph.write/1", text="It has landed", channel="messages"
    )
    meant = lenses.seen(event)
    assert meant is not None
    assert {name: meant[name] for name in SERVER_MEMBERS} == {name: event[name] for name in SERVER_MEMBERS}


def test_an_export_for_managed_agents_has_the_id_and_the_time_only() -> None:
    line = msgspec.json.encode(stored("user.message", content="said"))
    page = msgspec.json.decode(b"".join(managed_agents.export({"id": "s"}, [line], ExportOptions())))
    assert page["data"][0].keys() & SERVER_MEMBERS == {"id", "processed_at"}


def test_the_page_has_the_same_list() -> None:
    script = (UI / "reading" / "entry.js").read_text()
    found = re.search(r"const NOT_SHOWN = new Set\(\[(.*?)\]\)", script, re.DOTALL)
    assert found is not None
    assert set(re.findall(r'"(\w+)"', found[1])) == SERVER_MEMBERS | {"type"}


def test_what_a_client_brings_of_the_original_is_not_set_by_the_server() -> None:
    assert {name for name in SERVER_MEMBERS if name.startswith("original_")} == SERVER_MEMBERS - SET_BY_SERVER
