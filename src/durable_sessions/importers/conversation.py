"""A conversation of any tool: makes the events that all of them have in common."""

from dataclasses import dataclass
from typing import Any

from durable_sessions.importers.events import (
    Event,
    EventMaker,
    SessionMetadata,
    arguments,
    blocks,
    failure,
    media_block,
    members,
    plain_text,
    text,
    text_block,
)
from durable_sessions.importers.tally import Tally


@dataclass(slots=True)
class _Call:
    event_id: str
    name: str
    result_id: str | None = None


class Conversation:
    """Makes the events of one conversation, and remembers calls until their results."""

    def __init__(
        self,
        make: EventMaker,
        about: SessionMetadata,
        tally: Tally,
        *,
        thread: str | None = None,
        branch: int = 0,
    ) -> None:
        self._make = make
        self.about = about
        self.tally = tally
        self.thread = thread
        self.branch = branch
        self.memory: dict[object, str] = {}
        # By the tool's own id of a call. Some tools use an id again: then the last call counts, as it is the
        # one that a result that follows can answer.
        self._calls: dict[str, _Call] = {}
        about.note(tool=make.tool)

    def event(
        self, kind: str, record: str, block: str = "", /, *, at: str | None = None, **more: Any
    ) -> Event:
        """Return an event of this conversation."""
        return self._make.make(kind, record, block, at=at, thread=self.thread, branch=self.branch, **more)

    def user(self, record: str, content: list[Event], /, *, at: str | None = None, **more: Any) -> Event:
        """Return a user's message; in a thread, the message of its parent."""
        if self.thread is not None:
            return self.event("agent.thread_message_received", record, "said", at=at, content=content, **more)
        self.about.suggest(plain_text(content))
        return self.event("user.message", record, "said", at=at, content=content, **more)

    def system(self, record: str, content: list[Event], /, *, at: str | None = None, **more: Any) -> Event:
        """Return text that a program put into the context."""
        return self.event("system.message", record, "said", at=at, injected=True, content=content, **more)

    def agent(
        self, record: str, block: str, content: list[Event], /, *, at: str | None = None, **more: Any
    ) -> list[Event]:
        """Return an answer, unless it is blank."""
        if not plain_text(content).strip() and all(one.get("type") == "text" for one in content):
            if content:
                self.tally.skipped["blank text"] += 1
            return []
        return [self.event("agent.message", record, block, at=at, content=content, **more)]

    def thinking(
        self, record: str, block: str, words: str, /, *, at: str | None = None, **more: Any
    ) -> Event:
        """Return reasoning; without text it is opaque."""
        return self.event(
            "agent.thinking",
            record,
            block,
            at=at,
            content=[text_block(words)] if words else [],
            encrypted=None if words else True,
            **more,
        )

    def call(
        self,
        record: str,
        block: str,
        call_id: str,
        name: str,
        given: object,
        /,
        *,
        at: str | None = None,
        **more: Any,
    ) -> Event:
        """Return a tool call, and remember it for its result."""
        event = self.event(
            "agent.tool_use",
            record,
            block,
            at=at,
            call_id=call_id or None,
            name=name,
            input=arguments(given),
            **more,
        )
        self._calls[call_id] = _Call(event["id"], name)
        return event

    def result(
        self,
        record: str,
        block: str,
        call_id: str,
        content: list[Event],
        /,
        *,
        is_error: bool = False,
        at: str | None = None,
        **more: Any,
    ) -> Event:
        """Return a tool's result, linked to its call; a second one supersedes the first."""
        call = self._calls.get(call_id)
        if call is None:
            self.tally.notes["results without a call"] += 1
        event = self.event(
            "agent.tool_result",
            record,
            block,
            at=at,
            call_id=call_id or None,
            tool_use_id=call.event_id if call else call_id,
            name=call.name if call else None,
            content=content,
            is_error=is_error,
            orphan=None if call else True,
            supersedes=call.result_id if call else None,
            **more,
        )
        if call is not None and call.result_id is None:
            call.result_id = event["id"]  # the first one: all later results supersede the same event
        return event

    def request(
        self,
        record: str,
        used: Event,
        raw: object,
        /,
        *,
        at: str | None = None,
        model: object = None,
        **more: Any,
    ) -> list[Event]:
        """Return the beginning and the end of a model request."""
        self.about.note(model=model)
        name = text(model) or None
        start = self.event("span.model_request_start", record, "start", at=at, model=name)
        end = self.event(
            "span.model_request_end",
            record,
            "end",
            at=at,
            model_request_start_id=start["id"],
            is_error=False,
            model=name,
            model_usage=used,
            source_usage=raw,
            **more,
        )
        return [start, end]

    def error(
        self, record: str, message: str, /, *, at: str | None = None, retrying: bool = False, **more: Any
    ) -> Event:
        """Return a failed request."""
        failed = failure(message, retrying=retrying)
        return self.event("session.error", record, "error", at=at, error=failed, **more)

    def keep(
        self, record: str, reason: str, value: object, /, *, at: str | None = None, **more: Any
    ) -> Event:
        """Return the record itself as an event, because no other type fits."""
        self.tally.kept[reason] += 1
        return self.event("import.record", record, "kept", at=at, kind=reason, source_record=value, **more)


def chat_content(content: object) -> list[Event]:
    """Return the content of a chat message as blocks: texts, images, and whatever else there is."""
    made: list[Event] = []
    for block in blocks(content):
        kind = block.get("type")
        if kind in ("input_text", "output_text", "summary_text") or (kind is None and "text" in block):
            made.append(text_block(text(block.get("text"))))
        elif kind in ("image_url", "input_image", "image") and (url := _image_url(block)):
            made.append(media_block(url))
        else:
            made.append(block)
    return made


def _image_url(block: dict[str, Any]) -> str:
    for name in ("image_url", "url", "image"):
        given = block.get(name)
        if isinstance(given, str):
            return given
        if url := text(members(given).get("url")):
            return url
    return ""
