"""OpenCode: database, trees and exports of our own making."""

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from durable_sessions.importers.registry import TOOLS
from durable_sessions.importers.sources import SourceError
from tests.importers.counting import count
from tests.importers.memory_destination import MemoryDestination
from tests.importers.samples import run

Record = dict[str, Any]
OLD = 1_700_000_000_000


def session(name: str = "ses_a", **more: Any) -> Record:
    times = {"created": OLD, "updated": OLD}
    return {
        "id": name,
        "title": "A talk",
        "version": "1.3.16",
        "directory": "/srv/demo",
        "time": times,
        **more,
    }


def user(name: str, *parts: Record) -> tuple[Record, list[Record]]:
    return {"id": name, "role": "user", "time": {"created": OLD + int(name[4:])}}, numbered(name, parts)


def agent(name: str, *parts: Record, **more: Any) -> tuple[Record, list[Record]]:
    at = OLD + int(name[4:])
    info = {"id": name, "role": "assistant", "time": {"created": at, "completed": at}, "modelID": "m", **more}
    return info, numbered(name, parts)


def numbered(message: str, parts: tuple[Record, ...]) -> list[Record]:
    return [{"id": f"prt_{message}_{number}", **part} for number, part in enumerate(parts)]


def tool(status: str, **more: Any) -> Record:
    return {
        "type": "tool",
        "tool": "bash",
        "callID": f"call_{status}",
        "state": {"status": status, "input": {}, **more},
    }


TALK = [
    user("msg_1", {"type": "text", "text": "Go"}, {"type": "text", "text": "a file", "synthetic": True}),
    agent(
        "msg_2",
        {"type": "step-start"},
        {"type": "reasoning", "text": "Hm."},
        {"type": "text", "text": "On it."},
        tool("completed", output="done"),
        tool("error", error="no"),
        tool("running"),
        {
            "type": "step-finish",
            "tokens": {"input": 9, "output": 4, "reasoning": 2, "cache": {"read": 3, "write": 1}},
        },
        {"type": "invented-by-a-plugin"},
    ),
]


def export(folder: Path, messages: list[tuple[Record, list[Record]]], **more: Any) -> Path:
    path = folder / "export.json"
    document = {
        "info": session(**more),
        "messages": [{"info": info, "parts": parts} for info, parts in messages],
    }
    path.write_text(json.dumps(document))
    return path


def tree(folder: Path, messages: list[tuple[Record, list[Record]]], *, old: bool = False) -> None:
    base = folder / "project" / "x" / "storage" / "session" if old else folder / "storage"
    info = base / "info" if old else base / "session" / "prj"
    files = {info / "ses_a.json": session()}
    for message, parts in messages:
        files[base / "message" / "ses_a" / f"{message['id']}.json"] = message
        place = base / "part" / "ses_a" if old else base / "part"
        files |= {place / message["id"] / f"{part['id']}.json": part for part in parts}
    for path, value in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))


def database(
    path: Path, messages: list[tuple[Record, list[Record]]], title: str = "A talk"
) -> sqlite3.Connection:
    made = sqlite3.connect(path)
    made.execute("pragma journal_mode = wal")
    made.execute(
        "create table session (id, parent_id, title, version, directory, revert,"
        " time_created, time_updated, new_column)"
    )
    made.execute("create table message (id, session_id, time_created, time_updated, data)")
    made.execute("create table part (id, message_id, session_id, time_created, time_updated, data)")
    made.execute(
        "insert into session values ('ses_a', null, ?, '1.3.16', '/srv/demo', null, ?, ?, 1)",
        (title, OLD, OLD),
    )
    for message, parts in messages:
        made.execute("insert into message values (?, 'ses_a', 1, 1, ?)", (message["id"], json.dumps(message)))
        for part in parts:
            row = (part["id"], message["id"], json.dumps(part))
            made.execute("insert into part values (?, ?, 'ses_a', 1, 1, ?)", row)
    made.commit()
    return made


def imported(path: Path) -> MemoryDestination:
    destination = MemoryDestination()
    run("opencode", [path], destination)
    assert run("opencode", [path], destination).new_events == 0
    return destination


def of(destination: MemoryDestination) -> list[Record]:
    return list(destination.sessions["opencode:ses_a"].events.values())


def test_every_generation_gives_the_same(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("db", "tree", "old", "export")]
    for place in places:
        place.mkdir()
    open_database = database(places[0] / "opencode.db", TALK)
    tree(places[1], TALK)
    tree(places[2], TALK, old=True)
    export(places[3], TALK)
    paths = [*places[:3], places[3] / "export.json"]
    talks = [of(imported(path)) for path in paths]
    open_database.close()
    for talk in talks:
        assert [(one["type"], one["id"]) for one in talk] == [(one["type"], one["id"]) for one in talks[0]]
    found = count(talks[0])
    assert (found["user_messages"], found["tool_uses"], found["tool_results"], found["tool_errors"]) == (
        1,
        3,
        2,
        1,
    )
    assert found["usage"] == {
        "input_tokens": 9,
        "output_tokens": 6,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 1,
    }
    assert [one["kind"] for one in talks[0] if one["type"] == "import.record"] == [
        "part invented-by-a-plugin"
    ]


@pytest.mark.parametrize(
    ("version", "provider", "given", "made"),
    [
        ("1.0.61", "openai", 5, 4),
        ("1.0.61", "anthropic", 9, 4),
        ("1.0.62", "openai", 9, 4),
        ("1.3.16", "openai", 9, 6),
    ],
)
def test_what_tokens_mean(tmp_path: Path, version: str, provider: str, given: int, made: int) -> None:
    talk = [agent("msg_2", TALK[1][1][-2], providerID=provider)]
    used = count(of(imported(export(tmp_path, talk, version=version))))["usage"]
    assert (used["input_tokens"], used["output_tokens"]) == (given, made)


def test_a_database_that_is_preferred_to_a_stale_tree(tmp_path: Path) -> None:
    tree(tmp_path, TALK[:1])
    database(tmp_path / "opencode.db", TALK, "The newer one").close()
    assert imported(tmp_path).sessions["opencode:ses_a"].title == "The newer one"


def test_calls_that_are_answered_later(tmp_path: Path) -> None:
    path = export(tmp_path, [agent("msg_2", tool("running"))])
    destination = imported(path)
    assert "agent.tool_result" not in {one["type"] for one in of(destination)}
    done = tool("running")
    done["state"] |= {"status": "completed", "output": "done"}
    export(tmp_path, [agent("msg_2", done)])
    run("opencode", [path], destination)
    use, result = (
        next(one for one in of(destination) if one["type"] == f"agent.tool_{name}")
        for name in ("use", "result")
    )
    assert result["tool_use_id"] == use["id"]


def test_a_message_that_is_being_written_waits(tmp_path: Path) -> None:
    now = int(time.time() * 1000)
    info, parts = agent("msg_2", {"type": "text", "text": "Half an ans"})
    del info["time"]["completed"]
    path = export(tmp_path, [TALK[0], (info, parts)], time={"created": OLD, "updated": now})
    assert count(of(imported(path))).get("agent_messages", 0) == 0
    export(tmp_path, [TALK[0], (info, parts)], time={"created": OLD, "updated": OLD})
    assert count(of(imported(path)))["agent_messages"] == 1


def test_errors_compaction_and_revert(tmp_path: Path) -> None:
    talk = [
        agent("msg_1", error={"name": "MessageAbortedError", "data": {}}),
        agent("msg_2", error={"name": "APIError", "data": {"message": "refused"}}),
        user("msg_3", {"type": "compaction", "auto": True}),
        agent("msg_4", {"type": "text", "text": "In short."}, summary=True),
    ]
    events = of(imported(export(tmp_path, talk, revert={"messageID": "msg_2"})))
    assert [one["type"] for one in events][1:] == [
        "user.interrupt",
        "session.error",
        "agent.thread_context_compacted",
        "session.reverted",
    ]
    assert events[3]["summary"] == "In short."


def test_another_program_of_that_name_is_refused(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "opencode.db").execute("create table sessions (id)").connection.close()
    with pytest.raises(SourceError, match="not OpenCode's"):
        TOOLS["opencode"].discover([tmp_path / "opencode.db"])
    (tmp_path / "text.db").write_text("not a database, " * 100)
    with pytest.raises(SourceError, match="cannot be read"):
        TOOLS["opencode"].discover([tmp_path / "text.db"])


DEEP = "[" * 100_000


@pytest.mark.parametrize("damage", [b'{"type": "text", "text": "\xff"}', b'{"type": "tex', DEEP.encode()])
def test_a_damaged_file_of_a_tree_is_kept_and_stops_nothing(tmp_path: Path, damage: bytes) -> None:
    tree(tmp_path, [user("msg_1", {"type": "text", "text": "Hello?"}), user("msg_2", {"type": "text"})])
    (tmp_path / "storage" / "part" / "msg_2" / "msg_2-0.json").unlink(missing_ok=True)
    folder = tmp_path / "storage" / "part" / "msg_2"
    for path in folder.iterdir():
        path.write_bytes(damage)
    (tmp_path / "storage" / "todo").mkdir()
    (tmp_path / "storage" / "todo" / "ses_a.json").write_bytes(damage)
    kept = [one for one in of(imported(tmp_path)) if one["type"] == "import.record"]
    assert [one["kind"] for one in kept] == ["part damaged", "todo"]
    assert kept[0]["source_record"]["source_text"] == damage.decode(errors="replace")
    assert "Hello?" in [one["content"][0]["text"] for one in of(imported(tmp_path)) if "content" in one]


@pytest.mark.parametrize("damage", [b'{"info": {"id": "\xff"}, "messages": []}', b'{"info"', DEEP.encode()])
def test_an_export_that_is_not_json_is_named(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "export.json"
    path.write_bytes(damage)
    with pytest.raises(SourceError, match=r"export\.json is not JSON"):
        TOOLS["opencode"].discover([path])


def test_a_row_that_is_not_json_is_kept(tmp_path: Path) -> None:
    made = database(tmp_path / "opencode.db", [user("msg_1", {"type": "text", "text": "Hello?"})])
    made.execute("insert into part values ('p9', 'msg_1', 'ses_a', 1, 1, ?)", (DEEP,))
    made.commit()
    made.close()
    kept = [one for one in of(imported(tmp_path / "opencode.db")) if one["type"] == "import.record"]
    assert [one["kind"] for one in kept] == ["part damaged"]
