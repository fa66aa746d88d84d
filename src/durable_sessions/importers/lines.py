"""Reads JSON lines as found in practice: truncated, padded, joined or damaged; continues where it stopped."""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, BinaryIO

import msgspec

from durable_sessions import lenient

LINE_BYTES_MAX = 64 * 1024 * 1024
NESTING_MAX = 100
NOT_JSON, NOT_UTF8, TOO_DEEP, TOO_LONG = "not JSON", "not UTF-8", "nested too deeply", "line too long"
DAMAGES = (NOT_JSON, NOT_UTF8, TOO_DEEP, TOO_LONG)
"""Why a line is no record."""
_CHUNK_BYTES = 1024 * 1024
_PADDING = b"\0 \t\r\n"
_BOM = b"\xef\xbb\xbf"
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")

_PYTHON = lenient.scanner()


@dataclass(slots=True)
class SourceRecord:
    """One object of a file, or damaged bytes in its place."""

    line: int
    piece: int
    value: Any
    damage: str | None = None
    repaired: str | None = None
    raw: bytes = b""

    @property
    def place(self) -> str:
        """The record's name where it has no id: its line, and which object of the line it is."""
        return f"L{self.line}" if self.piece == 0 else f"L{self.line}.{self.piece}"

    def remains(self) -> dict[str, Any]:
        """Return the bytes of a damaged record, as text if they are UTF-8."""
        try:
            return {"source_text": self.raw.decode()}
        except UnicodeDecodeError:
            return {"source_base64": base64.b64encode(self.raw).decode()}


@dataclass(slots=True)
class _Overlong:
    """A line that is too long to be kept: only its size and digest are known."""

    size: int = 0
    digest: Any = field(default_factory=sha256)

    def take(self, data: bytes) -> None:
        self.size += len(data)
        self.digest.update(data)


class LineReader:
    """Reads a growing file; memory is bounded by the longest line that is allowed.

    An unterminated last line is left for later, unless ``ending`` says that the file is complete and it is
    valid JSON.
    """

    def __init__(self, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self.offset = 0
        self.waiting = 0
        self._line = 1
        self._piece = 0
        self._max = line_bytes_max

    def read(self, file: BinaryIO, *, ending: bool = False) -> Iterator[SourceRecord]:
        """Yield the records after those that were read before."""
        if file.seekable():
            file.seek(self.offset)
        rest = b""
        overlong: _Overlong | None = None
        while chunk := file.read(_CHUNK_BYTES):
            *lines, tail = chunk.split(b"\n")
            for line in lines:
                whole, rest = rest + line, b""
                if overlong is not None:
                    overlong.take(whole)
                    yield self._too_long(overlong)
                    self.offset += overlong.size + 1
                    overlong = None
                else:
                    yield from self._line_of(whole)
                    self.offset += len(whole) + 1
                self._line += 1
                self._piece = 0
            rest += tail
            if overlong is not None or len(rest) > self._max:
                overlong = overlong or _Overlong()
                overlong.take(rest)
                rest = b""
        self.waiting = len(rest) + (overlong.size if overlong else 0)
        if ending and overlong is None and rest.strip(_PADDING + _BOM) and _is_whole(rest):
            yield from self._line_of(rest)
            self.offset += len(rest)
            self.waiting = 0

    def _line_of(self, line: bytes) -> Iterator[SourceRecord]:
        body = line.removeprefix(_BOM).strip(_PADDING) if self._line == 1 else line.strip(_PADDING)
        if not body:
            return
        for record in _parse(body):
            record.line, record.piece = self._line, self._piece
            self._piece += 1
            yield record

    def _too_long(self, line: _Overlong) -> SourceRecord:
        note = {"bytes": line.size, "sha256": line.digest.hexdigest()}
        return SourceRecord(self._line, self._piece, None, TOO_LONG, raw=msgspec.json.encode(note))


def _is_whole(line: bytes) -> bool:
    return all(record.damage is None for record in _parse(line.removeprefix(_BOM).strip(_PADDING)))


def _parse(body: bytes) -> Iterator[SourceRecord]:
    # Checked before decoding: decoders give up at depths of their own, and the server has a limit, too.
    # Counting brackets is cheap, and most lines have few.
    if body.count(b"[") + body.count(b"{") > NESTING_MAX and _depth(body) > NESTING_MAX:
        yield SourceRecord(0, 0, None, TOO_DEEP, raw=body)
        return
    try:
        yield SourceRecord(0, 0, msgspec.json.decode(body), raw=body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        yield from _parse_slowly(body)


def _parse_slowly(body: bytes) -> Iterator[SourceRecord]:
    """Yield the readable parts of a line: joined objects, or objects with lone surrogates or NULs."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        yield SourceRecord(0, 0, None, NOT_UTF8, raw=body)
        return
    at = 0
    while at < len(text):
        try:
            value, end = _PYTHON.raw_decode(text, at)
        except (ValueError, RecursionError):
            yield SourceRecord(0, 0, None, NOT_JSON, raw=text[at:].encode())
            return
        piece = text[at:end]
        mended = _mend(value)
        yield SourceRecord(0, 0, mended, None, piece if mended is not value else None, piece.encode())
        at = end
        while at < len(text) and text[at] in "\0 \t\r\n":
            at += 1


def _mend(value: Any) -> Any:
    """Return the value with lone surrogates replaced; the same object if there are none."""
    try:
        msgspec.json.encode(value)
        return value
    except UnicodeEncodeError:
        return mended(value)


def mended(value: Any) -> Any:
    """Return the value with lone surrogates replaced."""
    if isinstance(value, str):
        return value.encode(errors="surrogatepass").decode(errors="replace")
    if isinstance(value, dict):
        return {mended(name): mended(one) for name, one in value.items()}
    if isinstance(value, list):
        return [mended(one) for one in value]
    return value


def parse_document(data: bytes) -> Any:
    """Return the JSON in bytes; ValueError if they are none, or nested too deeply."""
    found = list(_parse(data.removeprefix(_BOM).strip(_PADDING)))
    if len(found) != 1 or found[0].damage:
        damage = next((one.damage for one in found if one.damage), None)
        raise ValueError(damage or ("several values in a row" if found else "empty"))
    return found[0].value


def _depth(body: bytes) -> int:
    depth = deepest = 0
    for bracket in _STRING.sub(b"", body).translate(None, _NOT_BRACKETS):
        if bracket in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest
