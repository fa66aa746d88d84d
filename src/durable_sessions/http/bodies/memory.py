"""Bodies of requests and answers about memory."""

from typing import Annotated

import msgspec

from durable_sessions.limits import Limits
from durable_sessions.schema_notes import about
from durable_sessions.sessions.graph.schemas import Influence, MemoryKey, Scope, Text
from durable_sessions.sessions.memory.scopes import LoggedRecord, MemoryEntry

_LIMITS = Limits()
_Page = Annotated[str | None, about("Send it as `page` for what comes next; null at the end.")]
_Workflow = Annotated[str, msgspec.Meta(min_length=1, max_length=_LIMITS.graph_name_max)]
RECALLED_DEFAULT = 10


class MemoryEntries(msgspec.Struct):
    """What a scope remembers after its first ``at`` records."""

    scope: str
    at: int
    data: list[MemoryEntry]
    next_page: _Page


class MemoryHistory(msgspec.Struct):
    """Records of a scope, in their order."""

    data: list[LoggedRecord]
    next_page: _Page


class MemoryScope(msgspec.Struct):
    """A scope: how many live entries it has, and how many records."""

    scope: str
    entries: int
    position: int


class MemoryScopes(msgspec.Struct):
    """Scopes, those that were begun last first."""

    data: list[MemoryScope]
    next_page: _Page


class RecallBody(msgspec.Struct, forbid_unknown_fields=True):
    """A read of memory that is recorded in the session; by words, by key, or of everything."""

    scope: Scope
    q: Annotated[Text | None, about("Words to search for.")] = None
    key: Annotated[MemoryKey | None, about("The key of one entry.")] = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=_LIMITS.memory_returned_max)] = RECALLED_DEFAULT
    influence: Annotated[Influence, about("What it is for.")] = "unknown"
    workflow: _Workflow | None = None


class Recalled(msgspec.Struct):
    """The event that records the read, and the entries that it returned."""

    event: msgspec.Raw
    data: list[MemoryEntry]
