"""State that the parts of the parser share: the event maker, the current record, the current turn."""

from dataclasses import dataclass
from typing import Any

from durable_sessions.importers.events import Event, EventMaker, SessionMetadata
from durable_sessions.importers.lines import SourceRecord
from durable_sessions.importers.tally import Tally

TOOL = "codex"


@dataclass(slots=True)
class CurrentCodexRecord:
    """The current record: its content, id and time."""

    record: SourceRecord
    value: dict[str, Any]
    payload: dict[str, Any]
    key: str
    at: str | None


@dataclass(slots=True)
class CodexContext:
    """Makes events from the current record, and counts the outcome."""

    make: EventMaker
    about: SessionMetadata
    tally: Tally
    thread: str | None
    branch: int = 0
    is_paginated: bool = False
    request_since: str | None = None
    has_viewed_image: bool = False

    def event(self, kind: str, now: CurrentCodexRecord, block: str = "", /, **more: Any) -> Event:
        """Return an event of the record."""
        return self.named(now.key, kind, now, block, **more)

    def named(self, key: str, kind: str, now: CurrentCodexRecord, block: str = "", /, **more: Any) -> Event:
        """Return an event of the record under another key than the record's own."""
        more.setdefault("at", now.at)
        return self.make.make(
            kind, key, block, line=now.record.line, thread=self.thread, branch=self.branch, **more
        )

    def keep(self, now: CurrentCodexRecord, reason: str, **more: Any) -> list[Event]:
        """Return the record itself as an event, because no other type fits."""
        self.tally.kept[reason] += 1
        return [self.event("import.record", now, **more, source_record=now.value)]

    def merge(self, reason: str) -> list[Event]:
        """Return nothing: the record repeats an earlier one."""
        self.tally.merged[reason] += 1
        return []

    def skip(self, reason: str) -> list[Event]:
        """Return nothing: the record is empty."""
        self.tally.skipped[reason] += 1
        return []
