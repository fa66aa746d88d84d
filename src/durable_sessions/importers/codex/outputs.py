"""Outputs of Codex tools: the text, and the exit code, which every generation writes differently."""

import re
from dataclasses import dataclass

from durable_sessions.importers.events import (
    Event,
    blocks,
    first_text,
    media_block,
    members,
    text,
    text_block,
)
from durable_sessions.importers.lines import parse_document

_EXIT_LINE = re.compile(r"(?:^|\n)(?:Exit code:|Process exited with code) (-?\d{1,10})(?:\n|$)")
_OUTPUT_LINE = re.compile(r"(?:^|\n)Output:\n")
_HEAD_CHARACTERS_MAX = 600
_PICTURES = ("image", "input_image", "output_image", "image_url")
_MEDIA_TYPES = ("mime_type", "mimeType", "media_type")


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A tool's output: its blocks, and the exit code if it tells one."""

    content: list[Event]
    exit_code: int | None
    wrapped: bool

    @property
    def is_error(self) -> bool:
        """Whether it says that the tool has failed."""
        return self.exit_code not in (None, 0)


def read_output(output: object) -> ToolOutput:
    """Return the output of a tool, without the envelope that the program added for the model."""
    if isinstance(output, dict):
        inner = output.get("content", output.get("output"))
        found = (
            read_output(inner) if isinstance(inner, str | list) else ToolOutput(blocks(output), None, False)
        )
        failed = output.get("success") is False and found.exit_code is None
        return ToolOutput(found.content, 1 if failed else found.exit_code, True)
    if isinstance(output, list):
        shown = content(output)
        words = "\n".join(text(block.get("text")) for block in shown)
        return ToolOutput(shown, _exit_code(words), False)
    if not isinstance(output, str):
        return ToolOutput([] if output is None else blocks([output]), None, False)
    if output.startswith("{"):
        try:
            frame = members(parse_document(output.encode(errors="replace")))
        except ValueError:
            frame = {}
        code = members(frame.get("metadata")).get("exit_code")
        if isinstance(frame.get("output"), str) and isinstance(code, int):
            return ToolOutput(blocks(frame["output"]), code, True)
        return ToolOutput(blocks(output), None, False)
    code = _exit_code(output)
    if code is not None and (start := _OUTPUT_LINE.search(output[:_HEAD_CHARACTERS_MAX])):
        return ToolOutput(blocks(output[start.end() :]), code, True)
    return ToolOutput(blocks(output), code, False)


def _exit_code(words: str) -> int | None:
    found = _EXIT_LINE.search(words[:_HEAD_CHARACTERS_MAX])
    return int(found.group(1)) if found else None


def content(given: object) -> list[Event]:
    """Return the content of a response item as blocks of text, images and whatever else there is."""
    made: list[Event] = []
    for block in blocks(given):
        kind = block.get("type")
        if kind in ("input_text", "output_text", "text", "Text", "summary_text", "reasoning_text"):
            made.append(text_block(text(block.get("text"))))
        else:
            made.append(picture(block))
    return made


def picture(given: object) -> Event:
    """Return a picture as a block, whatever its form; anything else unchanged.

    A picture is a URL, a block with a URL (itself, or in an object), or base64 data beside its media type.
    """
    if isinstance(given, str):
        return media_block(given)
    block = members(given)
    if is_picture(block) or text(block.get("type")).lower() not in _PICTURES:
        return block or {"type": "unknown", "value": given}
    named = block.get("image_url", block.get("url"))
    url = text(named) or text(members(named).get("url"))
    if url:
        return media_block(url)
    data, media_type = text(block.get("data")), first_text(block.get(name) for name in _MEDIA_TYPES)
    if data.startswith("data:"):
        return media_block(data)
    if data:
        source = {"type": "base64", "media_type": media_type or "image/png", "data": data}
        return {"type": "image", "source": source}
    return block


def is_picture(block: Event) -> bool:
    """Say whether a block is a picture as events hold it."""
    return block.get("type") == "image" and isinstance(block.get("source"), dict)
