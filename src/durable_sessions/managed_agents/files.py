"""Files of Anthropic's API: names for artifacts, as plain data."""

import mimetypes
import re
from hashlib import sha256

import msgspec

from durable_sessions.errors import InvalidFileError
from durable_sessions.managed_agents.multipart import form
from durable_sessions.managed_agents.object_kind import Document, Kind
from durable_sessions.managed_agents.registry import members

FILENAME_MAX = 500
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,60}/[a-z0-9!#$&^_.+-]{1,60}", re.ASCII)
_OURS = ("version", "updated_at", "archived_at", "sha256")
"""Members that clients of that API do not know."""


class FileBody(msgspec.Struct):
    """Files are uploaded as forms; this body is never read."""


class NewFile(msgspec.Struct, frozen=True):
    """A file that is uploaded: what is registered, and its bytes."""

    document: Document
    data: bytes

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes, which names the artifact."""
        return str(self.document["sha256"])

    @property
    def media_type(self) -> str:
        """The type of the bytes."""
        return str(self.document["mime_type"])


def uploaded(content_type: str, body: bytes) -> NewFile:
    """Return the file of an upload, or refuse it."""
    parts = form(content_type, body)
    if "expires_in_seconds" in parts:
        raise InvalidFileError(
            problem="Files do not expire here. Leave expires_in_seconds out, and delete the file."
        )
    part = parts.get("file")
    if part is None or part.filename is None:
        raise InvalidFileError(problem='The form has no part "file" with a filename.')
    media_type = part.media_type.partition(";")[0].strip().lower()
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise InvalidFileError(
            problem="The Content-Type of the part is not usable; send text/plain or the like."
        )
    document: Document = {
        "filename": _name(part.filename, media_type),
        "mime_type": media_type,
        "size_bytes": len(part.data),
        "downloadable": True,
        "sha256": sha256(part.data).hexdigest(),
    }
    return NewFile(document, part.data)


def _name(given: str, media_type: str) -> str:
    """Return the last part of a path; one that is empty gets a name."""
    name = given.replace("\\", "/").rpartition("/")[2] or "unnamed" + (
        mimetypes.guess_extension(media_type) or ""
    )
    if len(name) > FILENAME_MAX or not name.isprintable():
        raise InvalidFileError(
            problem=f"The filename is not usable; send up to {FILENAME_MAX} printable characters."
        )
    return name


def digest_of(stored: bytes) -> tuple[str, str]:
    """Return the SHA-256 of a stored file, and its media type."""
    found = members(stored)
    return msgspec.json.decode(found["sha256"], type=str), msgspec.json.decode(found["mime_type"], type=str)


def shown_stored(stored: bytes) -> bytes:
    """Return a file as clients see it."""
    return msgspec.json.encode({name: raw for name, raw in members(stored).items() if name not in _OURS})


FILES: Kind[FileBody] = Kind(
    "file",
    "A file",
    "file_",
    FileBody,
    FileBody,
    InvalidFileError,
    lambda body: {},
    lambda old, body: old,
    shown_stored,
)
