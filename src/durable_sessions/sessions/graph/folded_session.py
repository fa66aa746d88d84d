"""What a fold has kept of a session's events, as plain data: a snapshot is this, encoded."""

import msgspec

from durable_sessions.sessions.graph import schemas
from durable_sessions.sessions.graph.happened import ModelUsage


class KnownFact(msgspec.Struct):
    """What a fact says, and the event that said it last."""

    value: msgspec.Raw
    kind: schemas.FactKind
    id: str
    position: int
    actor: str


class Goal(msgspec.Struct):
    """What the session is for, verbatim as it was said first; ``changes`` are later goals."""

    text: str
    id: str
    changes: list[str] = []


class Decided(msgspec.Struct):
    """A decision on a request for approval."""

    id: str
    request: str
    decision: str
    by: str
    reason: str


class OpenCall(msgspec.Struct):
    """A tool call without a result; ``asks`` if it waits for a confirmation."""

    id: str
    name: str
    input: msgspec.Raw
    effect: str
    idempotency_key: str | None
    position: int
    actor: str
    asks: bool = False


class LastCheckpoint(msgspec.Struct):
    """The newest checkpoint."""

    id: str
    position: int
    at_ms: int
    actor: str
    said: msgspec.Raw


class CompactedRange(msgspec.Struct):
    """A range of events that a summary replaces in the context; the event at ``position`` has the summary."""

    id: str
    position: int
    start: int
    stop: int

    def covers(self, other: "CompactedRange") -> bool:
        """Whether it replaces everything that another one does."""
        return self.start <= other.start and other.stop <= self.stop


class PlacedSandbox(msgspec.Struct):
    """What was said of a sandbox, and its history as (event id, status)."""

    said: msgspec.Raw
    status: str
    history: list[tuple[str, str]]

    @property
    def size(self) -> int:
        """How many bytes it takes in a state, about."""
        return len(self.said) + sum(len(event) + len(status) + 24 for event, status in self.history)


class AttachedArtifact(msgspec.Struct):
    """An artifact of the session."""

    id: str
    sha256: str
    name: str
    role: str


class Warned(msgspec.Struct, omit_defaults=True):
    """Something that a reader of the session should know."""

    code: str
    message: str
    id: str | None = None


class FoldedSession(msgspec.Struct):
    """The state of a session after ``position`` events; what a snapshot holds."""

    position: int = 0
    at_ms: int = 0
    control: dict[str, bytes] = {}
    is_open: bool = True
    status: str = "idle"
    stop_reason: str | None = None
    is_resumed: bool = False
    facts: dict[str, KnownFact] = {}
    goal: Goal | None = None
    first_message: Goal | None = None
    decided: list[Decided] = []
    open_calls: dict[str, OpenCall] = {}
    closed_calls: list[str] = []
    repeated_calls: list[str] = []
    calls_total: int = 0
    calls_failed: int = 0
    sandboxes: dict[str, PlacedSandbox] = {}
    sandbox: str | None = None
    own: ModelUsage = msgspec.field(default_factory=ModelUsage)
    inherited: ModelUsage = msgspec.field(default_factory=ModelUsage)
    last_request: str | None = None
    last_used: ModelUsage = msgspec.field(default_factory=ModelUsage)
    checkpoint: LastCheckpoint | None = None
    checkpoints: int = 0
    leased_since: int | None = None
    is_overdue: bool = False
    context_from: int = 0
    resets: int = 0
    reset_to: str | None = None
    compactions: int = 0
    compacted: list[CompactedRange] = []
    artifacts: list[AttachedArtifact] = []
    warnings: list[Warned] = []
    memory_writes: list[str] = []
    memory_reads: list[str] = []
    rolled_back: list[str] = []
