"""Reasoning. A response item, events and a turn item contain the same reasoning in any order: one event.

Summaries are always in the item. Raw reasoning is often left out of it, and then only in an event.
"""

from collections import deque
from dataclasses import dataclass, field

from durable_sessions.importers.codex.context import CodexContext, CurrentCodexRecord
from durable_sessions.importers.codex.outputs import content
from durable_sessions.importers.events import Event, text, text_block, without

ITEMS_REMEMBERED_MAX = 64
_TWICE = "reasoning as response item and as event"


@dataclass(slots=True)
class _EventReasoning:
    """Reasoning that no item has contained so far."""

    now: CurrentCodexRecord
    summary: list[str] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)

    def says(self, words: str) -> bool:
        return words in self.summary or words in self.raw


class Reasoning:
    """Maps reasoning; that of an event is held back for an item with more of it."""

    def __init__(self, context: CodexContext) -> None:
        self._context = context
        self._waiting: list[_EventReasoning] = []
        # Items of the turn, whose reasoning an event may repeat later.
        self._items: deque[str] = deque(maxlen=ITEMS_REMEMBERED_MAX)
        # An item of which only the encrypted part was written; its text may still come as an event.
        self._opaque: Event | None = None

    @property
    def are_waiting(self) -> bool:
        """Whether anything is held back."""
        return bool(self._waiting) or self._opaque is not None

    def forget(self) -> None:
        """Begin a new turn."""
        self._items.clear()

    def flush(self) -> list[Event]:
        """Return reasoning that came only as events."""
        held, self._waiting = self._waiting, []
        events = [
            self._context.event(
                "agent.thinking", one.now, content=[text_block(words) for words in (*one.summary, *one.raw)]
            )
            for one in held
        ]
        return self.flush_item() + events

    def flush_item(self) -> list[Event]:
        """Return an item without readable text: no raw reasoning has followed it."""
        held, self._opaque = self._opaque, None
        if held is not None:
            self._remember(held["content"])
        return [] if held is None else [held]

    def item(self, now: CurrentCodexRecord) -> list[Event]:
        """Map a reasoning item, which alone has the encrypted part."""
        events, payload = self.flush_item(), now.payload
        shown = content(payload.get("summary")) + content(payload.get("content"))
        shown = [block for block in shown if text(block.get("text"))]
        shown += self._take_raw("\n".join(text(block["text"]) for block in shown))
        event = self._context.event(
            "agent.thinking",
            now,
            content=shown,
            encrypted=True if payload.get("encrypted_content") else None,
            data=payload.get("encrypted_content"),
            source_detail=without(payload, "summary", "content", "encrypted_content"),
        )
        if not shown:
            self._opaque = event
            return events
        self._remember(shown)
        return [*events, event]

    def tell(self, now: CurrentCodexRecord, summary: list[str], raw: list[str]) -> list[Event]:
        """Map reasoning from an event or a turn item, in case that no item contains it."""
        new = _EventReasoning(now, self._unsaid(summary), self._unsaid(raw))
        if not (new.summary or new.raw):
            return self._context.merge(_TWICE) if summary or raw else []
        # Raw reasoning comes right behind the item from which it was left out.
        if self._opaque is not None and new.raw and not new.summary:
            self._opaque["content"] += [text_block(words) for words in new.raw]
            return self._context.merge(_TWICE)
        events = self.flush_item()
        last = self._waiting[-1] if self._waiting else None
        # Summary and raw reasoning of one thought are two events, in this order.
        if last is not None and new.raw and not new.summary and not last.raw:
            last.raw = new.raw
        else:
            self._waiting.append(new)
        return events

    def _unsaid(self, several: list[str]) -> list[str]:
        held = [] if self._opaque is None else [text(block.get("text")) for block in self._opaque["content"]]
        return [
            words
            for words in several
            if words.strip()
            and not any(words.strip() in said for said in (*self._items, *held))
            and not any(one.says(words) for one in self._waiting)
        ]

    def _take_raw(self, item_text: str) -> list[Event]:
        """Return the raw reasoning that belongs to an item, and drop what the item contains itself."""
        taken: list[Event] = []
        left: list[_EventReasoning] = []
        for one in self._waiting:
            # Its summary says something else than the item: it belongs to another item, which is still to
            # come.
            if any(words.strip() not in item_text for words in one.summary):
                left.append(one)
                continue
            self._context.merge(_TWICE)
            taken += [text_block(words) for words in one.raw if words.strip() not in item_text]
        self._waiting = left
        return taken

    def _remember(self, shown: list[Event]) -> None:
        self._items.append("\n".join(text(block.get("text")) for block in shown))
