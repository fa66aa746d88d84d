"""The messages and parts of an OpenCode session as events."""

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from durable_sessions.importers.events import (
    Event,
    Maker,
    SessionMetadata,
    count,
    failure,
    instant,
    media_block,
    members,
    objects,
    text,
    text_block,
    usage,
    without,
)
from durable_sessions.importers.tally import Tally

TOOL = "opencode"
QUIET_MS = 10 * 60 * 1000
Message = tuple[dict[str, Any], list[dict[str, Any]]]
_TASK_OUTPUT = re.compile(r"(?:task_id: |<task id=\")(ses_[A-Za-z0-9]{1,100})")
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_CHANGING = ("time", "summary", "revert", "cost", "tokens_input", "tokens_output", "tokens_reasoning")


class OpenCodeMapping:
    """Maps the messages of one session to events; a child session is a thread of its parent."""

    def __init__(
        self,
        info: dict[str, Any],
        extras: dict[str, Any],
        make: Maker,
        about: SessionMetadata,
        tally: Tally,
        *,
        is_child: bool,
        now_ms: int,
    ) -> None:
        self._info = info
        self._extras = extras
        self._make = make
        self._about = about
        self._tally = tally
        self._thread = text(info.get("id")) if is_child else None
        self._now_ms = now_ms
        self._compacting: Event | None = None
        make.version = text(info.get("version")) or None

    def events(self, messages: Iterable[Message]) -> Iterator[Event]:
        """Yield the events of a session up to the first message that is still being written."""
        yield from self._head()
        for message, parts in messages:
            self._tally.records += 1 + len(parts)
            if self._is_unfinished(message):
                self._tally.notes["message still being written, waits for its end"] += 1
                return
            if message.get("role") == "user":
                yield from self._user(message, parts)
            else:
                yield from self._assistant(message, parts)
        if self._compacting is not None:
            yield self._compacting
        yield from self._tail()

    def _is_unfinished(self, message: dict[str, Any]) -> bool:
        time = members(message.get("time"))
        if message.get("role") != "assistant" or "completed" in time or message.get("error"):
            return False
        updated = members(self._info.get("time")).get("updated", time.get("created"))
        return isinstance(updated, int | float) and self._now_ms - updated < QUIET_MS

    def _event(self, kind: str, record: str, block: str = "", at: object = None, /, **more: object) -> Event:
        return self._make.make(kind, record, block, at=instant(at), thread=self._thread, **more)  # type: ignore[arg-type]

    def _keep(self, record: str, reason: str, value: object, at: object = None) -> Event:
        self._tally.kept[reason] += 1
        return self._event("import.record", record, "", at, kind=reason, source_record=value)

    def _head(self) -> Iterator[Event]:
        info, key = self._info, text(self._info.get("id"))
        created = members(info.get("time")).get("created")
        title = text(info.get("title"))
        if self._thread is not None:
            yield self._event(
                "session.thread_created",
                key,
                "thread",
                created,
                agent_name=text(info.get("agent")) or title or "subagent",
                source_detail=without(info, *_CHANGING),
            )
            return
        self._about.note(tool=TOOL, cwd=info.get("directory"), source_version=info.get("version"))
        share = info.get("share_url") or members(info.get("share")).get("url")
        self._about.note(share=share, slug=info.get("slug"), agent=info.get("agent"))
        self._about.name(title)
        yield self._event(
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
            yield self._event(
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
                yield self._keep(f"{name} {_digest(value)}", name, value)

    # -- user -----------------------------------------------------------------------------------------------

    def _user(self, message: dict[str, Any], parts: list[dict[str, Any]]) -> Iterator[Event]:
        key, at = text(message.get("id")), members(message.get("time")).get("created")
        said: list[Event] = []
        kinds: list[dict[str, Any]] = []
        for part in parts:
            kind, record = part.get("type"), text(part.get("id"))
            if kind == "compaction":
                self._compacting = self._event(
                    "agent.thread_context_compacted",
                    record,
                    "",
                    at,
                    trigger="auto" if part.get("auto") else "manual",
                    source_detail={"message": message, "part": part},
                )
            elif kind == "text" and (part.get("synthetic") or part.get("ignored")):
                yield self._event(
                    "system.message",
                    record,
                    "",
                    at,
                    injected=True,
                    content=[text_block(text(part.get("text")))],
                    source_detail=without(part, "text"),
                )
            elif kind == "text":
                said.append(text_block(text(part.get("text"))))
            elif kind == "file":
                said.append(_file_block(part))
                kinds.append(without(part, "url"))
            elif kind in ("agent", "subtask"):
                said.append(text_block(_mention(part)))
                kinds.append(part)
            else:
                yield self._keep(record, f"part {text(kind)}", part, at)
        if said:
            detail = {"message": without(message, "id"), "parts": kinds}
            if self._thread is not None:
                yield self._event(
                    "agent.thread_message_received", key, "", at, content=said, source_detail=detail
                )
            else:
                self._about.suggest(text(said[0].get("text")))
                yield self._event("user.message", key, "", at, content=said, source_detail=detail)

    # -- assistant ------------------------------------------------------------------------------------------

    def _assistant(self, message: dict[str, Any], parts: list[dict[str, Any]]) -> Iterator[Event]:
        key, at = text(message.get("id")), members(message.get("time")).get("created")
        self._about.note(model=message.get("modelID"), model_provider=message.get("providerID"))
        start: Event | None = None
        summary: list[str] = []
        first = True
        for part in parts:
            made: list[Event] = []
            kind = part.get("type")
            if kind == "step-start":
                start = self._event(
                    "span.model_request_start",
                    text(part.get("id")),
                    "",
                    at,
                    model=message.get("modelID"),
                    source_detail=part,
                )
                made = [start]
            elif kind == "step-finish":
                made = [self._step_finish(message, part, start)]
                start = None
            elif kind == "text" and message.get("summary") is True:
                summary.append(text(part.get("text")))
                first = False
                self._tally.merged["summary into its compaction"] += 1
            else:
                made = list(self._part(part, at))
            if first and made:
                made[0]["source_message"] = without(message, "id")
                first = False
            yield from made
        if message.get("summary") is True:
            yield self._summarised(message, key, at, "\n".join(summary))
        if error := members(message.get("error")):
            yield self._failed(message, key, error)
        elif first:
            yield self._keep(key, "message without parts", message, at)

    def _summarised(self, message: dict[str, Any], key: str, at: object, summary: str) -> Event:
        event, self._compacting = self._compacting, None
        if event is None:
            event = self._event("agent.thread_context_compacted", key, "summary", at)
        event["summary"] = summary
        return event

    def _step_finish(self, message: dict[str, Any], part: dict[str, Any], start: Event | None) -> Event:
        tokens = members(part.get("tokens"))
        cache = members(tokens.get("cache"))
        read, written = count(cache.get("read")), count(cache.get("write"))
        version = _version(self._info.get("version"))
        given, made = count(tokens.get("input")), count(tokens.get("output"))
        if version < (1, 0, 62) and message.get("providerID") != "anthropic":
            given = max(0, given - read - written)
        if version >= (1, 3, 16):
            made += count(tokens.get("reasoning"))
        return self._event(
            "span.model_request_end",
            text(part.get("id")),
            "",
            members(message.get("time")).get("completed"),
            model_request_start_id=start["id"] if start else None,
            is_error=False,
            model=message.get("modelID"),
            model_usage=usage(given, made, read, written),
            source_usage=tokens,
            source_detail=without(part, "tokens"),
        )

    def _part(self, part: dict[str, Any], message_at: object) -> Iterator[Event]:
        kind, key = part.get("type"), text(part.get("id"))
        at = members(part.get("time")).get("start", message_at)
        if kind == "text":
            if not text(part.get("text")).strip():
                self._tally.skipped["blank text"] += 1
                return
            yield self._event(
                "agent.message",
                key,
                "",
                at,
                content=[text_block(text(part.get("text")))],
                source_detail=without(part, "text"),
            )
        elif kind == "reasoning":
            words = text(part.get("text"))
            yield self._event(
                "agent.thinking",
                key,
                "",
                at,
                content=[text_block(words)] if words.strip() else [],
                encrypted=None if words.strip() else True,
                source_detail=without(part, "text"),
            )
        elif kind == "tool":
            yield from self._tool(part, key, at)
        elif kind == "retry":
            error = members(part.get("error"))
            message = text(members(error.get("data")).get("message")) or "The request was tried again."
            shown = {
                "type": text(error.get("name")),
                "message": message,
                "retry_status": {"type": "retrying"},
            }
            yield self._event("session.error", key, "", at, error=shown, source_record=part)
        else:
            reason = text(kind) if kind in ("patch", "snapshot") else f"part {text(kind)}"
            yield self._keep(key, reason, part, at)

    def _tool(self, part: dict[str, Any], key: str, message_at: object) -> Iterator[Event]:
        state = members(part.get("state"))
        status, time = state.get("status"), members(state.get("time"))
        call_id, name = text(part.get("callID")), text(part.get("tool"))
        given = state.get("input")
        answered = status in ("completed", "error")
        call = self._event(
            "agent.tool_use",
            key,
            "",
            time.get("start", message_at),
            call_id=call_id or None,
            name=name,
            input=given if isinstance(given, dict) else {"_raw": given},
            unanswered=None if answered else True,
            source_detail=without(part, "state"),
        )
        yield call
        metadata = members(state.get("metadata"))
        found = _TASK_OUTPUT.search(text(state.get("output")))
        child = text(metadata.get("sessionId")) or (found.group(1) if found else "")
        if name == "task" and child:
            yield self._event(
                "agent.thread_message_sent",
                key,
                "sent",
                time.get("start", message_at),
                call_id=call_id or None,
                to_session_thread_id=child,
                to_agent_name=members(given).get("subagent_type"),
                tool_use_id=call["id"],
                content=[text_block(text(members(given).get("prompt")))],
            )
        if not answered:
            self._tally.notes["calls without a result"] += 1
            return
        output = state.get("output") if status == "completed" else state.get("error")
        content = [text_block(text(output))] if text(output) else []
        content += [_file_block(one) for one in objects(state.get("attachments"))]
        yield self._event(
            "agent.tool_result",
            key,
            "result",
            time.get("end"),
            call_id=call_id or None,
            tool_use_id=call["id"],
            name=name,
            content=content,
            is_error=status == "error",
            source_detail=without(state, "input", "output", "error", "attachments"),
        )

    def _failed(self, message: dict[str, Any], key: str, error: dict[str, Any]) -> Event:
        at = members(message.get("time")).get("completed") or members(message.get("time")).get("created")
        name = text(error.get("name"))
        if name == "MessageAbortedError":
            return self._event("user.interrupt", key, "interrupt", at, source_detail=error)
        words = text(members(error.get("data")).get("message")) or text(error.get("message"))
        detail = {"error": error, "message": message}
        return self._event(
            "session.error", key, "error", at, error=failure(words, name), source_detail=detail
        )


def _file_block(part: dict[str, Any]) -> Event:
    block = media_block(text(part.get("url")), text(part.get("mime")))
    if name := text(part.get("filename")):
        block["title"] = name
    return block


def _mention(part: dict[str, Any]) -> str:
    return text(part.get("prompt")) or f"@{text(part.get('name')) or text(part.get('agent'))}"


def _version(value: object) -> tuple[int, int, int]:
    found = _VERSION.match(text(value))
    return (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)


def _digest(value: object) -> str:
    return blake2b(msgspec.json.encode(value), digest_size=8).hexdigest()
