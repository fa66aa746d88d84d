"""What the parts of the parser share: the maker of events, and the record at hand."""

from dataclasses import dataclass, field
from typing import Any

from durable_sessions.importers.claude_code.thread import ClaudeThread
from durable_sessions.importers.events import Event, Maker, SessionMetadata, members, without
from durable_sessions.importers.tally import Tally

TOOL = "claude-code"


@dataclass(slots=True)
class CurrentClaudeRecord:
    """The record at hand: what it says, its name, where and when it is, and the thread that it belongs to."""

    value: dict[str, Any]
    key: str
    line: int
    at: str | None
    thread: ClaudeThread

    @property
    def message(self) -> dict[str, Any]:
        """The message of a user or an assistant."""
        return members(self.value.get("message"))


@dataclass(slots=True)
class ClaudeContext:
    """Makes events of the record at hand, and counts what becomes of it."""

    make: Maker
    about: SessionMetadata = field(default_factory=lambda: SessionMetadata(metadata={"tool": TOOL}))
    tally: Tally = field(default_factory=Tally)

    def event(self, kind: str, now: CurrentClaudeRecord, block: str = "", /, **more: Any) -> Event:
        """Return an event of the record."""
        thread = now.thread
        return self.make.make(
            kind, now.key, block, at=now.at, line=now.line, thread=thread.id, branch=thread.branch, **more
        )

    def keep(self, now: CurrentClaudeRecord, reason: str, **more: Any) -> Event:
        """Return the record itself, because it has no event of its own."""
        self.tally.kept[reason] += 1
        return self.event("import.record", now, **more, source_record=now.value)


def add_detail(events: list[Event], now: CurrentClaudeRecord) -> None:
    """Keep what the record holds besides its blocks, in the first event that is made of it."""
    for event in events:
        if event["type"] != "span.model_request_end" and "source_record" not in event:
            rest = without(now.value, "message", "uuid", "timestamp")
            if slim := without(now.message, "content"):
                rest["message"] = slim
            event["source_detail"] = rest
            return


def flush_boundary(thread: ClaudeThread) -> list[Event]:
    """Return a compaction whose summary did not follow."""
    boundary, thread.boundary = thread.boundary, None
    return [] if boundary is None else [boundary]
