"""What clients set on a session, and how it is stored: the attributes ``session`` and ``archived``."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from durable_sessions.errors import SessionTooLargeError
from durable_sessions.limits import Limits
from durable_sessions.schema_notes import Whole, about

SESSION = "session"
ARCHIVED = "archived"
FOLDER = "sessions"
NULL = msgspec.Raw(b"null")
"""A JSON value that was not given."""


class ForkedFrom(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a fork begins: another session, and how many of its events are shared.

    ``deleted`` is never stored: whether the source still exists is looked up when a fork is shown.
    """

    session_id: str
    position: Annotated[Whole, about("How many events are shared.")]
    deleted: Annotated[
        bool, about("True if that session was deleted; another one may have its id since.")
    ] = False


class Record(msgspec.Struct, omit_defaults=True, frozen=True):
    """The properties that clients set on a session; JSON values are kept byte for byte.

    ``begins_with`` is the digest of the events that the session was created with.
    """

    agent: msgspec.Raw = NULL
    environment_id: str | None = None
    title: str | None = None
    metadata: dict[str, msgspec.Raw] = {}
    resources: list[msgspec.Raw] = []
    vault_ids: list[str] = []
    budget: msgspec.Raw = NULL
    forked_from: ForkedFrom | None = None
    created_by: str | None = None
    begins_with: str | None = None

    def encode(self) -> bytes:
        """Return the value of the attribute."""
        return msgspec.json.encode(self)


EMPTY = Record()
_decode = msgspec.json.Decoder(Record).decode


def of(attributes: Mapping[str, bytes]) -> Record:
    """Return the record of a session; an empty one if the session was created by its first append."""
    value = attributes.get(SESSION)
    return EMPTY if value is None else _decode(value)


def encode(said: Record, limits: Limits) -> bytes:
    """Return a record as it is stored, or refuse it if it is too large."""
    document = said.encode()
    if len(document) > limits.session_document_bytes_max:
        raise SessionTooLargeError(
            size=len(document), session_document_bytes_max=limits.session_document_bytes_max
        )
    return document


def archived_at_ms(attributes: Mapping[str, bytes]) -> int | None:
    """Return when a session was archived, None if it is not."""
    value = attributes.get(ARCHIVED)
    return None if value is None else int(value)


def path_of(session: str) -> str:
    """Return the path of a session's stream."""
    return f"{FOLDER}/{session}"
