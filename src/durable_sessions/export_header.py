"""The first line of an export as JSON lines: what a session is called, beside what happened in it.

It has a type, like every line, and neither id nor offset, which every stored event has.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

TYPE = "export.session"
HEADER_BYTES_MAX = 4 * 1024 * 1024


class ExportHeader(msgspec.Struct, omit_defaults=True):
    """The id, the title and the metadata that a session had when it was exported."""

    type: str
    session: str | None = None
    title: str | None = None
    metadata: dict[str, Any] = {}
    id: Any = None
    offset: Any = None


_DECODER = msgspec.json.Decoder(ExportHeader)


def encode(session: Mapping[str, Any]) -> bytes | None:
    """Return the line for a session object, None if it has neither title nor metadata."""
    title, metadata = session.get("title"), session.get("metadata") or {}
    if title is None and not metadata:
        return None
    return msgspec.json.encode(ExportHeader(TYPE, session.get("id"), title, metadata))


def decode(line: bytes) -> ExportHeader | None:
    """Return what a first line says of the session, None if it is an event or anything else."""
    if TYPE.encode() not in line or len(line) > HEADER_BYTES_MAX:
        return None
    try:
        found = _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    is_header = found.type == TYPE and found.id is None and found.offset is None
    return found if is_header else None
