"""State that the parts of the parser share: the event maker, and the current record."""

from dataclasses import dataclass, field
from typing import Any

from durable_sessions.importers.claude_code.thread import ClaudeThread
from durable_sessions.importers.events import Event, EventMaker, SessionMetadata, members, without
from durable_sessions.importers.tally import Tally

TOOL = "claude-code"


@dataclass(slots=True)
class CurrentClaudeRecord:
    """The current record: its content, id, place, time and thread."""

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
    """Makes events from the current record, and counts the outcome."""

    make: EventMaker
    about: SessionMetadata = field(default_factory=lambda: SessionMetadata(metadata={"tool": TOOL}))
    tally: Tally = field(default_factory=Tally)

    def event(self, kind: str, now: CurrentClaudeRecord, block: str = "", /, **more: Any) -> Event:
        """Return an event of the record."""
        thread = now.thread
        return self.make.make(
            kind, now.key, block, at=now.at, line=now.line, thread=thread.id, branch=thread.branch, **more
        )

    def keep(self, now: CurrentClaudeRecord, reason: str, **more: Any) -> Event:
        """Return the record itself as an event, because no other type fits."""
        self.tally.kept[reason] += 1
        return self.event("import.record", now, **more, source_record=now.value)


def add_detail(events: list[Event], now: CurrentClaudeRecord) -> None:
    """Keep the other members of the record in the first event that is made from it."""
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
