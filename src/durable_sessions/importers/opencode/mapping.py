"""An OpenCode session as events: its head, its messages, and what is known of it at the end."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from durable_sessions.importers.events import Event, EventMaker, SessionMetadata, members, text, without
from durable_sessions.importers.opencode.assistant import assistant
from durable_sessions.importers.opencode.context import Message, OpenCodeContext
from durable_sessions.importers.opencode.user import user
from durable_sessions.importers.tally import WAITS, Tally

TOOL = "opencode"
QUIET_MS = 10 * 60 * 1000
"""A message without an end is taken as it is once its session has not changed for so long."""
# Left out of the first event, which must be the same in every import of a session that grows.
_CHANGING = ("time", "summary", "revert", "cost", "tokens_input", "tokens_output", "tokens_reasoning")


class OpenCodeMapping:
    """Maps the messages of one session to events; a child session is a thread of its parent."""

    def __init__(
        self,
        info: dict[str, Any],
        extras: dict[str, Any],
        make: EventMaker,
        about: SessionMetadata,
        tally: Tally,
        *,
        is_child: bool,
        now_ms: int,
    ) -> None:
        thread = text(info.get("id")) if is_child else None
        self._context = OpenCodeContext(info, make, about, tally, thread)
        self._info = info
        self._extras = extras
        self._now_ms = now_ms
        make.version = text(info.get("version")) or None

    def events(self, messages: Iterable[Message]) -> Iterator[Event]:
        """Yield the events of a session up to the first message that is still being written."""
        yield from self._head()
        for message, parts in messages:
            self._context.tally.records += 1 + len(parts)
            if self._is_unfinished(message):
                self._context.tally.notes[f"message still being written, {WAITS}"] += 1
                return
            if message.get("role") == "user":
                yield from user(self._context, message, parts)
            else:
                yield from assistant(self._context, message, parts)
        if self._context.compacting is not None:
            yield self._context.compacting
        yield from self._tail()

    def _is_unfinished(self, message: dict[str, Any]) -> bool:
        time = members(message.get("time"))
        if message.get("role") != "assistant" or "completed" in time or message.get("error"):
            return False
        updated = members(self._info.get("time")).get("updated", time.get("created"))
        return isinstance(updated, int | float) and self._now_ms - updated < QUIET_MS

    def _head(self) -> Iterator[Event]:
        info, key = self._info, text(self._info.get("id"))
        created = members(info.get("time")).get("created")
        title = text(info.get("title"))
        if self._context.thread is not None:
            yield self._context.event(
                "session.thread_created",
                key,
                "thread",
                created,
                agent_name=text(info.get("agent")) or title or "subagent",
                source_detail=without(info, *_CHANGING),
            )
            return
        self._context.about.note(tool=TOOL, cwd=info.get("directory"), source_version=info.get("version"))
        share = info.get("share_url") or members(info.get("share")).get("url")
        self._context.about.note(share=share, slug=info.get("slug"), agent=info.get("agent"))
        self._context.about.name(title)
        yield self._context.event(
            "session.updated",
            key,
            f"title {_digest(title)}",
            created,
            title=title,
            source_record=without(info, *_CHANGING),
        )

    def _tail(self) -> Iterator[Event]:
        key = text(self._info.get("id"))
        revert = members(self._info.get("revert"))
        if revert:
            yield self._context.event(
                "session.reverted",
                key,
                f"revert {text(revert.get('messageID'))} {text(revert.get('partID'))}",
                members(self._info.get("time")).get("updated"),
                message_record_id=revert.get("messageID"),
                part_record_id=revert.get("partID"),
                source_record=revert,
            )
        for name, value in self._extras.items():
            if value:
                yield self._context.keep(f"{name} {_digest(value)}", name, value)


def _digest(value: object) -> str:
    return blake2b(msgspec.json.encode(value), digest_size=8).hexdigest()
