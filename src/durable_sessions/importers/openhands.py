"""OpenHands: conversations as folders of events, in two versions, and the output of evaluations."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from durable_sessions.importers import directory_walk
from durable_sessions.importers.conversation import Conversation, chat_content
from durable_sessions.importers.documents import files, load, records, relative, transcript
from durable_sessions.importers.events import (
    Event,
    EventMaker,
    SessionMetadata,
    blocks,
    instant,
    items,
    members,
    objects,
    plain_text,
    session_id,
    text,
    text_block,
    without,
)
from durable_sessions.importers.sources import DocumentPart, SourceError, Transcript
from durable_sessions.importers.tally import WAITS, Tally

TOOL = "openhands"
_NUMBER = re.compile(r"(?:event-)?0*(\d{1,12})(?:-.*)?")
_LAST = "last"
_STATES = ("agent_state_changed", "change_agent_state", "null", "recall", "system")


def default_paths(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Return where the program keeps its conversations on this machine."""
    return [home / ".openhands"]


def discover(paths: Iterable[Path]) -> list[Transcript]:
    """Return the conversations in folders, and one for each line of evaluation output."""
    found: list[Transcript] = []
    for given in paths:
        if given.is_dir():
            parents = {path.parent for path in directory_walk.below(given, "*.json")}
            found += [_folder(parent, given) for parent in sorted(parents) if parent.name == "events"]
    for path, root in files(paths, ".jsonl"):
        for record in records(path):
            if "history" in members(record.value):
                source = f"{path.stem}-{record.line}"
                found.append(
                    transcript(TOOL, source, path, root, _line(path, record.line), part=str(record.line))
                )
    return found


def _folder(folder: Path, root: Path) -> Transcript:
    source, file = folder.parent.name, relative(folder, root)

    def fingerprint() -> str:
        stats = [path.stat() for path in directory_walk.below(folder, "*.json", root, deep=False)]
        return f"{len(stats)}:{max((stat.st_mtime_ns for stat in stats), default=0)}"

    def produce(about: SessionMetadata, tally: Tally) -> Iterator[Event]:
        talk = Conversation(EventMaker(TOOL, source, file), about, tally)
        numbered = [
            (int(found[1]), path)
            for path in directory_walk.below(folder, "*.json", root, deep=False)
            if (found := _NUMBER.fullmatch(path.stem))
        ]
        for number, path in sorted(numbered):
            tally.records += 1
            try:
                value = members(load(path))
            except SourceError:
                tally.notes[f"event still being written, {WAITS}"] += 1
                return
            yield from _event(talk, value, f"E{text(value.get('id')) or number}", first=False)

    part = DocumentPart(folder, file, produce, fingerprint=fingerprint)
    return Transcript(TOOL, session_id(TOOL, source), [part])


def _line(path: Path, line: int) -> Any:
    def produce(talk: Conversation) -> Iterator[Event]:
        for record in records(path):
            if record.line != line:
                continue
            value = members(record.value)
            issue = members(value.get("issue"))
            talk.about.name(issue.get("title"))
            history = [
                one
                for pair in items(value.get("history"))
                for one in (pair if isinstance(pair, list) else [pair])
            ]
            for number, one in enumerate(objects(history)):
                talk.tally.records += 1
                yield from _event(talk, one, f"E{number}", first=number == 0)
            yield talk.keep(f"line {line}", "evaluation", without(value, "history"))

    return produce


def _event(talk: Conversation, value: dict[str, Any], record: str, *, first: bool) -> Iterator[Event]:
    if "kind" in value:
        yield from _new(talk, value, record)
    elif "action" in value:
        yield from _action(talk, value, record, first=first)
    elif "observation" in value:
        yield from _observation(talk, value, record)
    else:
        yield talk.keep(record, "neither action nor observation", value, at=instant(value.get("timestamp")))


def _when(value: dict[str, Any]) -> str | None:
    at = text(value.get("timestamp"))
    # Times of the first version have no zone; they are taken as UTC.
    return instant(at) or instant(f"{at}Z") if at else None


def _action(talk: Conversation, value: dict[str, Any], record: str, *, first: bool) -> Iterator[Event]:
    kind, at = text(value.get("action")), _when(value)
    given = members(value.get("args")) or without(
        value, "action", "thought", "source", "timestamp", "id", "message"
    )
    thought = text(value.get("thought")) or text(given.get("thought"))
    detail = without(value, "args", "thought", "content", "code", "command")
    by_user = value.get("source") == "user" or ("source" not in value and first)
    if kind == "message":
        words = text(given.get("content")) or text(value.get("content"))
        content = [text_block(words)] if words else []
        if by_user:
            yield talk.user(record, content, at=at, source_detail=detail)
        else:
            yield from talk.agent(record, "message", content, at=at, source_detail=detail)
        return
    if kind in _STATES:
        yield talk.keep(record, f"action {kind}", value, at=at)
        return
    yield from talk.agent(record, "thought", [text_block(thought)] if thought else [], at=at)
    if kind == "finish":
        words = text(given.get("final_thought")) or text(members(given.get("outputs")).get("content"))
        yield from talk.agent(
            record, "finish", [text_block(words)] if words and words != thought else [], at=at
        )
        yield talk.event(
            "session.status_idle", record, "end", at=at, stop_reason={"type": "end_turn"}, source_record=value
        )
        return
    metadata = members(value.get("tool_call_metadata"))
    call_id = text(metadata.get("tool_call_id")) or record
    # Evaluations leave out ids; there each observation follows its action.
    talk.memory[value.get("id", _LAST)] = call_id
    yield talk.call(record, "call", call_id, kind, without(given, "thought"), at=at, source_detail=detail)


def _observation(talk: Conversation, value: dict[str, Any], record: str) -> Iterator[Event]:
    kind, at = text(value.get("observation")), _when(value)
    extras = members(value.get("extras"))
    if kind in _STATES:
        yield talk.keep(record, f"observation {kind}", value, at=at)
        return
    call_id = talk.memory.get(value.get("cause", _LAST))
    if call_id is None:
        yield talk.keep(record, f"observation {kind}", value, at=at)
        return
    code = value.get("exit_code", members(extras.get("metadata")).get("exit_code", extras.get("exit_code")))
    yield talk.result(
        record,
        "result",
        call_id,
        blocks(value.get("content")),
        # -1 is no failure: OpenHands reports it for a command that is still running.
        is_error=kind == "error" or (isinstance(code, int) and code not in (0, -1)),
        at=at,
        exit_code=code if isinstance(code, int) else None,
        source_detail=without(value, "content"),
    )


def _new(talk: Conversation, value: dict[str, Any], record: str) -> Iterator[Event]:
    """Yield the events of one record of the format of version 1."""
    kind, at = text(value.get("kind")), _when(value)
    call_id = text(value.get("tool_call_id")) or record
    if kind == "MessageEvent":
        said = members(value.get("llm_message"))
        content, detail = chat_content(said.get("content")), without(value, "llm_message")
        if value.get("source") == "user":
            yield talk.user(record, content, at=at, source_detail=detail)
        else:
            yield from talk.agent(record, "message", content, at=at, source_detail=detail)
    elif kind == "ActionEvent":
        thought = chat_content(value.get("thought"))
        if words := text(value.get("reasoning_content")):
            yield talk.thinking(record, "reasoning", words, at=at)
        yield from talk.agent(record, "thought", [text_block(plain_text(thought))] if thought else [], at=at)
        given = without(members(value.get("action")), "kind")
        detail = without(value, "thought", "action", "reasoning_content")
        yield talk.call(
            record, "call", call_id, text(value.get("tool_name")), given, at=at, source_detail=detail
        )
    elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        seen = members(value.get("observation"))
        content = chat_content(seen.get("content", seen.get("output", value.get("error"))))
        failed = kind != "ObservationEvent" or seen.get("is_error") is True
        yield talk.result(
            record,
            "result",
            call_id,
            content,
            is_error=failed,
            at=at,
            source_detail=without(value, "observation") | {"observation": without(seen, "content", "output")},
        )
    elif kind in ("CondensationEvent", "Condensation"):
        yield talk.event(
            "agent.thread_context_compacted", record, at=at, summary=value.get("summary"), source_detail=value
        )
    elif kind == "SystemPromptEvent":
        yield talk.system(
            record,
            chat_content([value.get("system_prompt")]),
            at=at,
            source_detail=without(value, "system_prompt"),
        )
    else:
        yield talk.keep(record, kind, value, at=at)
