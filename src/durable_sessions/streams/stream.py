"""One stream's state at the tip: what will be true when all pending effects are durable."""

from dataclasses import dataclass, field
from typing import NamedTuple

from durable_sessions.streams import content


class Key(NamedTuple):
    """What names a stream below the HTTP layer; there is no global namespace."""

    workspace: str
    path: str


class Producer(NamedTuple):
    """A producer's own account of an append: who, in which life, and which one."""

    id: str
    epoch: int
    seq: int


@dataclass(slots=True, eq=False)
class Stream:
    """Everything that decisions about one stream depend on.

    ``held`` and ``idle_ms`` are what the server's retention policies say of it, not state.
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
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.is_json = content.is_json(self.content_type)

    def deadline_ms(self) -> int | None:
        """Return when the stream expires if nobody uses it until then; a legal hold suspends that."""
        if self.held:
            return None
        if self.ttl_seconds is not None:
            return self.accessed_at_ms + self.ttl_seconds * 1000
        return self.expires_at_ms

    def expired(self, now_ms: int) -> bool:
        """Say whether the stream's time is over."""
        deadline = self.deadline_ms()
        return deadline is not None and now_ms >= deadline
