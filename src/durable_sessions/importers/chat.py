"""Chat messages in the formats of OpenAI's and Anthropic's APIs."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from durable_sessions.importers import line_format
from durable_sessions.importers.conversation import Conversation, chat_content
from durable_sessions.importers.documents import files, load, records, transcript
from durable_sessions.importers.events import (
    Event,
    blocks,
    count,
    first_text,
    instant,
    members,
    objects,
    text,
    usage,
    without,
)
from durable_sessions.importers.sources import SourceError, Transcript

TOOL = "openai-chat"


def discover(paths: Iterable[Path]) -> list[Transcript]:
    """Return a session for each file of messages, and for each line that is a whole conversation."""
    found = []
    for path, root in files(paths, ".jsonl", ".json"):
        stem = path.name.removesuffix(path.suffix)
        if path.suffix == ".json":
            found.append(transcript(TOOL, stem, path, root, _document(path)))
            continue
        first = next(records(path), None)
        if (
            first is not None
            and isinstance(first.value, dict)
            and isinstance(first.value.get("messages"), list)
        ):
            for record in records(path):
                source = f"{stem}-{record.line}"
                found.append(
                    transcript(TOOL, source, path, root, _line(path, record.line), part=str(record.line))
                )
        else:
            found.append(transcript(TOOL, stem, path, root, _lines(path)))
    return found


def _document(path: Path) -> Any:
    def produce(talk: Conversation) -> Iterator[Event]:
        document = load(path)
        messages = document if isinstance(document, list) else members(document).get("messages")
        if not isinstance(messages, list) or (messages and not any(map(_is_message, objects(messages)))):
            raise SourceError(f"{path} holds no chat messages.")
        yield from conversation(talk, objects(messages))
        if isinstance(document, dict) and (rest := without(document, "messages")):
            yield talk.keep("document", "other members", rest)

    return produce


def _line(path: Path, line: int) -> Any:
    def produce(talk: Conversation) -> Iterator[Event]:
        for record in records(path):
            if record.line == line:
                value = members(record.value)
                yield from conversation(talk, objects(value.get("messages")))
                if rest := without(value, "messages"):
                    yield talk.keep(f"line {line}", "other members", rest)
                if record.damage:
                    yield talk.keep(f"line {line}", record.damage, record.remains())

    return produce


def _is_message(record: Event) -> bool:
    return "role" in record or "messages" in record or line_format.is_typed(record)


def _lines(path: Path) -> Any:
    def produce(talk: Conversation) -> Iterator[Event]:
        line_format.check(path, "chat messages", _is_message)
        for record in records(path):
            talk.tally.records += 1
            if isinstance(record.value, dict):
                yield from message(talk, record.value, record.place)
            else:
                yield talk.keep(record.place, record.damage or "not an object", record.remains())

    return produce


def conversation(talk: Conversation, messages: Iterable[dict[str, Any]]) -> Iterator[Event]:
    """Yield the events of messages; a message without an id is identified by its position."""
    for number, one in enumerate(messages):
        talk.tally.records += 1
        yield from message(talk, one, f"M{number}")


def message(talk: Conversation, value: dict[str, Any], place: str) -> Iterator[Event]:
    """Yield the events of one message."""
    role = text(value.get("role"))
    record = place
    # Chat programs write a time as text; the API itself has whole seconds since 1970 in "created".
    at = instant(first_text((value.get("timestamp"), value.get("created_at")))) or instant(
        value.get("created", value.get("timestamp"))
    )
    content = chat_content(value.get("content"))
    detail = without(value, "role", "content", "tool_calls", "reasoning_content", "reasoning") or None
    if role in ("system", "developer"):
        yield talk.system(record, content, at=at, role=role, source_detail=detail)
    elif role == "user":
        yield from _user(talk, record, content, at, detail)
    elif role == "assistant":
        yield from _assistant(talk, value, record, content, at, detail)
    elif role in ("tool", "function"):
        # Role "function" is from before calls had ids: its result names the function, and so does its call.
        call_id = first_text((value.get("tool_call_id"), value.get("name")))
        failed = value.get("is_error") is True or value.get("error") is not None
        yield talk.result(record, "result", call_id, content, is_error=failed, at=at, source_detail=detail)
    else:
        yield talk.keep(record, f"role {role}" if role else "no role", value, at=at)


def _user(
    talk: Conversation, record: str, content: list[Event], at: str | None, detail: object
) -> Iterator[Event]:
    own = []
    for number, block in enumerate(content):
        if block.get("type") == "tool_result":
            yield talk.result(
                record,
                str(number),
                text(block.get("tool_use_id")),
                blocks(block.get("content")),
                is_error=block.get("is_error") is True,
                at=at,
            )
        else:
            own.append(block)
    if own or not content:
        yield talk.user(record, own, at=at, source_detail=detail)


def _assistant(
    talk: Conversation,
    value: dict[str, Any],
    record: str,
    content: list[Event],
    at: str | None,
    detail: object,
) -> Iterator[Event]:
    thought = first_text((value.get("reasoning_content"), value.get("reasoning")))
    made: list[Event] = []
    if thought:
        made.append(talk.thinking(record, "thinking", thought, at=at))
    for number, block in enumerate(content):
        kind, part = block.get("type"), str(number)
        if kind in ("thinking", "reasoning", "redacted_thinking"):
            words = first_text((block.get("thinking"), block.get("reasoning"), block.get("text")))
            rest = without(block, "type", "thinking", "reasoning", "text") or None
            made.append(talk.thinking(record, part, words, at=at, source_block=rest))
        elif kind == "tool_use":
            made.append(
                talk.call(
                    record, part, text(block.get("id")), text(block.get("name")), block.get("input"), at=at
                )
            )
        else:
            made += talk.agent(record, part, [block], at=at)
    calls = objects(value.get("tool_calls"))
    # The only call of a message, from before there were several; it has no id, but its name is unique here.
    if isinstance(legacy := value.get("function_call"), dict):
        calls = [*calls, {"id": text(legacy.get("name")), "function": legacy}]
    for number, call in enumerate(calls):
        function = members(call.get("function")) or call
        name, given = text(function.get("name")), function.get("arguments", function.get("args"))
        rest = without(call, "id", "function", "name", "args", "arguments") or None
        made.append(
            talk.call(record, f"call {number}", text(call.get("id")), name, given, at=at, source_block=rest)
        )
    used = members(value.get("usage"))
    if used:
        # OpenAI counts cached tokens among those of the prompt; an event counts the two apart.
        cached = count(members(used.get("prompt_tokens_details")).get("cached_tokens"))
        given_tokens = count(used.get("prompt_tokens", used.get("input_tokens"))) - cached
        tokens = usage(given_tokens, used.get("completion_tokens", used.get("output_tokens")), cached)
        made += talk.request(record, tokens, used, at=at, model=value.get("model"))
    if not made:
        made = [talk.keep(record, "message without content", value, at=at)]
    elif detail is not None:
        made[0]["source_detail"] = detail
    yield from made
