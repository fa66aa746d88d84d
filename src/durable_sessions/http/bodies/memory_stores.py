"""Memory stores, memories and their versions, in requests and answers."""

from typing import Annotated, Any, Literal

import msgspec

from durable_sessions.schema_notes import Time, about

_Content = Annotated[str | None, about("The text; null with `view=basic`.")]
_Sha256 = Annotated[str, about("SHA-256 of the content's UTF-8, in lower-case hexadecimal digits.")]


class MemoryStoreObject(msgspec.Struct):
    """A memory store as clients see it."""

    id: str
    type: Literal["memory_store"]
    name: str
    description: str
    metadata: dict[str, Any]
    created_at: Time
    updated_at: Time
    archived_at: Time | None


class MemoryObject(msgspec.Struct):
    """A text at a path of a store; it keeps its id when its path changes."""

    id: str
    type: Literal["memory"]
    memory_store_id: str
    memory_version_id: str
    path: str
    content_sha256: _Sha256
    content_size_bytes: int
    created_at: Time
    updated_at: Time
    content: _Content


class MemoryPrefix(msgspec.Struct):
    """All memories whose path begins so, in place of them."""

    type: Literal["memory_prefix"]
    path: str


class MemoryActor(msgspec.Struct, omit_defaults=True):
    """Who changed a memory: a session, or who sent a request."""

    type: Literal["session_actor", "api_actor"]
    session_id: str | msgspec.UnsetType = msgspec.UNSET
    api_key_id: Annotated[str | msgspec.UnsetType, about("The principal of the key.")] = msgspec.UNSET


class MemoryVersionObject(msgspec.Struct):
    """One change of a memory; what was redacted is null."""

    id: str
    type: Literal["memory_version"]
    memory_id: str
    memory_store_id: str
    operation: Literal["created", "modified", "deleted"]
    created_at: Time
    path: str | None
    content: _Content
    content_sha256: _Sha256 | None
    content_size_bytes: int | None
    created_by: MemoryActor
    redacted_at: Time | None
    redacted_by: MemoryActor | None


class NewMemoryBody(msgspec.Struct):
    """What a new memory is: its path and its text."""

    path: str
    content: str | None


class MemoryPrecondition(msgspec.Struct):
    """What the content must be for a change to be made."""

    type: Literal["content_sha256"]
    content_sha256: str | None = None


class MemoryUpdateBody(msgspec.Struct):
    """What changes of a memory: its text, its path, or both; what is absent or null stays."""

    content: str | None = None
    path: str | None = None
    precondition: MemoryPrecondition | None = None


class NativeNewMemoryBody(NewMemoryBody, forbid_unknown_fields=True):
    """The native dialect, in which an unknown member is refused as a typo."""


class NativeMemoryUpdateBody(MemoryUpdateBody, forbid_unknown_fields=True):
    """The native dialect, in which an unknown member is refused as a typo."""
