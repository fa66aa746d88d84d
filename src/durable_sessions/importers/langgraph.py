"""LangGraph: checkpoints in SQLite, decoded without importing any foreign classes."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from durable_sessions.importers.conversation import Conversation, chat_content
from durable_sessions.importers.documents import database, found_in, transcripts_in
from durable_sessions.importers.events import (
    Event,
    count,
    instant,
    items,
    members,
    objects,
    text,
    usage,
    without,
)
from durable_sessions.importers.sources import Transcript

TOOL = "langgraph"
_CLASS = "_class"
_NESTING_MAX = 20


def discover(paths: Iterable[Path]) -> list[Transcript]:
    """Return the threads of databases."""
    return found_in(paths, _threads, ".sqlite", ".sqlite3", ".db")


def _threads(path: Path, root: Path) -> list[Transcript]:
    with database(path, "checkpoints", "writes") as connection:
        rows = connection.execute("select distinct thread_id from checkpoints order by 1").fetchall()
    return transcripts_in(path, root, TOOL, rows, _produce)


class _Checkpoint:
    def __init__(self, row: Any) -> None:
        self.id = text(row["checkpoint_id"])
        self.parent = row["parent_checkpoint_id"]
        self.space = text(row["checkpoint_ns"])
        self.value = members(_decode(row["checkpoint"]))
        self.metadata = _json(row["metadata"])

    @property
    def messages(self) -> list[dict[str, Any]]:
        return objects(members(self.value.get("channel_values")).get("messages"))


def _produce(path: Path, thread: str) -> Any:
    def produce(talk: Conversation) -> Iterator[Event]:
        with database(path, "checkpoints") as connection:
            rows = connection.execute(
                "select * from checkpoints where thread_id = ? order by checkpoint_ns, checkpoint_id",
                (thread,),
            )
            spaces: dict[str, dict[str, _Checkpoint]] = {}
            for row in rows:
                one = _Checkpoint(row)
                spaces.setdefault(one.space, {})[one.id] = one
        for space, checkpoints in spaces.items():
            talk.thread = space or None
            if space:
                yield talk.event(
                    "session.thread_created", f"thread {space}", agent_name=space.partition(":")[0]
                )
            yield from _walk(talk, checkpoints)

    return produce


def _walk(talk: Conversation, checkpoints: dict[str, _Checkpoint]) -> Iterator[Event]:
    """Yield what each checkpoint added: first the ancestors of the newest one, then other branches."""
    # Every checkpoint has all messages up to it. Ids of checkpoints grow with time, so the largest is the
    # newest.
    chain = _ancestors(checkpoints, max(checkpoints))
    seen: set[str] = set()
    for checkpoint in chain:
        yield from _added(talk, checkpoint, seen)
    on_chain = {one.id for one in chain}
    branch_of: dict[str, int] = {}
    for checkpoint in checkpoints.values():
        if checkpoint.id in on_chain:
            continue
        branch = branch_of.get(checkpoint.parent, 0) or max(branch_of.values(), default=0) + 1
        branch_of[checkpoint.id] = talk.branch = branch
        yield from _added(talk, checkpoint, seen)
    talk.branch = 0


def _ancestors(checkpoints: dict[str, _Checkpoint], last: str) -> list[_Checkpoint]:
    chain: list[_Checkpoint] = []
    seen: set[str] = set()
    name: str | None = last
    while name in checkpoints and name not in seen:
        seen.add(name)
        chain.append(checkpoints[name])
        name = checkpoints[name].parent
    return chain[::-1]


def _added(talk: Conversation, checkpoint: _Checkpoint, seen: set[str]) -> Iterator[Event]:
    talk.tally.records += 1
    at = instant(checkpoint.value.get("ts"))
    for number, message in enumerate(checkpoint.messages):
        name = text(message.get("id")) or f"{checkpoint.id} {number}"
        if name not in seen:
            seen.add(name)
            yield from _message(talk, message, name, at)
    values = without(members(checkpoint.value.get("channel_values")), "messages")
    rest = {
        **without(checkpoint.value, "channel_values"),
        "channel_values": values,
        "metadata": checkpoint.metadata,
    }
    yield talk.keep(f"checkpoint {checkpoint.id}", "checkpoint", rest, at=at)


def _message(talk: Conversation, message: dict[str, Any], record: str, at: str | None) -> Iterator[Event]:
    kind = text(message.get("type"))
    content = chat_content(message.get("content"))
    detail = without(message, "content", "tool_calls", "usage_metadata")
    if kind in ("human", "HumanMessageChunk"):
        yield talk.user(record, content, at=at, source_detail=detail)
    elif kind == "system":
        yield talk.system(record, content, at=at, source_detail=detail)
    elif kind in ("ai", "AIMessageChunk"):
        made: list[Event] = []
        for number, block in enumerate(content):
            if block.get("type") in ("thinking", "reasoning"):
                words = text(block.get("thinking")) or text(block.get("reasoning"))
                made.append(talk.thinking(record, str(number), words, at=at))
            elif block.get("type") != "tool_use":
                made += talk.agent(record, str(number), [block], at=at)
        for number, call in enumerate(objects(message.get("tool_calls"))):
            call_id, name = text(call.get("id")), text(call.get("name"))
            made.append(talk.call(record, f"call {number}", call_id, name, call.get("args"), at=at))
        used = members(message.get("usage_metadata"))
        if used:
            cache = members(used.get("input_token_details"))
            read, written = count(cache.get("cache_read")), count(cache.get("cache_creation"))
            numbers = usage(
                count(used.get("input_tokens")) - read - written, used.get("output_tokens"), read, written
            )
            model = members(message.get("response_metadata")).get("model_name")
            made += talk.request(record, numbers, used, at=at, model=model)
        if made:
            made[0]["source_detail"] = detail
        yield from made or [talk.keep(record, "message without content", message, at=at)]
    elif kind in ("tool", "function"):
        yield talk.result(
            record,
            "result",
            text(message.get("tool_call_id")),
            content,
            is_error=message.get("status") == "error",
            at=at,
            source_detail=detail,
        )
    else:
        yield talk.keep(record, f"message {kind}", message, at=at)


def _decode(data: object, depth: int = 0) -> Any:
    """Return decoded msgpack; an object becomes its fields, with its class as a member."""
    if not isinstance(data, bytes | memoryview) or depth > _NESTING_MAX:
        return None

    def extension(code: int, inner: memoryview) -> Any:
        return _object(_decode(bytes(inner), depth + 1))

    try:
        return _plain(msgspec.msgpack.decode(data, ext_hook=extension), 0)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {"source_hex": bytes(data).hex()}


def _object(value: Any) -> Any:
    """Return the fields of ``[module, class, fields, method]``; anything else as it is."""
    parts = items(value)
    if len(parts) >= 3 and isinstance(parts[1], str):
        return {**parts[2], _CLASS: parts[1]} if isinstance(parts[2], dict) else parts[2]
    return value


def _plain(value: Any, depth: int) -> Any:
    """Return the value as plain JSON."""
    if isinstance(value, bytes):
        return {"source_hex": value.hex()}
    if depth > 100:
        return str(value)
    if isinstance(value, dict):
        return {str(name): _plain(one, depth + 1) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one, depth + 1) for one in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _json(data: object) -> Any:
    try:
        return msgspec.json.decode(data if isinstance(data, bytes | str) else b"null")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decode(data)  # some versions write MessagePack here, too
