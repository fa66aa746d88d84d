"""The smaller formats: what becomes of their records, from small files of our own."""

import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pyarrow
import pytest

from durable_sessions.importers.sources import SourceError
from tests.importers.counting import count
from tests.importers.memory_destination import MemoryDestination
from tests.importers.samples import run
from tests.importers.talks import lines

PIXEL = "data:image/png;base64,iVBORw0KGgo="
Event = dict[str, Any]


def imported(tool: str, path: Path) -> MemoryDestination:
    destination = MemoryDestination()
    report = run(tool, [path], destination)
    assert not [outcome.problem for outcome in report.outcomes if outcome.problem]
    assert run(tool, [path], destination).new_events == 0
    return destination


def of(tool: str, path: Path) -> list[Event]:
    (session,) = imported(tool, path).sessions.values()
    return list(session.events.values())


def kinds(events: list[Event]) -> list[str]:
    return [event["type"] for event in events]


CHAT: list[Event] = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": PIXEL}}],
    },
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "Hm.",
        "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": "{not json"}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}},
    },
    {"role": "tool", "tool_call_id": "c1", "content": "nothing"},
    {"role": "assistant", "content": "There is nothing."},
]


@pytest.mark.parametrize("shape", ["a message per line", "a talk per line", "a document"])
def test_chat(tmp_path: Path, shape: str) -> None:
    path = tmp_path / ("talk.json" if shape == "a document" else "talk.jsonl")
    if shape == "a message per line":
        path.write_bytes(lines(CHAT))
    else:
        path.write_text(json.dumps({"messages": CHAT}) + "\n")
    events = of("openai-chat", path)
    assert kinds(events) == [
        "system.message",
        "user.message",
        "agent.thinking",
        "agent.tool_use",
        "span.model_request_start",
        "span.model_request_end",
        "agent.tool_result",
        "agent.message",
    ]
    assert events[3]["input"] == {"_raw": "{not json"}
    assert events[5]["model_usage"]["input_tokens"] == 4
    assert events[1]["content"][1]["source"]["url"].startswith("/v1/artifacts/")


def test_chat_in_the_shape_of_anthropic(tmp_path: Path) -> None:
    talk: list[Event] = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "ls", "input": {}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t", "content": "a", "is_error": True}],
        },
        {"no": "role"},
    ]
    (tmp_path / "talk.jsonl").write_bytes(lines(talk) + b"damaged\n")
    events = of("openai-chat", tmp_path / "talk.jsonl")
    assert kinds(events) == ["agent.tool_use", "agent.tool_result", "import.record", "import.record"]
    assert events[1]["is_error"] is True


def test_gemini(tmp_path: Path) -> None:
    head: Event = {"sessionId": "g", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z"}
    call = {"id": "c", "name": "ls", "args": {}, "status": "error", "result": []}
    answer: Event = {
        "id": "2",
        "type": "gemini",
        "content": "Half",
        "tokens": {"input": 9, "cached": 4, "output": 2, "thoughts": 3},
    }
    messages: list[Event] = [
        {"id": "1", "type": "user", "content": "Go"},
        answer | {"content": "Whole", "toolCalls": [call]},
    ]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "session-x.json").write_text(json.dumps(head | {"messages": messages}))
    (tmp_path / "b" / "session-x.jsonl").write_bytes(
        lines([head, messages[0], answer, messages[1], {"$set": {"x": 1}}])
    )
    document, grown = (of("gemini", tmp_path / name) for name in ("a", "b"))
    assert kinds(document) == kinds(grown)
    found = count(document)
    assert (found["agent_messages"], found["tool_errors"]) == (1, 1)
    assert found["usage"] == {
        "input_tokens": 5,
        "output_tokens": 5,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 0,
    }


def test_pi_branches_and_endings(tmp_path: Path) -> None:
    def entry(name: str, parent: str | None, **message: Any) -> Event:
        return {"type": "message", "id": name, "parentId": parent, "message": message}

    (tmp_path / "s.jsonl").write_bytes(
        lines(
            [
                {"type": "session", "version": 3, "id": "p", "cwd": "/srv/demo"},
                entry("1", None, role="user", content="Go"),
                entry(
                    "2",
                    "1",
                    role="assistant",
                    content=[{"type": "text", "text": "Left"}],
                    stopReason="aborted",
                ),
                entry("3", "1", role="assistant", content=[], stopReason="error", errorMessage="no"),
                {"type": "session_info", "id": "4", "parentId": "3", "name": "A name"},
                {"type": "invented", "id": "5", "parentId": "4"},
            ]
        )
    )
    destination = imported("pi", tmp_path)
    (session,) = destination.sessions.values()
    events = list(session.events.values())
    assert kinds(events) == [
        "session.updated",
        "user.message",
        "agent.message",
        "user.interrupt",
        "session.branch_created",
        "session.error",
        "session.updated",
        "import.record",
    ]
    assert events[5]["branch"] == 1
    assert session.title == "A name"


def test_swe_agent_and_its_little_sister(tmp_path: Path) -> None:
    step = {"action": "ls", "observation": "a", "thought": "Look.", "response": "Look. ls"}
    history = [{"role": "user", "content": "demo", "is_demo": True}, {"role": "user", "content": "Fix it"}]
    stats = {"tokens_sent": 7, "tokens_received": 3, "api_calls": 1}
    document = {
        "trajectory": [step],
        "history": history,
        "info": {"exit_status": "submitted", "model_stats": stats},
    }
    (tmp_path / "big.traj").write_text(json.dumps(document))
    (tmp_path / "mini.traj.json").write_text(json.dumps({"messages": CHAT, "info": {}}))
    big = of("swe-agent", tmp_path / "big.traj")
    assert kinds(big)[:4] == ["user.message", "agent.message", "agent.tool_use", "agent.tool_result"]
    assert count(big)["usage"]["input_tokens"] == 7
    assert count(of("swe-agent", tmp_path / "mini.traj.json"))["tool_uses"] == 1


def test_openhands_folders(tmp_path: Path) -> None:
    old = [
        {
            "id": 0,
            "source": "user",
            "action": "message",
            "args": {"content": "Go"},
            "timestamp": "2026-01-01T00:00:00",
        },
        {"id": 1, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "Look."}},
        {"id": 2, "cause": 1, "observation": "run", "content": "a", "extras": {"metadata": {"exit_code": 1}}},
        {"id": 3, "source": "agent", "action": "finish", "args": {"final_thought": "Done."}},
    ]
    folder = tmp_path / "sessions" / "abc" / "events"
    folder.mkdir(parents=True)
    for value in old:
        (folder / f"{value['id']}.json").write_text(json.dumps(value))
    events = of("openhands", tmp_path)
    assert kinds(events) == [
        "user.message",
        "agent.message",
        "agent.tool_use",
        "agent.tool_result",
        "agent.message",
        "session.status_idle",
    ]
    assert events[0]["created_at"] == "2026-01-01T00:00:00.000Z"
    assert events[3]["is_error"] is True


def test_openhands_version_1(tmp_path: Path) -> None:
    said = {"role": "user", "content": [{"type": "text", "text": "Go"}]}
    new = [
        {"kind": "MessageEvent", "source": "user", "llm_message": said},
        {
            "kind": "ActionEvent",
            "thought": [{"type": "text", "text": "Look."}],
            "tool_name": "terminal",
            "tool_call_id": "c",
            "action": {"kind": "ExecuteBashAction", "command": "ls"},
        },
        {"kind": "ObservationEvent", "tool_call_id": "c", "observation": {"content": "a"}},
        {"kind": "AgentErrorEvent", "tool_call_id": "c", "error": "broken"},
        {"kind": "CondensationEvent", "summary": "Short."},
        {"kind": "SomethingNew"},
    ]
    folder = tmp_path / "conversations" / "abc" / "events"
    folder.mkdir(parents=True)
    for number, value in enumerate(new):
        (folder / f"event-{number:05d}-x.json").write_text(json.dumps(value))
    events = of("openhands", tmp_path)
    assert kinds(events) == [
        "user.message",
        "agent.message",
        "agent.tool_use",
        "agent.tool_result",
        "agent.tool_result",
        "agent.thread_context_compacted",
        "import.record",
    ]
    assert events[4]["supersedes"] == events[3]["id"]


def sample() -> Event:
    return {
        "id": 1,
        "epoch": 2,
        "messages": [{"role": "user", "content": "attachment://abc"}],
        "attachments": {"abc": "What is it?"},
        "model_usage": {"m": {"input_tokens": 5, "output_tokens": 2}},
        "error": {"message": "limit"},
    }


def test_inspect_archives_and_documents(tmp_path: Path) -> None:
    header = {"eval": {"eval_id": "e", "task": "t"}}
    packed = pyarrow.compress(json.dumps(sample()).encode(), codec="zstd", asbytes=True)
    with zipfile.ZipFile(tmp_path / "a.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(header))
        archive.writestr("samples/1_epoch_2.json", json.dumps(sample()))
    (tmp_path / "b.json").write_text(json.dumps(header | {"samples": [sample()]}))
    zipped, plain = (of("inspect", tmp_path / name) for name in ("a.eval", "b.json"))
    assert kinds(zipped) == kinds(plain)
    assert zipped[1]["content"] == [{"type": "text", "text": "What is it?"}]
    assert count(zipped)["usage"]["input_tokens"] == 5
    assert (
        msgspec.json.decode(pyarrow.decompress(packed, len(json.dumps(sample())), "zstd", asbytes=True))
        == sample()
    )


def packed_message(kind: str, **fields: Any) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(5, msgspec.msgpack.encode(["langchain", kind, fields, "model_validate_json"]))


def checkpoints(folder: Path) -> sqlite3.Connection:
    """Make a database as LangGraph does, without checkpoints."""
    database = sqlite3.connect(folder / "checkpoints.sqlite")
    database.execute(
        "create table checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id,"
        " type, checkpoint, metadata)"
    )
    database.execute("create table writes (thread_id)")
    return database


def test_langgraph_branches(tmp_path: Path) -> None:
    database = checkpoints(tmp_path)
    asked = packed_message("HumanMessage", type="human", id="h", content="Go")
    for name, parent, answer in (("1", None, None), ("2", "1", "left"), ("3", "1", "right")):
        messages = [asked] + (
            [packed_message("AIMessage", type="ai", id=answer, content=answer)] if answer else []
        )
        value = msgspec.msgpack.encode(
            {"ts": "2026-01-01T00:00:00Z", "channel_values": {"messages": messages, "n": b"x"}}
        )
        database.execute(
            "insert into checkpoints values ('t', '', ?, ?, 'msgpack', ?, '{}')", (name, parent, value)
        )
    database.commit()
    database.close()
    events = of("langgraph", tmp_path)
    said = [(one["content"][0]["text"], one.get("branch", 0)) for one in events if "content" in one]
    assert said == [("Go", 0), ("right", 0), ("left", 1)]


@pytest.mark.parametrize("tool", ["gemini", "inspect", "langgraph", "openai-agents", "opencode"])
def test_files_of_others(tmp_path: Path, tool: str) -> None:
    """What lies about in a folder is not ours to complain of; what was named is."""
    for name in ("a.json", "b.db", "c.sqlite", "d.eval", "opencode.db"):
        (tmp_path / name).write_text("something else, " * 50)
    assert imported(tool, tmp_path).sessions == {}
    ending = {"gemini": "a.json", "inspect": "d.eval", "opencode": "opencode.db"}.get(tool, "b.db")
    with pytest.raises(SourceError):
        run(tool, [tmp_path / ending], MemoryDestination())


def test_aider(tmp_path: Path) -> None:
    text = (
        "# aider chat started at 2026-01-02 03:04:05\n\n#### fix it\n#### please\n\nDone.\n\n> Applied edit\n"
    )
    (tmp_path / ".aider.chat.history.md").write_text(text)
    events = of("aider", tmp_path)
    assert kinds(events) == ["session.updated", "user.message", "agent.message", "import.record"]
    assert events[1]["content"][0]["text"] == "fix it\nplease"
    assert events[0]["created_at"] == "2026-01-02T03:04:05.000Z"


def test_langgraph_values_that_cannot_be_decoded_are_kept(tmp_path: Path) -> None:
    database = checkpoints(tmp_path)
    not_utf8 = b"\x81\xa1a\xa1\xff"
    database.execute(
        "insert into checkpoints values ('t', '', '1', null, 'msgpack', ?, '{\"a\":\"\xff\"}')", (not_utf8,)
    )
    database.execute(
        "insert into checkpoints values ('t', '', '2', '1', 'msgpack', ?, ?)", (not_utf8, b'"\xff"')
    )
    database.commit()
    database.close()
    kept = [one["source_record"] for one in of("langgraph", tmp_path)]
    assert [one["source_hex"] for one in kept] == [not_utf8.hex()] * 2
