"""Sample transcripts as plain events, each with the name by which questions refer to it.

Simple on purpose: enough to have the same words in the same pieces, not an import. A record of a JSONL file
is ``file#line:block``, the lines counted from 1 and the blocks of one record from 0.
"""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.samples import FOLDER

Event = dict[str, Any]


class Sample(NamedTuple):
    """One event of a transcript."""

    name: str
    session: str
    event: Event


def samples(folder: Path = FOLDER) -> Iterator[Sample]:
    """Return every event of every transcript, the same ones in the same order each time."""
    for path in sorted(folder.rglob("*.jsonl")):
        yield from _lines(folder, path)
    for path in sorted(folder.rglob("part/**/*.json")):
        yield from _named(folder, path, [(f"1:{at}", event) for at, event in enumerate(_part(_read(path)))])
    for path in sorted(folder.rglob("opencode.db")):
        yield from _database(folder, path)
    for path in sorted(folder.rglob("*.traj")):
        history = _read(path)["history"]
        yield from _named(folder, path, [(f"1:{at}", _said(each)) for at, each in enumerate(history)])


def _read(path: Path) -> Any:
    return json.loads(path.read_text(errors="replace"))


def _named(folder: Path, path: Path, events: list[tuple[str, Event]]) -> Iterator[Sample]:
    file = path.relative_to(folder).as_posix()
    session = file if "/part/" not in file else path.parents[1].relative_to(folder).as_posix()
    for place, event in events:
        yield Sample(f"{file}#{place}", session, event)


def _lines(folder: Path, path: Path) -> Iterator[Sample]:
    events = []
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            events += [(f"{number}:{at}", event) for at, event in enumerate(_record(record))]
    yield from _named(folder, path, events)


def _record(record: Event) -> list[Event]:
    """Take apart one line, of whichever tool."""
    if isinstance(record.get("history"), list):
        return [_said(each) for each in record["history"]]
    if record.get("type") in ("event_msg", "turn_context", "world_state"):
        return []
    inner = record.get("message") or record.get("payload") or record
    if not isinstance(inner, dict):
        return [_said(record)]
    role = inner.get("role") or record.get("type")
    content = inner.get("content")
    if isinstance(content, list) and inner is not record:
        return [_block(block, role) for block in content]
    if isinstance(content, str) and content:
        return [_block({"type": "text", "text": content}, role)]
    return [_payload(inner)]


def _block(block: Any, role: Any) -> Event:
    if not isinstance(block, dict):
        return _said({"text": block})
    kind = block.get("type")
    if kind == "tool_use":
        return {"type": "agent.tool_use", "name": block.get("name"), "input": block.get("input")}
    if kind == "tool_result":
        return {
            "type": "agent.tool_result",
            "content": block.get("content"),
            "is_error": block.get("is_error"),
        }
    if kind == "thinking":
        return {"type": "agent.thinking", "thinking": block.get("thinking")}
    if "text" in block:
        who = "user" if role == "user" else "agent"
        return {"type": f"{who}.message", "content": [{"type": "text", "text": block["text"]}]}
    return _said(block)


def _payload(payload: Event) -> Event:
    kind = payload.get("type")
    if kind in ("function_call", "custom_tool_call"):
        return {
            "type": "agent.tool_use",
            "name": payload.get("name"),
            "input": payload.get("arguments", payload.get("input")),
        }
    if kind in ("function_call_output", "custom_tool_call_output"):
        return {"type": "agent.tool_result", "content": payload.get("output")}
    if kind == "reasoning":
        return {"type": "agent.thinking", "summary": payload.get("summary")}
    return _said(payload)


def _part(part: Event) -> list[Event]:
    kind = part.get("type")
    if kind in ("text", "reasoning"):
        return [
            {
                "type": "agent.thinking" if kind == "reasoning" else "agent.message",
                "content": part.get("text"),
            }
        ]
    if kind == "tool":
        state = part.get("state") or {}
        return [
            {"type": "agent.tool_use", "name": part.get("tool"), "input": state.get("input")},
            {"type": "agent.tool_result", "content": state.get("output"), "error": state.get("error")},
        ]
    return [_said(part)]


def _database(folder: Path, path: Path) -> Iterator[Sample]:
    with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as connection:
        rows = connection.execute("SELECT id, session_id, data FROM part ORDER BY session_id, id").fetchall()
    connection.close()
    file = path.relative_to(folder).as_posix()
    for identity, session, data in rows:
        for at, event in enumerate(_part(json.loads(data))):
            yield Sample(f"{file}#{identity}:{at}", f"{file}#{session}", event)


def _said(record: Event) -> Event:
    """Whatever else there is, with all its strings, except for the tool's own bookkeeping."""
    skipped = (
        "uuid",
        "parentUuid",
        "sessionId",
        "timestamp",
        "type",
        "id",
        "leafUuid",
        "messageId",
        "snapshot",
    )
    return {**{key: value for key, value in record.items() if key not in skipped}, "type": "note"}
