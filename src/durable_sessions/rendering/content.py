"""The content of an event: blocks of text, images and documents, as parts that can be shown."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from durable_sessions.rendering.text import clean, compact, one_line, pretty, size

ONE_LINE_CHARACTERS_MAX = 160
ARTIFACT = re.compile(r"(?:.*/)?v1/artifacts/([0-9a-f]{64})(?:[?#].*)?", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Prose:
    """What somebody wrote, most likely in Markdown."""

    text: str


@dataclass(frozen=True, slots=True)
class Preformatted:
    """Text whose lines and spaces count: output, code, JSON."""

    text: str
    label: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class Diff:
    """A change to a text, in lines that begin with ``+``, ``-``, ``@`` or a space."""

    lines: tuple[str, ...]
    label: str = ""


@dataclass(frozen=True, slots=True)
class Fields:
    """Short values with their names."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """An image: its bytes in base64, an artifact's digest, or only the place where it is."""

    media_type: str
    base64: str = ""
    artifact: str = ""
    url: str = ""

    @property
    def label(self) -> str:
        """What to say where images cannot be shown."""
        about = self.media_type or "image"
        if self.base64:
            return f"{about}, {size(len(self.base64) * 3 // 4)}"
        if self.artifact:
            return f"{about}, artifact {self.artifact[:12]}"
        return f"{about} at {self.url}" if self.url else about


Part = Prose | Preformatted | Diff | Fields | Picture


def parts_of(content: object, *, prose: bool) -> Iterator[Part]:
    """Return the parts of a content member: a text, a block, or a list of them.

    Texts are prose, or blocks where lines and spaces count.
    """
    if content is None or content == "":
        return
    for block in content if isinstance(content, list) else [content]:
        yield from _parts(block, prose=prose)


def _parts(block: object, *, prose: bool) -> Iterator[Part]:
    if isinstance(block, str):
        yield _text(block, prose=prose)
        return
    if not isinstance(block, dict):
        yield _data(block)
        return
    kind, text = block.get("type"), block.get("text")
    if isinstance(text, str) and kind in (None, "text", "input_text", "output_text"):
        yield _text(text, prose=prose)
    elif kind == "thinking" and isinstance(block.get("thinking"), str):
        yield Prose(clean(block["thinking"]))
    elif kind == "image":
        yield picture(block)
    elif kind == "document":
        yield from _document(block, prose=prose)
    elif kind == "search_result":
        yield Fields((("source", compact_member(block, "source")), ("title", compact_member(block, "title"))))
        yield from parts_of(block.get("content"), prose=prose)
    elif kind in ("redacted", "redacted_thinking", "encrypted_content"):
        yield Preformatted(f"({str(kind).partition('_')[0]})")
    else:
        yield _data(block)


def _data(value: object) -> Part:
    """Return a value of no known kind: in one line if it is short."""
    short = compact(value)
    return Preformatted(short if len(short) <= ONE_LINE_CHARACTERS_MAX else pretty(value), language="json")


def _text(text: str, *, prose: bool) -> Part:
    return Prose(clean(text)) if prose else Preformatted(clean(text))


def compact_member(block: dict[str, Any], name: str) -> str:
    """Return a member of a block as one line."""
    value = block.get(name)
    return one_line(value, 200) if isinstance(value, str) else ""


def picture(block: dict[str, Any]) -> Picture:
    """Return an image block as what can be shown of it."""
    source = block.get("source")
    source = source if isinstance(source, dict) else {}
    media_type = compact_member(source, "media_type")
    data, url = source.get("data"), source.get("url")
    if isinstance(data, str) and data:
        return Picture(media_type, base64=data)
    if isinstance(url, str) and url:
        match = ARTIFACT.fullmatch(url)
        return (
            Picture(media_type, artifact=match[1]) if match else Picture(media_type, url=one_line(url, 500))
        )
    return Picture(media_type, url=compact_member(source, "file_id"))


def _document(block: dict[str, Any], *, prose: bool) -> Iterator[Part]:
    source = block.get("source")
    source = source if isinstance(source, dict) else {}
    title = compact_member(block, "title") or "document"
    data = source.get("data")
    if source.get("type") == "text" and isinstance(data, str):
        yield Preformatted(clean(data), label=title)
        return
    about = compact_member(source, "media_type") or compact_member(source, "type")
    where = compact_member(source, "url") or compact_member(source, "file_id")
    held = size(len(data) * 3 // 4) if isinstance(data, str) else ""
    yield Fields((("document", ", ".join(filter(None, (title, about, held, where)))),))


def text_of(parts: tuple[Part, ...] | list[Part]) -> str:
    """Return the readable text of parts."""
    return "\n".join(filter(None, map(_readable, parts)))


def _readable(part: Part) -> str:
    match part:
        case Prose(text) | Preformatted(text):
            return text
        case Diff(lines):
            return "\n".join(lines)
        case Fields(rows):
            return "\n".join(f"{name}: {value}" for name, value in rows)
        case Picture():
            return f"[{part.label}]"


def weight(part: Part) -> int:
    """Return about how many bytes of memory a part takes."""
    match part:
        case Prose(text) | Preformatted(text):
            return len(text) + 100
        case Diff(lines):
            return sum(map(len, lines)) + 100
        case Fields(rows):
            return sum(len(name) + len(value) for name, value in rows) + 100
        case Picture():
            return len(part.base64) + 100
