"""Files in answers; they are stored and answered as JSON, so these structs describe them only."""

from typing import Literal

import msgspec

from durable_sessions.schema_notes import Time


class FileObject(msgspec.Struct):
    """A file as clients see it."""

    id: str
    type: Literal["file"]
    filename: str
    mime_type: str
    size_bytes: int
    downloadable: bool
    created_at: Time


class FileDeleted(msgspec.Struct):
    """A file is gone; its bytes go with it unless something else names them."""

    id: str
    type: Literal["file_deleted"]
