"""The records of a Claude Code session file, one after another, as events.

The events of a record depend only on the records before it: a file that has grown gives the same events and
more.
"""

from collections.abc import Callable, Mapping
from typing import Any

from durable_sessions.importers.claude_code import assistant, other_records, user
from durable_sessions.importers.claude_code.context import (
    TOOL,
    ClaudeContext,
    CurrentClaudeRecord,
    flush_boundary,
)
from durable_sessions.importers.claude_code.thread import ClaudeThread
from durable_sessions.importers.claude_code.tree import RecordTree
from durable_sessions.importers.events import Event, EventMaker, instant, text
from durable_sessions.importers.lines import SourceRecord
from durable_sessions.importers.record_parser import RecordParser

_Handler = Callable[[ClaudeContext, RecordTree, CurrentClaudeRecord], list[Event]]
_HANDLERS: dict[str, _Handler] = {
    "user": user.user,
    "assistant": assistant.assistant,
    "system": other_records.system,
    "attachment": other_records.attachment,
    "progress": other_records.progress,
    "saved_hook_context": other_records.saved_context,
    "custom-title": other_records.title,
    "ai-title": other_records.title,
    "summary": other_records.title,
    "cost-state": other_records.cost,
}


class ClaudeCodeParser(RecordParser):
    """Makes events of the records of one file: a session, or a subagent if ``agent`` names one."""

    def __init__(
        self,
        session: str,
        file: str,
        *,
        agent: str | None = None,
        agent_meta: Mapping[str, Any] | None = None,
        agents_by_call: Mapping[str, str] | None = None,
    ) -> None:
        self._context = ClaudeContext(EventMaker(TOOL, "", file))
        super().__init__(self._context.make, self._context.about, self._context.tally)
        self._tree = RecordTree(self._context, session, agent, agent_meta or {}, agents_by_call or {})

    def _take(self, record: SourceRecord, value: dict[str, Any]) -> list[Event]:
        if isinstance(version := value.get("version"), str):
            self._make.version = version
        key = self._tree.key(record)
        if key is None:
            self.tally.merged["repeated record"] += 1
            return []
        self._note(value)
        at = instant(value.get("timestamp"))
        return self._events(CurrentClaudeRecord(value, key, record.line, at, self._tree.main))

    def _take_damaged(self, record: SourceRecord) -> list[Event]:
        return [self._damaged(record, self._tree.place_of(record), self._tree.main.id)]

    def finish(self, *, settled: bool) -> list[Event]:
        """Return the events that were held back for a next record."""
        events: list[Event] = []
        for thread in self._threads():
            if settled:
                events += flush_boundary(thread)
            if thread.request is not None and (settled or thread.request.is_complete):
                events += thread.close_request(self._make)
        return events

    @property
    def is_waiting(self) -> bool:
        """Whether a compaction may still get its summary, or an answer more blocks."""
        return any(thread.boundary or thread.request for thread in self._threads())

    def _threads(self) -> list[ClaudeThread]:
        return [self._tree.main, *self._tree.sidechains.values()]

    def _events(self, now: CurrentClaudeRecord) -> list[Event]:
        kind = text(now.value.get("type"))
        handler = _HANDLERS.get(kind)
        speaks = kind in ("user", "assistant")
        if handler is None or (speaks and not isinstance(now.value.get("message"), dict)):
            return [self._context.keep(now, kind or "no type")]
        return handler(self._context, self._tree, now)

    def _note(self, value: dict[str, Any]) -> None:
        note = self.about.note
        note(cwd=value.get("cwd"), git_branch=value.get("gitBranch"), source_version=value.get("version"))
        note(entrypoint=value.get("entrypoint"))
