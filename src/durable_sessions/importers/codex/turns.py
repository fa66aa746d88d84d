"""The session and its turns: how they began, what they ran with, and how they ended."""

from typing import Any

from durable_sessions.importers.codex.context import CodexContext, CurrentCodexRecord
from durable_sessions.importers.codex.messages import Words
from durable_sessions.importers.events import (
    Event,
    failure,
    first_text,
    instant,
    members,
    plain_text,
    text,
    text_block,
    without,
)


class CodexTurns:
    """Maps the records that frame the conversation."""

    def __init__(self, context: CodexContext, words: Words) -> None:
        self.current: str | None = None
        self._context = context
        self._words = words
        self._settings: dict[str, Any] = {}

    def thread_created(self, now: CurrentCodexRecord) -> Event:
        """Return the beginning of a subagent."""
        payload = now.payload
        spawn = members(members(members(payload.get("source")).get("subagent")).get("thread_spawn"))
        name = first_text(
            (payload.get("agent_nickname"), spawn.get("agent_nickname"), spawn.get("agent_path"), "subagent")
        )
        parent = first_text((payload.get("parent_thread_id"), spawn.get("parent_thread_id"))) or None
        return self._context.event(
            "session.thread_created", now, "thread", agent_name=name, parent_source_thread_id=parent
        )

    def session_meta(self, now: CurrentCodexRecord) -> list[Event]:
        """Map the session's metadata in the first record."""
        context, payload = self._context, now.payload
        if isinstance(version := payload.get("cli_version"), str):
            context.make.version = version
        now.at = now.at or instant(payload.get("timestamp"))
        context.is_paginated = payload.get("history_mode") == "paginated"
        git, note = members(payload.get("git")), context.about.note
        note(cwd=payload.get("cwd"), git_branch=git.get("branch"), git_commit=git.get("commit_hash"))
        note(source_version=payload.get("cli_version"), originator=payload.get("originator"))
        note(model_provider=payload.get("model_provider"), forked_from=payload.get("forked_from_id"))
        base = payload.get("base_instructions") or payload.get("instructions")
        words = text(members(base).get("text")) if isinstance(base, dict) else text(base)
        kept = without(payload, "base_instructions", "instructions")
        if isinstance(base, dict):
            kept["base_instructions"] = without(base, "text")
        events = [context.event("session.updated", now, "meta", source_record=kept)]
        if words:
            shown = [text_block(words)]
            events.append(context.event("system.message", now, "instructions", injected=True, content=shown))
        return events

    def turn_context(self, now: CurrentCodexRecord) -> list[Event]:
        """Map the settings of a turn, if they have changed."""
        self._context.about.note(model=now.payload.get("model"), cwd=now.payload.get("cwd"))
        settings = without(now.payload, "turn_id", "root_turn_id")
        if settings == self._settings:
            return self._context.merge("turn context that has not changed")
        self._settings = settings
        return [self._context.event("session.updated", now, source_record=now.value)]

    def settings(self, now: CurrentCodexRecord) -> list[Event]:
        """Map a name, or settings that were applied."""
        title = text(now.payload.get("thread_name")) or text(now.payload.get("name"))
        self._context.about.name(title)
        return [self._context.event("session.updated", now, title=title or None, source_record=now.value)]

    def started(self, now: CurrentCodexRecord) -> list[Event]:
        """Begin a turn."""
        self.current = text(now.payload.get("turn_id")) or None
        self._context.request_since = now.at
        return [self._context.event(self._status("running"), now, source_detail=now.payload)]

    def completed(self, now: CurrentCodexRecord) -> list[Event]:
        """End a turn, successfully or with an error."""
        events, error = self._words.end_turn(), now.payload.get("error")
        if error:
            message = text(members(error).get("message")) or text(error) or "The turn failed."
            events.append(self._failed(now, message, error))
        events += self._words.last_words(now)
        return [*events, self._idle(now, "end_turn", without(now.payload, "last_agent_message"))]

    def aborted(self, now: CurrentCodexRecord) -> list[Event]:
        """End a turn that was interrupted."""
        reason = text(now.payload.get("reason")) or "interrupted"
        interrupt = self._context.event("user.interrupt", now, reason=reason, source_detail=now.payload)
        return [*self._words.end_turn(), interrupt, self._idle(now, reason, None)]

    def error(self, now: CurrentCodexRecord) -> list[Event]:
        """Map an error that is not the end of a turn."""
        message = text(now.payload.get("message"))
        held = self._words.flush_prompt() + self._words.flush_early()
        return [*held, self._failed(now, message, now.payload)]

    def rolled_back(self, now: CurrentCodexRecord) -> list[Event]:
        """Map a rollback of turns: they stay in the log, and what follows is another branch."""
        context = self._context
        left, context.branch = context.branch, context.branch + 1
        context.about.metadata["active_branch"] = str(context.branch)
        context.tally.notes["branches"] += 1
        return [
            context.event(
                "session.branch_created",
                now,
                left_branch=left,
                turns_taken_back=now.payload.get("num_turns"),
                source_detail=now.payload,
            )
        ]

    def compacted(self, now: CurrentCodexRecord) -> list[Event]:
        """Map a compaction; an answer before it that no turn item repeats is its summary."""
        summary, (held, behind) = text(now.payload.get("message")), self._words.take_answer()
        if held is not None:
            self._context.merge("summary into its compaction")
            summary = summary or plain_text(held["content"])
        return [
            *self._words.flush_prompt(),
            *self._words.flush_early(),
            *behind,
            self._context.event(
                "agent.thread_context_compacted",
                now,
                summary=summary or None,
                source_detail=without(now.payload, "message"),
            ),
        ]

    def _status(self, status: str) -> str:
        return (
            f"session.status_{status}" if self._context.thread is None else f"session.thread_status_{status}"
        )

    def _idle(self, now: CurrentCodexRecord, reason: str, detail: object) -> Event:
        stop = {"type": reason}
        return self._context.event(self._status("idle"), now, "idle", stop_reason=stop, source_detail=detail)

    def _failed(self, now: CurrentCodexRecord, message: str, detail: object) -> Event:
        return self._context.event(
            "session.error", now, "error", error=failure(message), source_detail=detail
        )
