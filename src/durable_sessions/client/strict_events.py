"""The events that the server checks, as types: what to append, and what it writes itself.

Made by ``python -m tools.reference`` from the structs of the server. docs/reference/events.md has the rules.
"""

from collections.abc import Mapping
from typing import Any, Literal, Required, TypedDict

Rel = Literal[
    "because", "about", "evaluates", "answers", "uses", "reads", "undoes", "supersedes", "result_of", "adopts"
]
Verdict = Literal["pass", "fail", "inconclusive"]
Decision = Literal["approve", "reject", "edit", "respond"]
SandboxStatus = Literal["requested", "ready", "suspended", "lost", "failed", "released"]
EndOutcome = Literal["completed", "failed", "cancelled", "timed_out"]
FactKind = Literal["fact", "decision", "goal"]
Influence = Literal["planning", "validation", "none", "unknown"]
MemoryReason = Literal[
    "tool_result", "human_correction", "failed_attempt", "validation", "reflection", "state"
]
MemoryKind = Literal["note", "failure_pattern", "procedure", "preference"]


class RefFields(TypedDict, total=False):
    """An edge to an event that was there before, or to an artifact (``sha256:<digest>``)."""

    rel: Required[Rel]
    id: Required[str]
    session: str


SeeFields = TypedDict(
    "SeeFields",
    {
        "types": list[str],
        "last": int,
        "from": int,
        "facts": list[str],
    },
    total=False,
)
"""What the context of the next worker is narrowed to."""


class FileDigestFields(TypedDict, total=False):
    """A file that a check rests on, as it must be."""

    path: Required[str]
    sha256: Required[str]


class FeatureFields(TypedDict, total=False):
    """One thing that must be so before the session is done."""

    id: Required[str]
    text: Required[str]
    check: str
    files: list[FileDigestFields]


class GitFields(TypedDict, total=False):
    """Where the work stands in a git repository."""

    commit: Required[str]
    branch: str


class ReturnedWriteFields(TypedDict, total=False):
    """A write that a read returned: the event, and the session that it was appended to."""

    id: Required[str]
    session: Required[str | None]


class AdoptedFactFields(TypedDict, total=False):
    """A fact that was taken over; ``id`` is the event that said it in the branch."""

    key: Required[str]
    value: Required[Any]
    kind: Required[FactKind]
    id: Required[str]


class AdoptedVerdictFields(TypedDict, total=False):
    """A verdict that was taken over."""

    feature: Required[str]
    verdict: Required[Verdict]
    id: Required[str]
    by: Required[str]


class AdoptedArtifactFields(TypedDict, total=False):
    """An artifact that was taken over."""

    id: Required[str]
    sha256: Required[str]
    name: Required[str]
    role: Required[str]


class RedactedEventFields(TypedDict, total=False):
    """An event whose body is gone."""

    id: Required[str]
    offset: Required[str]
    type: Required[str]
    sha256: Required[str | None]
    bytes: Required[int]


class PausedEvent(TypedDict, total=False):
    """Stops the session until it is resumed."""

    type: Required[Literal["ds.session.paused"]]
    reason: Required[str]
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class ResumedEvent(TypedDict, total=False):
    """Lifts a pause."""

    type: Required[Literal["ds.session.resumed"]]
    reason: str
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class EndedEvent(TypedDict, total=False):
    """The session was closed, with its outcome."""

    type: Required[Literal["ds.session.ended"]]
    outcome: Required[EndOutcome]
    reason: str
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class LeaseClaimedEvent(TypedDict, total=False):
    """A worker was given the session, under a new epoch."""

    type: Required[Literal["ds.lease.claimed"]]
    epoch: Required[int]
    worker: Required[str]
    seconds: Required[int]
    exclusive: Required[bool]
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class LeaseReleasedEvent(TypedDict, total=False):
    """The worker has given the session back."""

    type: Required[Literal["ds.lease.released"]]
    epoch: Required[int]
    worker: Required[str]
    reason: str
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class RoutedEvent(TypedDict, total=False):
    """The session goes to a principal next; `*` clears the route."""

    type: Required[Literal["ds.routed"]]
    to: Required[str]
    reason: Required[str]
    needs: list[str]
    see: SeeFields
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class FactEvent(TypedDict, total=False):
    """Something that the session knows from now on and that no compaction drops."""

    type: Required[Literal["ds.fact"]]
    key: Required[str]
    value: Required[Any]
    kind: FactKind
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class FactRetractedEvent(TypedDict, total=False):
    """A fact no longer holds."""

    type: Required[Literal["ds.fact.retracted"]]
    key: Required[str]
    reason: str
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class OutcomeDefinedEvent(TypedDict, total=False):
    """The done-condition: features that all fail at first."""

    type: Required[Literal["ds.outcome.defined"]]
    features: Required[list[FeatureFields]]
    description: str
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class EvaluationEvent(TypedDict, total=False):
    """A verdict, by somebody who did not do the work."""

    type: Required[Literal["ds.evaluation"]]
    verdict: Required[Verdict]
    feature: str
    score: float
    metrics: Mapping[str, float]
    command: str
    exit_code: int
    files: list[FileDigestFields]
    sandbox: str
    model: str
    note: str
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class CheckpointEvent(TypedDict, total=False):
    """Where a worker stands, and what the next one should do."""

    type: Required[Literal["ds.checkpoint"]]
    units: Required[int]
    next: Required[str]
    instructions: Required[str]
    done: list[str]
    git: GitFields
    state: Any
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


ContextCompactedEvent = TypedDict(
    "ContextCompactedEvent",
    {
        "type": Required[Literal["ds.context.compacted"]],
        "from": Required[int],
        "to": Required[int],
        "summary": Required[str],
        "id": str,
        "refs": list[RefFields],
        "metadata": Mapping[str, Any],
        "session_thread_id": str,
    },
    total=False,
)
"""A range of events is replaced by a summary in the context; the events stay."""


class ContextResetEvent(TypedDict, total=False):
    """The context begins anew, from a checkpoint."""

    type: Required[Literal["ds.context.reset"]]
    checkpoint: Required[str]
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class ApprovalRequestedEvent(TypedDict, total=False):
    """Somebody else must decide before the work goes on."""

    type: Required[Literal["ds.approval.requested"]]
    question: Required[str]
    options: list[Decision]
    blocking: bool
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class ApprovalDecidedEvent(TypedDict, total=False):
    """The answer to a request for approval."""

    type: Required[Literal["ds.approval.decided"]]
    request: Required[str]
    decision: Required[Decision]
    reason: Required[str]
    payload: Any
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class BudgetSetEvent(TypedDict, total=False):
    """Limits; a null lifts one."""

    type: Required[Literal["ds.budget.set"]]
    tokens: float | None
    usd: float | None
    seconds: float | None
    tool_calls: float | None
    consecutive_errors: float | None
    repeated_calls: float | None
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class BudgetTrippedEvent(TypedDict, total=False):
    """A limit was reached."""

    type: Required[Literal["ds.budget.tripped"]]
    limit: Required[Literal["tokens", "usd", "seconds", "tool_calls", "consecutive_errors", "repeated_calls"]]
    max: Required[float]
    value: Required[float]
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class SandboxReportedEvent(TypedDict, total=False):
    """What the harness says of a sandbox; never refused for its order."""

    type: Required[Literal["ds.sandbox"]]
    sandbox: Required[str]
    backend: Required[str]
    status: Required[SandboxStatus]
    image: str
    image_digest: str
    workdir: str
    network: str
    host: str
    reason: str
    exit_code: int
    retry_of: str
    spec: Any
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class MemoryWrittenEvent(TypedDict, total=False):
    """Something that later sessions find in a scope, with the evidence for it."""

    type: Required[Literal["ds.memory.written"]]
    scope: Required[str]
    key: Required[str]
    value: Required[Any]
    why: Required[MemoryReason]
    kind: MemoryKind
    confidence: float
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class MemoryReadEvent(TypedDict, total=False):
    """What was read from a scope, and what it was for."""

    type: Required[Literal["ds.memory.read"]]
    scope: Required[str]
    at: Required[int]
    returned: Required[list[ReturnedWriteFields]]
    query: str
    key: str
    influence: Influence
    workflow: str
    backend: str
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class MemoryRolledBackEvent(TypedDict, total=False):
    """A write is not remembered any more; it stays in the log."""

    type: Required[Literal["ds.memory.rolled_back"]]
    write: Required[str]
    reason: Required[str]
    session: str
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class ArtifactAttachedEvent(TypedDict, total=False):
    """An artifact belongs to the session, under a name and a role."""

    type: Required[Literal["ds.artifact"]]
    sha256: Required[str]
    name: Required[str]
    role: Required[str]
    bytes: int
    media_type: str
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class AdoptedEvent(TypedDict, total=False):
    """The durable tier of a branch was taken over, as of a position of it."""

    type: Required[Literal["ds.adopted"]]
    session: Required[str]
    position: Required[int]
    facts: Required[list[AdoptedFactFields]]
    verdicts: Required[list[AdoptedVerdictFields]]
    artifacts: Required[list[AdoptedArtifactFields]]
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


class RedactionRecordedEvent(TypedDict, total=False):
    """Events, and artifacts, whose bodies were erased."""

    type: Required[Literal["ds.redacted"]]
    events: Required[list[RedactedEventFields]]
    reason: Required[str]
    artifacts: list[str]
    id: str
    refs: list[RefFields]
    metadata: Mapping[str, Any]
    session_thread_id: str


StrictEvent = (
    PausedEvent
    | ResumedEvent
    | RoutedEvent
    | FactEvent
    | FactRetractedEvent
    | OutcomeDefinedEvent
    | EvaluationEvent
    | CheckpointEvent
    | ContextCompactedEvent
    | ContextResetEvent
    | ApprovalRequestedEvent
    | ApprovalDecidedEvent
    | BudgetSetEvent
    | SandboxReportedEvent
    | MemoryWrittenEvent
    | MemoryReadEvent
    | MemoryRolledBackEvent
    | ArtifactAttachedEvent
)
"""An event that a client sends."""


ServerEvent = (
    EndedEvent
    | LeaseClaimedEvent
    | LeaseReleasedEvent
    | BudgetTrippedEvent
    | AdoptedEvent
    | RedactionRecordedEvent
)
"""An event that only the server writes."""
