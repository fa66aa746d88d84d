"""State that the parts of the parser share: the event maker, and what is known of the session."""

from dataclasses import dataclass
from typing import Any

from durable_sessions.importers.events import (
    Event,
    EventMaker,
    SessionMetadata,
    instant,
    media_block,
    text,
)
from durable_sessions.importers.tally import Tally

Fields = dict[str, Any]
"""A message, a part of one, or a session, as OpenCode has stored it."""
Message = tuple[Fields, list[Fields]]
"""A message and its parts."""


@dataclass(slots=True)
class OpenCodeContext:
    """Makes the events of one session, and counts the outcome.

    ``thread`` is the id of a child session, which is a thread of its parent. ``compacting`` is a compaction
    that was announced, until its summary is found.
    """

    info: Fields
    make: EventMaker
    about: SessionMetadata
    tally: Tally
    thread: str | None
    compacting: Event | None = None

    def event(self, kind: str, record: str, block: str = "", at: object = None, /, **more: object) -> Event:
        """Return an event that was made from a record, or from a block of it."""
        return self.make.make(kind, record, block, at=instant(at), thread=self.thread, **more)  # type: ignore[arg-type]

    def keep(self, record: str, reason: str, value: object, at: object = None) -> Event:
        """Return a record itself as an event, because no other type fits."""
        self.tally.kept[reason] += 1
        return self.event("import.record", record, "", at, kind=reason, source_record=value)


def file_block(part: Fields) -> Event:
    """Return a file that a user or a tool has attached."""
    block = media_block(text(part.get("url")), text(part.get("mime")))
    if name := text(part.get("filename")):
        block["title"] = name
    return block
