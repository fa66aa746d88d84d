"""Copies of long events in which long texts are cut in the middle; everything else stays byte for byte."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from durable_sessions import lenient
from durable_sessions.sessions.json_members import members
from durable_sessions.streams import messages

_KEPT_MIN = 64
"""Texts of up to this many bytes are never cut."""
_MARK_BYTES = 48
"""About how much the mark takes that stands for what was cut out."""


class Clipped(msgspec.Struct):
    """What a clipped event says of itself: how large it is stored, and which of its texts are cut."""

    bytes: int
    members: list[str]


class _Text(NamedTuple):
    """A long text of an event, as JSON, and its JSON Pointer."""

    path: str
    raw: bytes


def clip(event: bytes, bytes_max: int) -> bytes:
    """Return an event as it is stored, or a copy of one that is longer than ``bytes_max``.

    In the copy the longest texts are cut to about equal lengths, so that it fits if its texts are what makes
    it long, and the member ``clipped`` says so. An event without such texts stays as it is.
    """
    if len(event) <= bytes_max:
        return event
    pieces: list[bytes | _Text] = []
    _walk(event, "", pieces)
    kept = _kept_bytes(pieces, bytes_max)
    cut: list[str] = []
    written: list[bytes] = []
    for piece in pieces:
        if isinstance(piece, _Text):
            shortened = _shortened(piece.raw, kept)
            if shortened is not None:
                cut.append(piece.path)
            written.append(piece.raw if shortened is None else shortened)
        else:
            written.append(piece)
    if not cut:
        return event
    said = msgspec.json.encode(Clipped(len(event), cut))
    return b"".join((*written[:-1], b',"clipped":', said, b"}"))


def clip_all(events: Sequence[bytes], bytes_max: int) -> list[bytes]:
    """Return events of which the long ones are clipped."""
    return [clip(event, bytes_max) for event in events]


def _walk(value: bytes, path: str, pieces: list[bytes | _Text]) -> None:
    """Take JSON apart into its long texts and what is between them; what is short is not looked into."""
    first = value[:1]
    if len(value) <= _KEPT_MIN or first not in (b"{", b"[", b'"'):
        pieces.append(value)
    elif first == b'"':
        pieces.append(_Text(path, value))
    elif first == b"[":
        pieces.append(b"[")
        for number, each in enumerate(_elements(value)):
            pieces.append(b"," if number else b"")
            _walk(each, f"{path}/{number}", pieces)
        pieces.append(b"]")
    else:
        # The event's own ``clipped`` is left out: it would otherwise occur twice.
        kept = [one for one in members(value) if path or one.key != "clipped"]
        pieces.append(b"{")
        for number, member in enumerate(kept):
            pieces.append((b"," if number else b"") + member.raw_key + b":")
            _walk(member.value, f"{path}/{_escaped(member.key)}", pieces)
        pieces.append(b"}")


def _elements(value: bytes) -> list[bytes]:
    inner = value[1:-1].strip()
    return messages.cut(inner + b",") if inner else []


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _kept_bytes(pieces: Sequence[bytes | _Text], bytes_max: int) -> int:
    """Return to how many bytes each longer text is cut, so that all of it fits if it can."""
    lengths = sorted(len(piece.raw) for piece in pieces if isinstance(piece, _Text))
    left = bytes_max - sum(len(piece) for piece in pieces if not isinstance(piece, _Text))
    for at, length in enumerate(lengths):
        share = left // (len(lengths) - at)
        if length > share:
            return max(_KEPT_MIN, share - _MARK_BYTES)
        left -= length
    return bytes_max


def _shortened(raw: bytes, kept: int) -> bytes | None:
    """Return a text without its middle; None if it is short enough, or cannot be read."""
    if len(raw) <= kept + _MARK_BYTES:
        return None
    text = lenient.text(msgspec.Raw(raw))
    if text is None:
        return None
    # Escapes make a text longer than its characters; the part to keep is reckoned in characters of its kind.
    characters = max(2, kept * len(text) // len(raw))
    head = characters * 2 // 3
    tail = characters - head
    gone = len(text) - head - tail
    cut = msgspec.json.encode(f"{text[:head]} … [{gone:,} characters] … {text[-tail:]}")
    return cut if gone > 0 and len(cut) < len(raw) else None
