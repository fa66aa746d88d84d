"""Memory stores of Anthropic's API, as plain data; what they hold is in memory scopes."""

import unicodedata
from typing import Annotated

import msgspec

from durable_sessions.errors import InvalidMemoryStoreError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.managed_agents.object_kind import Document, Kind, patched
from durable_sessions.managed_agents.registry import members
from durable_sessions.schema_notes import about

_LIMITS = DEFAULT_LIMITS
_METADATA_MAX, _METADATA_KEY_MAX, _METADATA_VALUE_MAX = 16, 64, 512


class MemoryStoreBody(msgspec.Struct, omit_defaults=True):
    """The body of a request that creates or changes a memory store."""

    name: Annotated[
        str | msgspec.UnsetType | None, about("1 to 255 characters, without control characters.")
    ] = msgspec.UNSET
    description: Annotated[
        str | msgspec.UnsetType | None, about("What the store is for, up to 1,024 characters.")
    ] = msgspec.UNSET
    metadata: Annotated[
        dict[str, str | None] | msgspec.UnsetType | None,
        about("Up to 16 pairs. A patch when the store is changed: null deletes a key."),
    ] = msgspec.UNSET


class NativeMemoryStoreBody(MemoryStoreBody, forbid_unknown_fields=True):
    """The native dialect, in which an unknown member is refused as a typo.

    Other members are refused; in Anthropic's dialect they are ignored.
    """


def new(body: MemoryStoreBody) -> Document:
    """Return a new memory store as it is stored, without id and times."""
    if not isinstance(body.name, str):
        raise InvalidMemoryStoreError(problem='A memory store needs a "name".')
    return revise({"name": "", "description": "", "metadata": {}}, body)


def revise(old: Document, body: MemoryStoreBody) -> Document:
    """Return a store with a body's changes; what is absent or null stays, metadata is patched."""
    document = dict(old)
    if isinstance(body.name, str):
        document["name"] = _checked_name(body.name)
    if isinstance(body.description, str):
        if len(body.description) > _LIMITS.memory_store_description_max:
            raise InvalidMemoryStoreError(
                problem=f"description has {len(body.description)} characters; send at most "
                f"{_LIMITS.memory_store_description_max}."
            )
        document["description"] = body.description
    if isinstance(body.metadata, dict):
        document["metadata"] = _checked_metadata(patched(old["metadata"], body.metadata))
    return document


def shown_stored(stored: bytes) -> bytes:
    """Return a store as clients see it, from its stored bytes: without the version, which is ours."""
    return msgspec.json.encode({name: raw for name, raw in members(stored).items() if name != "version"})


def _checked_name(name: str) -> str:
    if not 0 < len(name) <= _LIMITS.memory_store_name_max or any(
        unicodedata.category(character) == "Cc" for character in name
    ):
        raise InvalidMemoryStoreError(
            problem=f"name is not usable; send 1 to {_LIMITS.memory_store_name_max} characters, without "
            "control characters."
        )
    return name


def _checked_metadata(metadata: dict[str, str]) -> dict[str, str]:
    fits = len(metadata) <= _METADATA_MAX and all(
        0 < len(key) <= _METADATA_KEY_MAX and len(value) <= _METADATA_VALUE_MAX
        for key, value in metadata.items()
    )
    if not fits:
        raise InvalidMemoryStoreError(
            problem=f"metadata has at most {_METADATA_MAX} pairs, with keys of 1 to {_METADATA_KEY_MAX} and "
            f"values of up to {_METADATA_VALUE_MAX} characters."
        )
    return metadata


MEMORY_STORES = Kind(
    "memory_store",
    "A memory store",
    "memstore_",
    MemoryStoreBody,
    NativeMemoryStoreBody,
    InvalidMemoryStoreError,
    new,
    revise,
    shown_stored,
)
