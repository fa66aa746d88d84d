"""The records of a Codex rollout, of every generation, as events.

The events of a record depend on the records before it. Some are held back for a next record that may contain
the same text in a better form, or make it a summary. A file that has grown gives the same events and more.
"""

from collections.abc import Callable, Collection
from typing import Any

from durable_sessions.importers.codex.calls import CALLS, OUTPUTS, CodexCalls
from durable_sessions.importers.codex.context import TOOL, CodexContext, CurrentCodexRecord
from durable_sessions.importers.codex.messages import Words
from durable_sessions.importers.codex.tokens import Tokens
from durable_sessions.importers.codex.turns import CodexTurns
from durable_sessions.importers.events import (
    Event,
    EventMaker,
    SessionMetadata,
    first_text,
    instant,
    members,
    text,
)
from durable_sessions.importers.lines import SourceRecord
from durable_sessions.importers.record_parser import RecordParser
from durable_sessions.importers.tally import Tally


class CodexParser(RecordParser):
    """Makes events of the records of one rollout; those of a subagent belong to its thread."""

    def __init__(
        self,
        thread: str,
        file: str,
        *,
        is_subagent: bool = False,
        parent_turns: Collection[str] = (),
        about: SessionMetadata | None = None,
        tally: Tally | None = None,
    ) -> None:
        super().__init__(EventMaker(TOOL, thread, file), about or SessionMetadata(), tally or Tally())
        self.about.note(tool=TOOL)
        self._context = CodexContext(self._make, self.about, self.tally, thread if is_subagent else None)
        self._words = Words(self._context)
        self._calls = CodexCalls(self._context, self._words)
        self._turns = CodexTurns(self._context, self._words)
        self._tokens = Tokens(self._context, self._words)
        self._parent_turns = frozenset(parent_turns)
        self._is_copy = False
        self._number = 0
        self._keys: set[str] = set()
        self._happened = self._handlers()

    def _handlers(self) -> dict[str, Callable[[CurrentCodexRecord], list[Event]]]:
        words, turns = self._words, self._turns
        return {
            "user_message": words.user_message,
            "agent_message": words.agent_message,
            "agent_reasoning": words.agent_reasoning,
            "agent_reasoning_raw_content": words.raw_reasoning,
            "item_completed": self._item_completed,
            "token_count": self._tokens.count,
            "task_started": turns.started,
            "turn_started": turns.started,
            "task_complete": turns.completed,
            "turn_complete": turns.completed,
            "turn_aborted": turns.aborted,
            "error": turns.error,
            "thread_rolled_back": turns.rolled_back,
            "thread_name_updated": turns.settings,
            "thread_settings_applied": turns.settings,
            "sub_agent_activity": self._calls.activity,
            "image_generation_end": self._calls.generated,
        }

    @property
    def turn(self) -> str | None:
        """The turn that was begun last."""
        return self._turns.current

    def feed(self, record: SourceRecord) -> list[Event]:
        """Return the events of the next record."""
        self._number += 1
        return super().feed(record)

    def _take_damaged(self, record: SourceRecord) -> list[Event]:
        return [*self._words.flush(), self._damaged(record, record.place, self._context.thread)]

    def _take(self, record: SourceRecord, value: dict[str, Any]) -> list[Event]:
        now = self._now(record, value)
        if self._was_copied(now):
            self._tokens.follow(now.payload)
            return self._context.merge("copied from the session that this is a fork of")
        is_first_of_subagent = self._number == 1 and self._context.thread is not None
        events = [self._turns.thread_created(now)] if is_first_of_subagent else []
        return events + self._record(now)

    def finish(self, *, settled: bool) -> list[Event]:
        """Return the events that were held back for a next record."""
        return self._words.flush() + self._words.flush_thoughts() if settled else []

    @property
    def is_waiting(self) -> bool:
        """Whether events are held back that the next record may repeat in a better form."""
        return self._words.are_waiting

    def _now(self, record: SourceRecord, value: dict[str, Any]) -> CurrentCodexRecord:
        """Return the current record, identified by its own id if it has one, otherwise by its place."""
        payload = members(value.get("payload")) if "payload" in value else value
        name = first_text((payload.get("call_id"), payload.get("response_id"), payload.get("id")))
        kind = text(payload.get("type")) or text(value.get("type"))
        # A record's own id survives a rewritten file. It may occur twice, and then the place has to tell them
        # apart.
        key = f"{kind} {name}" if name and kind else record.place
        if key in self._keys or kind in ("session_meta", "turn_context"):
            key = f"{kind} {record.place}"
        elif name and kind:
            self._keys.add(key)
        at = instant(value.get("timestamp")) if "payload" in value else None
        return CurrentCodexRecord(record, value, payload, key, at)

    def _was_copied(self, now: CurrentCodexRecord) -> bool:
        """Say whether a record is the parent's: after its own head, a fork has a copy of its parent."""
        if self._number == 2 and self._parent_turns and now.value.get("type") == "session_meta":
            self._is_copy = True
        starts = now.payload.get("type") in ("task_started", "turn_started")
        if starts and text(now.payload.get("turn_id")) not in self._parent_turns:
            self._is_copy = False
        return self._is_copy

    def _record(self, now: CurrentCodexRecord) -> list[Event]:
        kind = text(now.value.get("type"))
        events = [] if _is_reasoning(now) else self._words.flush_item()
        if kind == "compacted":
            return events + self._turns.compacted(now)
        if self._words.holds_answer and _is_bookkeeping(now):
            self._words.put_behind_answer(events + self._content(now, kind))
            return []
        return events + self._words.flush_answer() + self._content(now, kind)

    def _content(self, now: CurrentCodexRecord, kind: str) -> list[Event]:
        if "payload" not in now.value:
            return self._bare(now)
        if kind == "response_item":
            return self._item(now)
        if kind == "event_msg":
            return self._event(now)
        if kind == "session_meta":
            return self._turns.session_meta(now)
        if kind == "turn_context":
            return self._turns.turn_context(now)
        if kind == "token_usage_record":
            return self._tokens.record(now)
        if kind == "world_state":
            return [
                self._context.event("system.message", now, injected=True, content=[], source_record=now.value)
            ]
        return self._context.keep(now, kind or "no type")

    def _bare(self, now: CurrentCodexRecord) -> list[Event]:
        """Map a record of the generation without envelopes."""
        if "record_type" in now.value:
            if len(now.value) > 1:
                return self._context.keep(now, "state")
            return self._context.skip("state marker without content")
        if "type" not in now.value and "id" in now.value:
            return self._turns.session_meta(now)
        return self._item(now)

    def _item(self, now: CurrentCodexRecord) -> list[Event]:
        kind = text(now.payload.get("type"))
        if kind == "message":
            return self._words.message(now)
        if kind == "reasoning":
            return self._words.reasoning(now)
        if kind == "agent_message":
            return self._words.from_agent(now)
        if kind in CALLS:
            return self._calls.call(now, kind)
        if kind in OUTPUTS:
            return self._calls.output(now)
        return self._context.keep(now, f"response item {kind}".strip())

    def _event(self, now: CurrentCodexRecord) -> list[Event]:
        kind = text(now.payload.get("type"))
        if handler := self._happened.get(kind):
            return handler(now)
        call = self._calls.event_of(now.payload.get("call_id"))
        return self._context.keep(now, f"event {kind}".strip(), tool_use_id=call)

    def _item_completed(self, now: CurrentCodexRecord) -> list[Event]:
        item = members(now.payload.get("item"))
        events = self._words.turn_item(now, item)
        return self._calls.turn_item(now, item) if events is None else events


_BOOKKEEPING = ("token_count", "context_compacted", "thread_settings_applied")
_REASONING = ("reasoning", "agent_reasoning", "agent_reasoning_raw_content")


def _is_bookkeeping(now: CurrentCodexRecord) -> bool:
    """Say whether a record may stand between a summary and the compaction that it is made for."""
    if now.value.get("type") in ("token_usage_record", "world_state", "turn_context"):
        return True
    item = members(now.payload.get("item"))
    return now.payload.get("type") in _BOOKKEEPING or item.get("type") == "ContextCompaction"


def _is_reasoning(now: CurrentCodexRecord) -> bool:
    return (
        now.payload.get("type") in _REASONING or members(now.payload.get("item")).get("type") == "Reasoning"
    )
