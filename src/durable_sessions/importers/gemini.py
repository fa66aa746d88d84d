"""Gemini CLI: chats in ``~/.gemini/tmp/<project>/chats``, as documents or as JSON lines."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from durable_sessions.importers.conversation import Conversation, chat_content
from durable_sessions.importers.documents import found_in, load, records, transcript
from durable_sessions.importers.events import (
    Event,
    blocks,
    count,
    instant,
    members,
    objects,
    text,
    text_block,
    usage,
    without,
)
from durable_sessions.importers.sources import Transcript

TOOL = "gemini"


def default_paths(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Return where the program keeps its chats on this machine."""
    return [home / ".gemini" / "tmp"]


def discover(paths: Iterable[Path]) -> list[Transcript]:
    """Return the chats in files and folders."""
    return found_in(paths, _chats, ".json", ".jsonl")


def _chats(path: Path, root: Path) -> list[Transcript]:
    head = _head(path)
    # The program keeps other documents in the same folders.
    if "projectHash" not in head and "sessionId" not in head:
        return []
    source = text(head.get("sessionId")) or path.name.split(".")[0]
    return [transcript(TOOL, source, path, root, _produce(path))]


def _head(path: Path) -> dict[str, Any]:
    if path.suffix == ".json":
        return members(load(path))
    first = next(records(path), None)
    return members(first.value) if first is not None else {}


def _produce(path: Path) -> Any:
    def produce(talk: Conversation) -> Iterator[Event]:
        head, messages = _document(path) if path.suffix == ".json" else _lines(path, talk)
        talk.about.note(project_hash=head.get("projectHash"))
        yield talk.event(
            "session.updated", "head", at=instant(head.get("startTime")), source_record=_stable(head)
        )
        for number, message in enumerate(messages):
            talk.tally.records += 1
            yield from _message(talk, message, text(message.get("id")) or f"M{number}")

    return produce


def _document(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    document = members(load(path))
    return without(document, "messages"), objects(document.get("messages"))


def _lines(path: Path, talk: Conversation) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return head and messages of a chat in lines; a message that is repeated replaces the first."""
    head: dict[str, Any] = {}
    messages: dict[str, dict[str, Any]] = {}
    for record in records(path):
        value = record.value if isinstance(record.value, dict) else None
        if value is None:
            messages[record.place] = {"type": record.damage or "not an object", **record.remains()}
        elif "$set" in value:
            talk.tally.merged["change of the head"] += 1
            head |= members(value["$set"])
        elif "type" in value:
            name = text(value.get("id")) or record.place
            if name in messages:
                talk.tally.merged["message written again"] += 1
            # A message is written again when there is more of it, such as results. It stays in its first
            # place, with the content of the last.
            messages[name] = value
        else:
            head |= value
    return head, list(messages.values())


def _stable(head: dict[str, Any]) -> dict[str, Any]:
    """Return the head without what changes as the chat grows: an event keeps its content in every import."""
    return without(head, "lastUpdated", "messages")


def _message(talk: Conversation, message: dict[str, Any], record: str) -> Iterator[Event]:
    kind, at = message.get("type"), instant(message.get("timestamp"))
    content = chat_content(message.get("content"))
    if kind == "user":
        yield talk.user(record, content, at=at, source_detail=without(message, "content", "id") or None)
    elif kind == "gemini":
        yield from _answer(talk, message, record, content, at)
    elif kind == "error":
        words = "\n".join(text(block.get("text")) for block in content)
        yield talk.error(record, words, at=at, source_detail=message)
    else:
        yield talk.keep(record, f"message {text(kind)}", message, at=at)


def _answer(
    talk: Conversation, message: dict[str, Any], record: str, content: list[Event], at: str | None
) -> Iterator[Event]:
    made: list[Event] = []
    for number, thought in enumerate(objects(message.get("thoughts"))):
        words = "\n\n".join(
            part for part in (text(thought.get("subject")), text(thought.get("description"))) if part
        )
        when = instant(thought.get("timestamp")) or at
        made.append(talk.thinking(record, f"thought {number}", words, at=when))
    made += talk.agent(record, "answer", content, at=at)
    for number, call in enumerate(objects(message.get("toolCalls"))):
        call_id, when = text(call.get("id")), instant(call.get("timestamp")) or at
        made.append(
            talk.call(
                record,
                f"call {number}",
                call_id,
                text(call.get("name")),
                call.get("args"),
                at=when,
                source_block=without(call, "id", "name", "args", "result"),
            )
        )
        status = call.get("status")
        if status in ("success", "error", "cancelled"):
            made.append(
                talk.result(
                    record,
                    f"result {number}",
                    call_id,
                    _result(call.get("result")),
                    is_error=status != "success",
                    at=when,
                )
            )
        else:
            talk.tally.notes["calls without a result"] += 1
    tokens = members(message.get("tokens"))
    if tokens:
        cached = count(tokens.get("cached"))
        written = count(tokens.get("output")) + count(tokens.get("thoughts"))
        # Here cached tokens are among those of the input, and thoughts are not among those of the output.
        used = usage(count(tokens.get("input")) - cached, written, cached)
        made += talk.request(record, used, tokens, at=at, model=message.get("model"))
    if not made:
        made = [talk.keep(record, "message without content", message, at=at)]
    else:
        made[0]["source_detail"] = without(message, "content", "thoughts", "toolCalls", "tokens", "id")
    yield from made


def _result(result: object) -> list[Event]:
    made: list[Event] = []
    for one in blocks(result):
        response = members(members(one.get("functionResponse")).get("response"))
        output = response.get("output", response.get("error"))
        # Each result is wrapped as the API wants it: {"functionResponse": {"response": {"output": …}}}.
        if isinstance(output, str):
            made.append(text_block(output))
            if rest := without(response, "output", "error"):
                made.append({"type": "unknown", "value": rest})
        else:
            made.append(one)
    return made
