"""OpenAI Agents SDK: sessions in SQLite, whose messages are items of the Responses API."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from durable_sessions.importers.conversation import Conversation, chat_content
from durable_sessions.importers.documents import database, decode, found_in, transcripts_in
from durable_sessions.importers.events import (
    Event,
    count,
    instant,
    local_instant,
    members,
    plain_text,
    text,
    usage,
    without,
)
from durable_sessions.importers.sources import SourceError, Transcript

TOOL = "openai-agents"


def discover(paths: Iterable[Path]) -> list[Transcript]:
    """Return the sessions of databases."""
    return found_in(paths, _sessions, ".db", ".sqlite", ".sqlite3")


def _sessions(path: Path, root: Path) -> list[Transcript]:
    with database(path, "agent_sessions", "agent_messages") as connection:
        rows = connection.execute("select session_id from agent_sessions order by 1").fetchall()
    return transcripts_in(path, root, TOOL, rows, _produce)


def _produce(path: Path, session: str) -> Any:
    def produce(talk: Conversation) -> Iterator[Event]:
        with database(path, "agent_messages") as connection:
            rows = connection.execute(
                "select id, message_data, created_at from agent_messages where session_id = ? order by id",
                (session,),
            )
            for row in rows:
                talk.tally.records += 1
                at = instant(row["created_at"]) or local_instant(text(row["created_at"]))
                record = f"row {row['id']}"
                try:
                    item = members(decode(text(row["message_data"]).encode(errors="replace"), record))
                except SourceError:
                    yield talk.keep(record, "not JSON", row["message_data"], at=at)
                    continue
                yield from _item(talk, item, record, at)
            yield from _usage(talk, connection, session)

    return produce


def _item(talk: Conversation, item: dict[str, Any], record: str, at: str | None) -> Iterator[Event]:
    kind = text(item.get("type")) or "message"
    if kind == "message":
        content, role = chat_content(item.get("content")), item.get("role")
        detail = without(item, "content")
        if role == "user":
            yield talk.user(record, content, at=at, source_detail=detail)
        elif role == "assistant":
            yield from talk.agent(record, "answer", content, at=at, source_detail=detail)
        else:
            yield talk.system(record, content, at=at, role=role, source_detail=detail)
    elif kind == "reasoning":
        words = plain_text(chat_content(item.get("summary")))
        rest = without(item, "summary")
        yield talk.thinking(record, "thinking", words, at=at, source_detail=rest)
    elif kind.endswith(("_call_output", "_output")):
        content = chat_content(item.get("output"))
        yield talk.result(
            record, "result", text(item.get("call_id")), content, at=at, source_detail=without(item, "output")
        )
    elif kind.endswith("_call"):
        call_id = text(item.get("call_id")) or text(item.get("id"))
        name = text(item.get("name")) or kind.removesuffix("_call")
        given = item.get("arguments", item.get("action", item.get("input")))
        rest = without(item, "arguments", "action", "input")
        yield talk.call(record, "call", call_id, name, given, at=at, source_detail=rest)
    else:
        yield talk.keep(record, f"item {kind}", item, at=at)


def _usage(talk: Conversation, connection: Any, session: str) -> Iterator[Event]:
    """Yield the usage of each turn, which the advanced variant keeps."""
    tables = {row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")}
    if "turn_usage" not in tables:
        return
    for row in connection.execute("select * from turn_usage where session_id = ? order by rowid", (session,)):
        used = dict(row)
        cached = count(members(used.get("input_tokens_details")).get("cached_tokens"))
        numbers = usage(count(used.get("input_tokens")) - cached, used.get("output_tokens"), cached)
        yield from talk.request(f"usage {used.get('id')}", numbers, used)
