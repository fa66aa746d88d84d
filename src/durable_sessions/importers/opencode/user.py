"""Messages of the user: what was typed or attached, and text that the program inserted."""

from collections.abc import Iterator

from durable_sessions.importers.events import Event, members, text, text_block, without
from durable_sessions.importers.opencode.context import Fields, OpenCodeContext, file_block


def user(context: OpenCodeContext, message: Fields, parts: list[Fields]) -> Iterator[Event]:
    """Yield the events of a message of the user."""
    key, at = text(message.get("id")), members(message.get("time")).get("created")
    said: list[Event] = []
    kinds: list[Fields] = []
    for part in parts:
        kind, record = part.get("type"), text(part.get("id"))
        if kind == "compaction":
            context.compacting = context.event(
                "agent.thread_context_compacted",
                record,
                "",
                at,
                trigger="auto" if part.get("auto") else "manual",
                source_detail={"message": message, "part": part},
            )
        elif kind == "text" and (part.get("synthetic") or part.get("ignored")):
            yield context.event(
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
            said.append(file_block(part))
            kinds.append(without(part, "url"))
        elif kind in ("agent", "subtask"):
            said.append(text_block(_mention(part)))
            kinds.append(part)
        else:
            yield context.keep(record, f"part {text(kind)}", part, at)
    if said:
        detail = {"message": without(message, "id"), "parts": kinds}
        if context.thread is not None:
            yield context.event(
                "agent.thread_message_received", key, "", at, content=said, source_detail=detail
            )
        else:
            context.about.suggest(text(said[0].get("text")))
            yield context.event("user.message", key, "", at, content=said, source_detail=detail)


def _mention(part: Fields) -> str:
    return text(part.get("prompt")) or f"@{text(part.get('name')) or text(part.get('agent'))}"
