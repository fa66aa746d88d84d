"""Pi and OpenClaw: a session in one file of JSON lines, whose entries form a tree."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from durable_sessions.importers.conversation import Conversation, chat_content
from durable_sessions.importers.documents import files, records, relative
from durable_sessions.importers.events import (
    Event,
    EventMaker,
    SessionMetadata,
    instant,
    members,
    session_id,
    text,
    text_block,
    usage,
    without,
)
from durable_sessions.importers.lines import SourceRecord
from durable_sessions.importers.sources import LinesPart, Parser, Transcript
from durable_sessions.importers.tally import Tally


def pi_paths(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Return where Pi keeps its sessions on this machine."""
    return [home / ".pi" / "agent" / "sessions"]


def openclaw_paths(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Return where OpenClaw keeps its sessions on this machine."""
    return [home / ".openclaw" / "agents"]


def finder(tool: str) -> Callable[[Iterable[Path]], list[Transcript]]:
    """Return the discover function for one of the two tools."""

    def discover(paths: Iterable[Path]) -> list[Transcript]:
        found = []
        for path, root in files(paths, ".jsonl"):
            first = next(records(path), None)
            head = members(first.value) if first is not None else {}
            if head.get("type") != "session":
                continue
            source, name = text(head.get("id")) or path.stem, relative(path, root)
            part = LinesPart(path, name, _parser(tool, source, name))
            found.append(Transcript(tool, session_id(tool, source), [part], text(head.get("cwd")) or None))
        return found

    return discover


def _parser(tool: str, source: str, name: str) -> Callable[[], Parser]:
    return lambda: PiParser(tool, source, name)


class PiParser:
    """Maps the entries of one session; a second child of the same entry begins a branch."""

    def __init__(self, tool: str, source: str, file: str) -> None:
        self.about = SessionMetadata()
        self._make = EventMaker(tool, source, file)
        self.tally = Tally()
        self._talk = Conversation(self._make, self.about, self.tally)
        self._branch_of: dict[str, int] = {}
        self._followed: set[str] = set()
        self._branches = 0

    def feed(self, record: SourceRecord) -> list[Event]:
        """Return the events of the next record."""
        self.tally.records += 1
        value = record.value
        if not isinstance(value, dict):
            return [self._talk.keep(record.place, record.damage or "not an object", record.remains())]
        key = text(value.get("id")) or record.place
        if value.get("type") == "session":
            return [self._session(value, key)]
        events = self._follow(value, key)
        return [*events, *self._entry(value, key)]

    is_waiting = False

    def finish(self, *, settled: bool) -> list[Event]:
        """Return nothing: no entry is held back."""
        return []

    def _session(self, value: dict[str, Any], key: str) -> Event:
        version = value.get("version")
        self._make.version = str(version) if version is not None else None
        self.about.note(cwd=value.get("cwd"), source_version=self._make.version)
        self.about.note(forked_from=value.get("parentSession") or value.get("branchedFrom"))
        return self._talk.event(
            "session.updated", key, at=instant(value.get("timestamp")), source_record=value
        )

    def _follow(self, value: dict[str, Any], key: str) -> list[Event]:
        parent = text(value.get("parentId"))
        if not parent:
            return []
        known = parent in self._branch_of
        # Labels and settings are entries of the chain too, and may hang on an entry beside the next message.
        # Only a second message behind the same entry means that somebody went back.
        rewound = known and value.get("type") == "message" and parent in self._followed
        self._followed.add(parent)
        if rewound:
            self._branches += 1
            left, self._talk.branch = self._talk.branch, self._branches
            self.about.metadata["active_branch"] = str(self._branches)
            self.tally.notes["branches"] += 1
        elif known:
            self._talk.branch = self._branch_of[parent]
        self._branch_of[key] = self._talk.branch
        if not rewound:
            return []
        at = instant(value.get("timestamp"))
        return [
            self._talk.event(
                "session.branch_created", f"branch {key}", at=at, left_branch=left, behind_record_id=parent
            )
        ]

    def _entry(self, value: dict[str, Any], key: str) -> Iterator[Event]:
        self._branch_of.setdefault(key, self._talk.branch)
        kind, at, talk = text(value.get("type")), instant(value.get("timestamp")), self._talk
        if kind == "message":
            yield from self._message(members(value.get("message")), value, key, at)
        elif kind in ("compaction", "branch_summary"):
            yield talk.event(
                "agent.thread_context_compacted",
                key,
                at=at,
                kind="branch" if kind == "branch_summary" else None,
                summary=value.get("summary"),
                pre_tokens=value.get("tokensBefore"),
                source_detail=without(value, "summary"),
            )
        elif kind in ("model_change", "thinking_level_change", "session_info", "label"):
            talk.about.note(model=value.get("modelId"))
            talk.about.name(value.get("name") if kind == "session_info" else None)
            yield talk.event("session.updated", key, at=at, source_record=value)
        elif kind == "custom_message":
            yield talk.system(
                key, chat_content(value.get("content")), at=at, source_detail=without(value, "content")
            )
        else:
            yield talk.keep(key, f"entry {kind}", value, at=at)

    def _message(
        self, message: dict[str, Any], value: dict[str, Any], key: str, at: str | None
    ) -> Iterator[Event]:
        role, talk = message.get("role"), self._talk
        content = chat_content(message.get("content"))
        detail = {
            **without(value, "message", "id", "timestamp"),
            "message": without(message, "content", "usage"),
        }
        if role == "user":
            yield talk.user(key, content, at=at, source_detail=detail)
        elif role == "assistant":
            yield from self._answer(message, key, content, at, detail)
        elif role == "toolResult":
            yield talk.result(
                key,
                "result",
                text(message.get("toolCallId")),
                content,
                is_error=message.get("isError") is True,
                at=at,
                source_detail=detail,
            )
        elif role == "bashExecution":
            # A command that the user typed into the agent's prompt, which ran it without asking the model.
            words = f"{text(message.get('command'))}\n{text(message.get('output'))}"
            yield talk.user(key, [text_block(words)], at=at, command=True, source_detail=detail)
        else:
            yield talk.keep(key, f"role {text(role)}", value, at=at)

    def _answer(
        self, message: dict[str, Any], key: str, content: list[Event], at: str | None, detail: dict[str, Any]
    ) -> Iterator[Event]:
        talk = self._talk
        made: list[Event] = []
        for number, block in enumerate(content):
            kind, part = block.get("type"), str(number)
            if kind == "thinking":
                rest = without(block, "type", "thinking")
                made.append(
                    talk.thinking(key, part, text(block.get("thinking")), at=at, source_block=rest or None)
                )
            elif kind == "toolCall":
                name, given = text(block.get("name")), block.get("arguments")
                made.append(talk.call(key, part, text(block.get("id")), name, given, at=at))
            else:
                made += talk.agent(key, part, [block], at=at)
        used = members(message.get("usage"))
        if used:
            numbers = usage(
                used.get("input"), used.get("output"), used.get("cacheRead"), used.get("cacheWrite")
            )
            made += talk.request(key, numbers, used, at=at, model=message.get("model"))
        reason = message.get("stopReason")
        if reason == "aborted":
            made.append(talk.event("user.interrupt", key, "interrupt", at=at))
        elif reason == "error":
            made.append(talk.error(key, text(message.get("errorMessage")), at=at))
        if made:
            made[0]["source_detail"] = detail
        else:
            made = [talk.keep(key, "message without content", detail, at=at)]
        yield from made
