"""Finds the rollouts of Codex, and which of them are subagents or forks."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from durable_sessions.importers import directory_walk, line_format
from durable_sessions.importers.codex.context import TOOL
from durable_sessions.importers.codex.parser import CodexParser
from durable_sessions.importers.events import (
    Event,
    SessionMetadata,
    first_text,
    members,
    objects,
    session_id,
    text,
)
from durable_sessions.importers.lines import LineReader, SourceRecord, parse_document
from durable_sessions.importers.sources import (
    DocumentPart,
    ForkPoint,
    LinesPart,
    Part,
    SourceError,
    Transcript,
    open_maybe_compressed,
)
from durable_sessions.importers.tally import Tally

DOCUMENT_BYTES_MAX = 256 * 1024 * 1024
ANCESTORS_MAX = 100
"""Whoever wrote the files may have made two of them each other's parent."""
_ID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_NAME = re.compile(rf"rollout-.*?-({_ID})(?:_({_ID}))?\.json(?:l|l\.zst)?")


def default_paths(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Return where the program keeps its rollouts on this machine."""
    base = Path(environment["CODEX_HOME"]) if environment.get("CODEX_HOME") else home / ".codex"
    return [base / "sessions", base / "archived_sessions"]


@dataclass(slots=True)
class Rollout:
    """One file, and the metadata in its first record."""

    path: Path
    name: str
    thread: str
    rollout: str
    meta: dict[str, Any]
    turns: set[str] = field(default_factory=set)

    @property
    def parent(self) -> str:
        """The thread that has started this one; empty if it is no subagent."""
        source = self.meta.get("source")
        spawn = members(members(source).get("subagent"))
        is_subagent = bool(spawn) or self.meta.get("thread_source") == "subagent"
        spawned = members(spawn.get("thread_spawn"))
        # Versions differ in where the parent is named. A fork that the user made also says where it comes
        # from; that alone makes it no subagent.
        named = first_text(
            (
                self.meta.get("parent_thread_id"),
                spawned.get("parent_thread_id"),
                self.meta.get("forked_from_id"),
            )
        )
        return named if is_subagent or self.meta.get("parent_thread_id") else ""

    @property
    def is_document(self) -> bool:
        """Whether it is one JSON document, as the first generation wrote it."""
        return self.path.suffix == ".json"


def discover(paths: Iterable[Path]) -> list[Transcript]:
    """Return the sessions in files and folders, subagents with the session that started them."""
    rollouts: dict[str, Rollout] = {}
    titles: dict[str, str] = {}
    for given in paths:
        root = given if given.is_dir() else given.parent
        titles |= _titles(root.parent / "session_index.jsonl")
        for path in _files(given):
            rollout = _look(path, root)
            if rollout is not None:
                rollouts[_unused(rollout, rollouts)] = rollout
    return _Family(rollouts, titles).transcripts()


def _files(given: Path) -> list[Path]:
    if not given.is_dir():
        return [given]
    return [
        path
        for path in directory_walk.below(given)
        if path.name.endswith((".jsonl", ".jsonl.zst")) or _NAME.fullmatch(path.name)
    ]


def _unused(rollout: Rollout, known: dict[str, Rollout]) -> str:
    """Return the thread's id, or the rollout's if a reverted thread has several files."""
    if rollout.thread not in known:
        return rollout.thread
    return rollout.rollout if rollout.rollout not in known else f"{rollout.thread} {rollout.name}"


def _look(path: Path, root: Path) -> Rollout | None:
    name = os.path.relpath(path, root).replace(os.sep, "/")
    found = _NAME.fullmatch(path.name)
    named = found.group(1) if found else path.name.split(".")[0]
    rollout = (found.group(2) if found else None) or named
    meta: dict[str, Any] = {}
    if path.suffix != ".json":
        try:
            with open_maybe_compressed(path) as file:
                first = next(iter(LineReader().read(file, ending=True)), None)
        except OSError:
            return None
        if first is None:
            return None
        value = members(first.value)
        meta = members(value.get("payload")) if "payload" in value else value
    thread = text(meta.get("id")) or named
    return Rollout(path, name, thread, rollout, meta)


def _titles(index: Path) -> dict[str, str]:
    """Return the names of threads; the last one counts."""
    try:
        with index.open("rb") as file:
            return {
                text(value.get("id")): text(value.get("thread_name"))
                for record in LineReader().read(file, ending=True)
                if (value := members(record.value))
            }
    except OSError:
        return {}


class _Family:
    """All rollouts that were found, and how they are related."""

    def __init__(self, rollouts: dict[str, Rollout], titles: dict[str, str]) -> None:
        self._rollouts = rollouts
        self._titles = titles
        self._by_rollout = {one.rollout: one for one in rollouts.values()} | rollouts

    def transcripts(self) -> list[Transcript]:
        """Return one transcript for each root thread."""
        made: dict[str, Transcript] = {}
        # Roots first, so that the parts of a transcript begin with the main thread.
        for key, rollout in sorted(self._rollouts.items(), key=lambda pair: bool(pair[1].parent)):
            root = self._root(rollout, key)
            transcript = made.get(root)
            if transcript is None:
                transcript = made[root] = Transcript(TOOL, session_id(TOOL, root), [])
            if not rollout.parent:
                transcript.origin = self._origin(rollout)
            transcript.directory = transcript.directory or text(rollout.meta.get("cwd")) or None
            transcript.parts.append(self._part(rollout, key))
        return list(made.values())

    def _root(self, rollout: Rollout, key: str) -> str:
        """Return the thread at the top, as far as it is known."""
        for _ in range(ANCESTORS_MAX):
            if not rollout.parent:
                return key
            above = self._rollouts.get(rollout.parent)
            if above is None:
                # The parent was not found, such as when one file alone is imported; the session's id is still
                # the root's.
                root = text(rollout.meta.get("session_id"))
                return root if root and root != rollout.thread else rollout.parent
            rollout, key = above, rollout.parent
        return key

    def _part(self, rollout: Rollout, key: str) -> Part:
        if rollout.is_document:
            return DocumentPart(rollout.path, rollout.name, _document(rollout))
        return LinesPart(rollout.path, rollout.name, self._parser(rollout, key), _check)

    def _parser(self, rollout: Rollout, key: str) -> Callable[[], CodexParser]:
        source = self._rollouts.get(text(rollout.meta.get("forked_from_id")))
        # A fork begins with a copy of its source, whose turns must not be imported twice. Since there is
        # "history_base", which refers to the source, a fork has only what is its own.
        copied = source is not None and "history_base" not in rollout.meta
        turns = _turns(source) if source is not None and copied else set()
        return lambda: CodexParser(
            key,
            rollout.name,
            is_subagent=bool(rollout.parent),
            parent_turns=turns,
            about=SessionMetadata(title=self._titles.get(rollout.thread)),
        )

    def _origin(self, rollout: Rollout) -> ForkPoint | None:
        """Return the fork point in the source, if the source was found."""
        base = members(rollout.meta.get("history_base"))
        named = text(base.get("thread_id")) or text(rollout.meta.get("forked_from_id"))
        source = self._by_rollout.get(named)
        if source is None or source is rollout or source.is_document:
            return None
        key = next(key for key, one in self._rollouts.items() if one is source)
        end = base.get("end_ordinal_exclusive")
        shared = _turns(source) & _turns(rollout)
        if not isinstance(end, int) and not shared:
            return None
        behind = _last_event(
            source, self._parser(source, key)(), end if isinstance(end, int) else None, shared
        )
        return ForkPoint(session_id(TOOL, self._root(source, key)), behind) if behind else None


def _turns(rollout: Rollout) -> set[str]:
    """Return the turns in a rollout."""
    if not rollout.turns:
        # The empty turn marks a file that was read: one without turns is not read again for each of its
        # forks.
        rollout.turns = {""}
        with open_maybe_compressed(rollout.path) as file:
            for record in LineReader().read(file, ending=True):
                payload = members(members(record.value).get("payload"))
                if payload.get("type") in ("task_started", "turn_started"):
                    rollout.turns.add(text(payload.get("turn_id")))
    return rollout.turns - {""}


def _last_event(rollout: Rollout, parser: CodexParser, end: int | None, shared: set[str]) -> str | None:
    """Return the id of the last event before an ordinal, or of the last turn that both have."""
    last = None
    with open_maybe_compressed(rollout.path) as file:
        for record in LineReader().read(file, ending=True):
            ordinal = members(record.value).get("ordinal")
            if end is not None and isinstance(ordinal, int) and ordinal >= end:
                return last
            events = parser.feed(record)
            if events and (end is not None or parser.turn in shared):
                last = events[-1]["id"]
    events = parser.finish(settled=True)
    return events[-1]["id"] if events and end is not None else last


def _check(path: Path) -> None:
    line_format.check(path, "records of Codex", _is_record)


def _is_record(value: dict[str, Any]) -> bool:
    return line_format.is_typed(value) or "record_type" in value or "instructions" in value


def _document(rollout: Rollout) -> Callable[[SessionMetadata, Tally], Iterator[Event]]:
    def produce(about: SessionMetadata, tally: Tally) -> Iterator[Event]:
        if rollout.path.stat().st_size > DOCUMENT_BYTES_MAX:
            tally.skipped["document too large"] += 1
            return
        try:
            document = members(parse_document(rollout.path.read_bytes()))
        except ValueError:
            tally.skipped["document is not JSON, or half written"] += 1
            return
        if document.keys().isdisjoint(("session", "items")):
            raise SourceError(f"{rollout.path} holds no rollout of Codex.")
        parser = CodexParser(rollout.thread, rollout.name, about=about, tally=tally)
        for number, value in enumerate([members(document.get("session")), *objects(document.get("items"))]):
            yield from parser.feed(SourceRecord(number, 0, value))
        yield from parser.finish(settled=True)

    return produce
