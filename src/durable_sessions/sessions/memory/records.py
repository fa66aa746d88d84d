"""The log of a memory scope: a stream ``__memory/<scope>`` with one record per write, read and roll-back.

A record names the session's event that it belongs to by session, incarnation and id, because two sessions may
use one id. It has all that a reader of the scope needs, so that memory outlives the session. What was written
or deleted through the API of memory stores belongs to no session: both names are empty, and the id says where
in the scope the record is.
"""

from typing import NamedTuple

import msgspec

from durable_sessions import lenient
from durable_sessions.partition_id import PartitionId
from durable_sessions.sessions.tombstones import Mark
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.streams.stream import Key

FOLDER = "__memory"
"""The folder of all scopes, which no client can name. Its home has all scopes of a workspace."""
WRITTEN, READ, ROLLED_BACK = "ds.memory.written", "ds.memory.read", "ds.memory.rolled_back"
DELETED = "ds.memory.deleted"
TYPES = frozenset((WRITTEN, READ, ROLLED_BACK))
"""The types of the events that sessions record in scopes."""
NO_SESSION = ""
_REDACTED_BY = "redacted by "
BY_API = "api"
"""The reason of a write that belongs to no session, and so has no evidence."""


def scope_key(workspace: str, scope: str) -> Key:
    """Return the key of a scope's stream."""
    return Key(workspace, f"{FOLDER}/{scope}")


def scope_of(key: Key) -> str:
    """Return the scope whose stream this is."""
    return key.path.partition("/")[2]


def is_home(workspace: str, partition: PartitionId) -> bool:
    """Say whether a partition has the scopes of a workspace."""
    return home_partition(workspace, FOLDER, partition.of) == partition.number


class NamedEvent(NamedTuple):
    """An event of one life of a session; no session for an artifact."""

    id: str
    session: str | None = None
    incarnation: str | None = None


class _Record(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type"):
    """What all records have: the event that they belong to, when it was appended, and by whom."""

    id: str
    session: str
    incarnation: str
    created_at: str
    actor: str


class WriteRecord(_Record, frozen=True, kw_only=True, tag=WRITTEN):
    """Something to remember under a key; ``because`` is the evidence.

    ``began_at`` is where a memory began that was moved to this key. ``redacted_by`` is who erased the value.
    """

    key: str
    value: msgspec.Raw
    kind: str
    why: str
    because: list[NamedEvent]
    confidence: float | None = None
    redacted: Mark | None = None
    redacted_by: str | None = None
    began_at: int | None = None


class ReadRecord(_Record, frozen=True, kw_only=True, tag=READ):
    """The writes that a read of the first ``at`` records returned."""

    at: int
    returned: list[NamedEvent]
    influence: str
    key: str | None = None


class RollBackRecord(_Record, frozen=True, kw_only=True, tag=ROLLED_BACK):
    """A write that is no longer remembered; ``reason`` is null if it was redacted."""

    write: NamedEvent
    reason: str | None
    redacted: Mark | None = None
    redacted_by: str | None = None


class DeleteRecord(_Record, frozen=True, kw_only=True, tag=DELETED):
    """Nothing is remembered under a key from here on; ``moved`` if it is remembered under another one."""

    key: str
    moved: bool = False


ScopeRecord = WriteRecord | ReadRecord | RollBackRecord | DeleteRecord
_RECORD: "msgspec.json.Decoder[ScopeRecord]" = msgspec.json.Decoder(ScopeRecord)
encode = msgspec.json.Encoder().encode


def decode(record: bytes) -> ScopeRecord:
    """Return a stored record; its value stays as it was sent."""
    return lenient.decode(_RECORD, record)


def redactor(record: WriteRecord) -> str | None:
    """Return who redacted a write; None if nobody did, or if that was not kept."""
    mark = record.redacted
    if record.redacted_by is not None or mark is None or record.session:
        return record.redacted_by
    # Version 0.4 kept who redacted what belongs to no session in the reason of the mark.
    return mark.reason.removeprefix(_REDACTED_BY) if mark.reason.startswith(_REDACTED_BY) else None


def erased(record: ScopeRecord, mark: Mark, by: str | None) -> ScopeRecord | None:
    """Return what is left of a record when its event is redacted; None if nothing of it has to go."""
    if isinstance(record, WriteRecord):
        return msgspec.structs.replace(record, value=lenient.NULL, redacted=mark, redacted_by=by)
    if isinstance(record, RollBackRecord):
        return msgspec.structs.replace(record, reason=None, redacted=mark, redacted_by=by)
    return None
