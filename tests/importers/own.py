"""The same small talk in the format of every tool, made for these tests.

Text formats lie in ``samples/<tool>``; databases and archives are made here, from the same words.
"""

import json
import shutil
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

FOLDER = Path(__file__).parent / "samples"
Message = dict[str, Any]

TALK: dict[str, int] = {
    "user_messages": 2,
    "agent_messages": 4,
    "thinking": 1,
    "tool_uses": 2,
    "tool_results": 2,
    "tool_errors": 1,
}
"""What everyone says in it, as far as a tool keeps that."""
USED = {"input_tokens": 22, "output_tokens": 61, "cache_read_input_tokens": 420}
FIRST, LAST = "2026-03-04T09:00:00.000Z", "2026-03-04T09:09:00.000Z"


def _messages() -> list[Message]:
    return [json.loads(line) for line in (FOLDER / "openai-chat" / "shop.jsonl").read_text().splitlines()]


def _inspect_archive(folder: Path) -> None:
    document = json.loads((FOLDER / "inspect" / "shop.json").read_text())
    (sample,) = document.pop("samples")
    with zipfile.ZipFile(folder / "shop.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(document))
        archive.writestr("samples/1_epoch_1.json", json.dumps(sample))


def _openai_agents(folder: Path) -> None:
    database = sqlite3.connect(folder / "sessions.db")
    database.execute("create table agent_sessions (session_id text primary key, created_at, updated_at)")
    database.execute(
        "create table agent_messages (id integer primary key, session_id, message_data, created_at)"
    )
    database.execute("insert into agent_sessions values ('shop', ?, ?)", (FIRST, LAST))
    for item in _items():
        database.execute(
            "insert into agent_messages (session_id, message_data, created_at) values ('shop', ?, ?)",
            (json.dumps(item), FIRST),
        )
    database.commit()
    database.close()


def _items() -> list[Message]:
    """Return the talk as items of the Responses API."""
    made: list[Message] = []
    for message in _messages():
        if message["role"] == "tool":
            output = {"call_id": message["tool_call_id"], "output": message["content"]}
            made.append({"type": "function_call_output", **output})
            continue
        if thought := message.get("reasoning_content"):
            summary = [{"type": "summary_text", "text": thought}]
            made.append({"type": "reasoning", "id": "rs_1", "summary": summary})
        made.append({"type": "message", "role": message["role"], "content": message["content"]})
        made += [
            {"type": "function_call", "call_id": call["id"], **call["function"]}
            for call in message.get("tool_calls", [])
        ]
    return made


def _langgraph(folder: Path) -> None:
    database = sqlite3.connect(folder / "checkpoints.sqlite")
    database.execute(
        "create table checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id,"
        " type, checkpoint, metadata)"
    )
    database.execute("create table writes (thread_id)")
    told: list[msgspec.msgpack.Ext] = []
    for number, message in enumerate(_messages()):
        told.append(_packed(message, f"m{number}"))
        value = msgspec.msgpack.encode({"ts": FIRST, "channel_values": {"messages": told}})
        parent = f"{number - 1:04d}" if number else None
        row = (f"{number:04d}", parent, value)
        database.execute("insert into checkpoints values ('shop', '', ?, ?, 'msgpack', ?, '{}')", row)
    database.commit()
    database.close()


def _packed(message: Message, name: str) -> msgspec.msgpack.Ext:
    role = message["role"]
    kind = {"user": "human", "assistant": "ai"}.get(role, role)
    fields: Message = {"type": kind, "id": name, "content": message["content"]}
    if thought := message.get("reasoning_content"):
        fields["content"] = [
            {"type": "thinking", "thinking": thought},
            {"type": "text", "text": message["content"]},
        ]
    if calls := message.get("tool_calls"):
        fields["tool_calls"] = [
            {
                "id": call["id"],
                "name": call["function"]["name"],
                "args": json.loads(call["function"]["arguments"]),
            }
            for call in calls
        ]
    if used := message.get("usage"):
        cached = used.get("prompt_tokens_details", {}).get("cached_tokens", 0)
        fields["usage_metadata"] = {
            "input_tokens": used["prompt_tokens"],
            "output_tokens": used["completion_tokens"],
            "input_token_details": {"cache_read": cached},
        }
    if role == "tool":
        fields |= {
            "tool_call_id": message["tool_call_id"],
            "status": "error" if "is_error" in message else "success",
        }
    packed = msgspec.msgpack.encode(["langchain_core.messages", kind, fields, "model_validate_json"])
    return msgspec.msgpack.Ext(5, packed)


def _opencode_database(folder: Path) -> None:
    """Make the database of later versions out of the tree of earlier ones."""
    tree = FOLDER / "opencode" / "storage"
    database = sqlite3.connect(folder / "opencode.db")
    database.execute(
        "create table session (id, parent_id, title, version, directory, revert, time_created, time_updated)"
    )
    database.execute("create table message (id, session_id, time_created, time_updated, data)")
    database.execute("create table part (id, message_id, session_id, time_created, time_updated, data)")
    session = json.loads((tree / "session" / "prj_1" / "ses_1.json").read_text())
    at = (session["time"]["created"], session["time"]["updated"])
    row = (session["id"], session["title"], session["version"], session["directory"], *at)
    database.execute("insert into session values (?, null, ?, ?, ?, null, ?, ?)", row)
    for path in sorted((tree / "message").rglob("*.json")):
        value = json.loads(path.read_text())
        name, of = value.pop("id"), value.pop("sessionID")
        created = value["time"]["created"]
        database.execute(
            "insert into message values (?, ?, ?, ?, ?)", (name, of, created, created, json.dumps(value))
        )
    for path in sorted((tree / "part").rglob("*.json")):
        value = json.loads(path.read_text())
        name, of, message = value.pop("id"), value.pop("sessionID"), value.pop("messageID")
        database.execute(
            "insert into part values (?, ?, ?, ?, ?, ?)", (name, message, of, at[0], at[0], json.dumps(value))
        )
    database.commit()
    database.close()


MADE: dict[str, Callable[[Path], None]] = {
    "inspect": _inspect_archive,
    "openai-agents": _openai_agents,
    "langgraph": _langgraph,
    "opencode": _opencode_database,
}
"""What makes the files that are no text."""


def place(sample: str, folder: Path) -> Path:
    """Put a sample, such as ``codex/envelope`` or ``langgraph (made)``, into a folder, and return that."""
    folder.mkdir(parents=True, exist_ok=True)
    if sample.endswith(" (made)"):
        MADE[sample.removesuffix(" (made)")](folder)
    else:
        shutil.copytree(FOLDER / sample, folder, dirs_exist_ok=True)
    return folder
