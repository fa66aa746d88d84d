"""One stream's state at the tip: what will be true when all pending effects are durable."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from durable_sessions.streams import content
from durable_sessions.streams.effects import Name, StreamCreated
from durable_sessions.streams.overlay import NO_OVERLAY, Overlay

if TYPE_CHECKING:
    from durable_sessions.streams.slots import UnflushedSlots

SYSTEM_WORKSPACE = ""
"""The workspace of the server's own streams, such as keys. No key belongs to it, so no client reaches it."""


class Key(NamedTuple):
    """What names a stream below the HTTP layer; there is no global namespace."""

    workspace: str
    path: str

    @property
    def folder(self) -> str:
        """The first part of a path that has several, else nothing."""
        return self.path.partition("/")[0] if "/" in self.path else ""


class Producer(NamedTuple):
    """What a producer says of an append: its id, its epoch, and the number of the append."""

    id: str
    epoch: int
    seq: int


NO_ATTRIBUTES: dict[str, bytes] = {}
"""Shared by all streams that have none: attributes are replaced as a whole, never changed in place."""


NO_PRODUCERS: dict[str, tuple[int, int]] = {}
"""Shared by all streams that have had none."""


@dataclass(slots=True, eq=False)
class Stream:
    """Everything that decisions about one stream depend on.

    ``changed_at_ms`` is when a record or an attribute changed last: an access changes nothing.
    ``closed_at_ms`` is when it was closed; what is changed later, such as a title, does not move it.
    ``record_bytes`` is the size of the records appended to it, ``attributes`` what higher layers keep with
    it, ``named`` how many of its records ever got a name and ``names`` those that are not flushed yet.
    ``overlay`` has its erased records, and ``erasures`` counts every record that was ever erased.
    ``slot_changes`` counts what its records did with slots, ``slots_used`` the different names among them,
    ``emptied_prefixes`` those of whole prefixes; ``slots`` are the changes that are not flushed yet. Records
    before ``slots_from`` are from programs that knew no slots, whatever they say.
    ``freed`` says that it is deleted and has given up its path; ``key`` is then what it was.
    ``held``, ``idle_ms`` and ``closed_ms`` are what the server's retention policies say of it, not state.
    """

    id: int
    key: Key
    content_type: str
    tail: int
    ttl_seconds: int | None
    expires_at_ms: int | None
    created_at_ms: int
    accessed_at_ms: int
    recorded_at_ms: int
    parent: int | None = None
    base: int = 0
    fork_at_tail: bool = False
    depth: int = 0
    forks: int = 0
    closed: bool = False
    closed_by: Producer | None = None
    last_seq: str | None = None
    soft_deleted: bool = False
    is_json: bool = False
    era: int = 0
    held: bool = False
    idle_ms: int | None = None
    closed_ms: int | None = None
    producers: dict[str, tuple[int, int]] = field(default_factory=lambda: NO_PRODUCERS)
    attributes: dict[str, bytes] = field(default_factory=lambda: NO_ATTRIBUTES)
    record_bytes: int = 0
    named: int = 0
    names: dict[str, Name] | None = None
    changed_at_ms: int = 0
    closed_at_ms: int | None = None
    overlay: Overlay = NO_OVERLAY
    erasures: int = 0
    freed: bool = False
    slot_changes: int = 0
    slots_used: int = 0
    emptied_prefixes: int = 0
    slots_from: int | None = None
    slots: "UnflushedSlots | None" = None

    @classmethod
    def of(cls, created: StreamCreated, depth: int = 0) -> "Stream":
        """Return a stream as it is when its creation has been carried out."""
        return cls(
            id=created.stream,
            key=Key(created.workspace, created.path),
            content_type=created.content_type,
            tail=created.base,
            ttl_seconds=created.ttl_seconds,
            expires_at_ms=created.expires_at_ms,
            created_at_ms=created.created_at_ms,
            accessed_at_ms=created.created_at_ms,
            recorded_at_ms=created.created_at_ms,
            parent=created.parent,
            base=created.base,
            fork_at_tail=created.fork_at_tail,
            depth=depth,
            changed_at_ms=created.created_at_ms,
        )

    def __post_init__(self) -> None:
        self.is_json = content.is_json(self.content_type)

    @property
    def mortal(self) -> bool:
        """Whether the stream may expire."""
        return self.ttl_seconds is not None or self.expires_at_ms is not None

    def deadline_ms(self) -> int | None:
        """Return when the stream expires if nobody uses it until then; a legal hold suspends that."""
        if self.held:
            return None
        if self.ttl_seconds is not None:
            return self.accessed_at_ms + self.ttl_seconds * 1000
        return self.expires_at_ms

    def flushed_names(self, tail: int) -> None:
        """Drop the names of records before ``tail``: they can be looked up where those records are now."""
        if self.names is not None:
            kept = {name.name: name for name in self.names.values() if name.first + name.count > tail}
            self.names = kept or None
        if self.slots is not None:
            self.slots = self.slots.after_flush(tail)

    def expired(self, now_ms: int) -> bool:
        """Say whether the stream has expired."""
        deadline = self.deadline_ms()
        return deadline is not None and now_ms >= deadline
