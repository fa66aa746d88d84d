"""Forms with files, ``multipart/form-data``, as clients upload them."""

import re
from dataclasses import dataclass

from durable_sessions.errors import InvalidFileError

_BOUNDARY = re.compile(r'boundary=(?:"([^"\r\n]{1,70})"|([^\s;,"]{1,70}))', re.ASCII | re.IGNORECASE)
_PARAMETER = re.compile(r';\s*(name|filename)="((?:[^"\\\r\n]|\\.)*)"', re.IGNORECASE)
_PARTS_MAX = 10
_HEAD_BYTES_MAX = 8_192


@dataclass(frozen=True, slots=True)
class FormPart:
    """One part of a form; a file has a ``filename``, which may be empty."""

    name: str
    filename: str | None
    media_type: str
    data: bytes


def form(content_type: str, body: bytes) -> dict[str, FormPart]:
    """Return the parts of a form by name, or refuse it."""
    found = _BOUNDARY.search(content_type)
    if not content_type.lower().startswith("multipart/form-data") or found is None:
        raise InvalidFileError(problem='Send multipart/form-data with a boundary, and a part "file".')
    mark = b"--" + (found[1] or found[2]).encode()
    if not body.startswith(mark):
        raise InvalidFileError(problem="The body does not begin with its boundary.")
    # Forms that are written by hand have the line ends of their editor; those of the first line count.
    line = b"\r\n" if body.startswith(b"\r\n", len(mark)) else b"\n"
    parts: dict[str, FormPart] = {}
    at = len(mark)
    for _ in range(_PARTS_MAX + 1):
        if body.startswith(b"--", at):
            return parts
        # The line end before a boundary belongs to it, not to the file.
        end = body.find(line + mark, at)
        if end < 0 or not body.startswith(line, at):
            raise InvalidFileError(problem="The body ends before its last boundary; send all of it.")
        part = _part(body, at + len(line), end, line)
        parts[part.name] = part
        at = end + len(line) + len(mark)
    raise InvalidFileError(problem=f"The form has more than {_PARTS_MAX} parts.")


def _part(body: bytes, start: int, end: int, line: bytes) -> FormPart:
    blank = 2 * line
    head_end = body.find(blank, start, min(end, start + _HEAD_BYTES_MAX))
    if head_end < 0:
        raise InvalidFileError(problem="A part of the form has no head, or one that is too long.")
    said: dict[str, str] = {}
    for field in body[start:head_end].decode(errors="replace").splitlines():
        name, _, value = field.partition(":")
        said[name.strip().lower()] = value.strip()
    named = {
        key.lower(): re.sub(r"\\(.)", r"\1", value)
        for key, value in _PARAMETER.findall(said.get("content-disposition", ""))
    }
    if "name" not in named:
        raise InvalidFileError(problem="A part of the form has no name.")
    return FormPart(
        named["name"],
        named.get("filename"),
        said.get("content-type", "application/octet-stream"),
        body[head_end + len(blank) : end],
    )
