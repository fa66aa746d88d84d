"""Messages. The same text comes as a response item, an event and a turn item, in any order: one event."""

from typing import Any

from durable_sessions.importers.codex.context import CodexContext, CurrentCodexRecord
from durable_sessions.importers.codex.duplicates import Duplicates
from durable_sessions.importers.codex.outputs import content, is_picture, picture
from durable_sessions.importers.codex.reasoning import Reasoning
from durable_sessions.importers.events import (
    Event,
    blocks,
    items,
    plain_text,
    text,
    text_block,
    without,
)

_INJECTED = (
    "<environment_context>",
    "<ENVIRONMENT_CONTEXT>",
    "<user_instructions>",
    "<INSTRUCTIONS>",
    "# AGENTS.md instructions",
    "<permissions instructions>",
    "<turn_aborted>",
    "<skills_instructions>",
    "<skill>",
    "<collaboration_mode>",
    "<personality_spec>",
    "<model_switch>",
    "<apps_instructions>",
    "<plugins_instructions>",
    "<user_shell_command>",
    "<user_action>",
    "<recommended_plugins>",
)
_IDE_REQUEST = "## My request for Codex:"
_NOTIFICATION = "<subagent_notification>"
_BLANK = "blank text"
_PROMPT_TWICE = "prompt as response item and as event"
_ANSWER_TWICE = "answer as response item and as event"


class Words:
    """Maps messages and reasoning; what the next records may repeat is held back until they are read."""

    def __init__(self, context: CodexContext) -> None:
        self._context = context
        self._duplicates = Duplicates()
        self._prompt: tuple[CurrentCodexRecord, list[Event]] | None = None
        self._prompts_told = 0
        self._last_prompt: Event = {}
        self._answer: Event | None = None
        self._behind_answer: list[Event] = []
        self._early: tuple[str, Event] | None = None
        self._reasoning = Reasoning(context)

    # Held back --------------------------------------------------------------------------

    @property
    def are_waiting(self) -> bool:
        """Whether anything is held back."""
        return bool(self._prompt or self._answer or self._early or self._reasoning.are_waiting)

    def flush(self) -> list[Event]:
        """Return everything that was held back: nothing more belongs to it."""
        return self.flush_prompt() + self.flush_early() + self.flush_answer()

    def end_turn(self) -> list[Event]:
        """Return what is held back at the end of a turn."""
        return self.flush_prompt() + self.flush_early() + self.flush_thoughts()

    def flush_prompt(self) -> list[Event]:
        """Return a prompt that came only as a response item: the model has begun to answer."""
        self._prompts_told = 0
        held, self._prompt = self._prompt, None
        return [] if held is None else self._prompted(*held)

    def flush_early(self) -> list[Event]:
        """Return an answer that came only as an event: its response item would have come by now."""
        held, self._early = self._early, None
        return [] if held is None else [held[1]]

    def flush_answer(self) -> list[Event]:
        """Return an answer that is no summary, because no compaction followed."""
        held, behind = self.take_answer()
        return [*([] if held is None else [held]), *behind]

    def take_answer(self) -> tuple[Event | None, list[Event]]:
        """Return the answer that may be a summary, and what came after it; neither is held back any more."""
        held, self._answer = self._answer, None
        behind, self._behind_answer = self._behind_answer, []
        return held, behind

    @property
    def holds_answer(self) -> bool:
        """Whether an answer is held back that becomes a summary if a compaction follows."""
        return self._answer is not None

    def put_behind_answer(self, events: list[Event]) -> None:
        """Hold back bookkeeping after the answer, to keep the order."""
        self._behind_answer += events

    def flush_item(self) -> list[Event]:
        """Return reasoning without readable text: the record that follows is not reasoning."""
        return self._reasoning.flush_item()

    def flush_thoughts(self) -> list[Event]:
        """Return reasoning that came only as events."""
        return self._reasoning.flush()

    # Response items ---------------------------------------------------------------------

    def message(self, now: CurrentCodexRecord) -> list[Event]:
        """Map a message to or from the model."""
        context, payload = self._context, now.payload
        role, said = text(payload.get("role")), content(payload.get("content"))
        words = plain_text(said)
        rest = without(now.value, "payload", "timestamp") if "payload" in now.value else {}
        detail = {**rest, "payload": without(payload, "content")}
        if role == "assistant":
            return self.flush_prompt() + self._answered(now, words, said, detail)
        if role == "user" and words.lstrip().startswith(_NOTIFICATION):
            kind = "agent.thread_message_received"
            return [context.event(kind, now, notification=True, content=said, source_detail=detail)]
        if role != "user" or words.lstrip().startswith(_INJECTED) or self._is_viewed(said):
            return [
                context.event(
                    "system.message", now, injected=True, role=role, content=said, source_detail=detail
                )
            ]
        if self._prompts_told:
            self._prompts_told -= 1
            context.merge(_PROMPT_TWICE)
            return self._pictures_of_last(now, said)
        events = self.flush_prompt()
        self._prompt = (now, said)
        return events if "payload" in now.value else events + self.flush_prompt()

    def _is_viewed(self, said: list[Event]) -> bool:
        """Say whether this is a picture that a tool opened, which some versions record as the user's."""
        return self._context.has_viewed_image and bool(said) and all(map(is_picture, said))

    def _answered(
        self, now: CurrentCodexRecord, words: str, said: list[Event], detail: dict[str, Any]
    ) -> list[Event]:
        context, early = self._context, self._early
        if not words.strip() and all(block.get("type") == "text" for block in said):
            return context.skip(_BLANK)
        if not self._duplicates.is_new("item", words):
            context.merge(_ANSWER_TWICE)
            if early is None or early[0] != words:
                return []
            self._early = None  # the event came early; the item has the right place
        phase = text(now.payload.get("phase")) or None
        event = context.event("agent.message", now, content=said, phase=phase, source_detail=detail)
        if not context.is_paginated:
            return [event]
        self._answer = event
        return []

    def reasoning(self, now: CurrentCodexRecord) -> list[Event]:
        """Map a reasoning item."""
        return self.flush_prompt() + self._reasoning.item(now)

    def from_agent(self, now: CurrentCodexRecord) -> list[Event]:
        """Map a message from one agent to another."""
        payload = now.payload
        return [
            *self.flush_prompt(),
            self._context.event(
                "agent.thread_message_received",
                now,
                inter_agent=True,
                from_agent_name=payload.get("author"),
                to_agent_name=payload.get("recipient"),
                content=content(payload.get("content")),
                source_detail=without(payload, "content"),
            ),
        ]

    # Events -----------------------------------------------------------------------------

    def user_message(self, now: CurrentCodexRecord) -> list[Event]:
        """Map a prompt from its event."""
        if self._context.is_paginated:
            return self._context.merge("prompt as event and as turn item")
        payload = now.payload
        said = blocks(payload.get("message"))
        said += [picture(one) for one in items(payload.get("images"))]
        local = [one for one in items(payload.get("local_images")) if isinstance(one, str)]
        detail = without(payload, "message", "images")
        return self._prompted_twice(now, said, local_images=local or None, source_detail=detail)

    def _prompted_twice(self, now: CurrentCodexRecord, said: list[Event], **more: Any) -> list[Event]:
        if self._prompt is not None:
            _, item = self._prompt
            said = _with_pictures(said, item)
            self._prompt = None
            self._context.merge(_PROMPT_TWICE)
        else:
            self._prompts_told += 1
        events = self._prompted(now, said, **more)
        self._last_prompt = events[-1]
        return events

    def _pictures_of_last(self, now: CurrentCodexRecord, said: list[Event]) -> list[Event]:
        """Return the pictures of a prompt that came before without them."""
        shown = self._last_prompt.get("content", [])
        pictures = [block for block in said if is_picture(block) and block not in shown]
        if not pictures:
            return []
        self._context.tally.kept["picture of a prompt"] += 1
        prompt = self._last_prompt.get("id")
        return [
            self._context.event(
                "import.record", now, kind="picture", prompt_event_id=prompt, content=pictures
            )
        ]

    def _prompted(self, now: CurrentCodexRecord, said: list[Event], **more: Any) -> list[Event]:
        self._duplicates.forget()
        events, context = self.flush_early() + self.flush_thoughts(), self._context
        self._reasoning.forget()
        context.has_viewed_image = False
        if context.thread is not None:
            return [*events, context.event("agent.thread_message_received", now, content=said, **more)]
        context.about.suggest(plain_text(said).rpartition(_IDE_REQUEST)[2])
        return [*events, context.event("user.message", now, content=said, **more)]

    def agent_message(self, now: CurrentCodexRecord) -> list[Event]:
        """Map an answer from its event; some versions write it before the items that precede it."""
        words = text(now.payload.get("message"))
        if not words.strip():
            return self._context.skip(_BLANK)
        events = self.flush_prompt() + self.flush_early()
        if not self._duplicates.is_new("event", words):
            return events + self._context.merge(_ANSWER_TWICE)
        event = self._context.event(
            "agent.message",
            now,
            content=[text_block(words)],
            phase=text(now.payload.get("phase")) or None,
            source_detail=without(now.payload, "message"),
        )
        self._early = (words, event)
        return events

    def agent_reasoning(self, now: CurrentCodexRecord) -> list[Event]:
        """Map a summary of reasoning from its event."""
        return self.flush_prompt() + self._reasoning.tell(now, [text(now.payload.get("text"))], [])

    def raw_reasoning(self, now: CurrentCodexRecord) -> list[Event]:
        """Map raw reasoning from its event."""
        return self.flush_prompt() + self._reasoning.tell(now, [], [text(now.payload.get("text"))])

    def last_words(self, now: CurrentCodexRecord) -> list[Event]:
        """Return the last answer of a turn if it did not come otherwise."""
        last = text(now.payload.get("last_agent_message"))
        if not last.strip() or not self._duplicates.is_new("last", last):
            return []
        return [self._context.event("agent.message", now, "last", content=[text_block(last)])]

    # Turn items -------------------------------------------------------------------------

    def turn_item(self, now: CurrentCodexRecord, item: dict[str, Any]) -> list[Event] | None:
        """Map a turn item if it is a message or reasoning; None if it is something else."""
        kind, said = item.get("type"), content(item.get("content"))
        if kind == "UserMessage":
            if not self._context.is_paginated:
                return self._context.merge("prompt as event and as turn item")
            return self._prompted_twice(now, said, source_detail=without(now.payload, "item"))
        if kind == "AgentMessage":
            return self._agent_item(now, item, said)
        if kind == "Reasoning":
            summary, raw = (
                [text(one) for one in items(item.get(n))] for n in ("summary_text", "raw_content")
            )
            return self.flush_prompt() + self._reasoning.tell(now, summary, raw)
        return None

    def _agent_item(self, now: CurrentCodexRecord, item: dict[str, Any], said: list[Event]) -> list[Event]:
        words = plain_text(said)
        if not words.strip():
            return self._context.skip(_BLANK)
        events = self.flush_prompt()
        if not self._duplicates.is_new("turn item", words):
            return events + self._context.merge("answer as response item and as turn item")
        detail = {**without(now.payload, "item"), "item": without(item, "content")}
        phase = text(item.get("phase")) or None
        return [
            *events,
            self._context.event("agent.message", now, content=said, phase=phase, source_detail=detail),
        ]


def _with_pictures(said: list[Event], item: list[Event]) -> list[Event]:
    """Return a prompt with the pictures of its response item; the event may have only their paths."""
    pictures = [block for block in item if is_picture(block) and block not in said]
    if not pictures:
        return said
    return [block for block in said if block.get("type") not in ("local_image", "localImage")] + pictures
