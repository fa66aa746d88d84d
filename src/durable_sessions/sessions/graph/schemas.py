"""The strict events: one struct per type that begins with ``ds.``.

Validation, the OpenAPI document, the reference page and the types of the client come from these structs. What
a single event cannot say about itself (a transition, a role, a target that must exist) is not decided here.
"""

from typing import Annotated, ClassVar, Literal

import msgspec

from durable_sessions.json_wanted import as_words
from durable_sessions.limits import Limits
from durable_sessions.schema_notes import about

PREFIX = "ds."
_LIMITS = Limits()

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=_LIMITS.graph_text_max)]
"""A text of ordinary length."""
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=_LIMITS.graph_name_max)]
_Instructions = Annotated[str, msgspec.Meta(min_length=1, max_length=_LIMITS.checkpoint_instructions_max)]
_Summary = Annotated[str, msgspec.Meta(min_length=1, max_length=_LIMITS.compaction_summary_max)]
_EventId = Annotated[str, msgspec.Meta(min_length=1, max_length=_LIMITS.event_id_max)]
_Session = Annotated[
    str,
    msgspec.Meta(
        pattern=r"\A[A-Za-z0-9_:@-][A-Za-z0-9._:@-]{0,199}\Z",
        extra=as_words("a session's id: 1 to 200 of A-Z a-z 0-9 . _ : @ -, not a dot first"),
    ),
]
_Principal = Annotated[str, msgspec.Meta(min_length=1, max_length=_LIMITS.principal_characters_max)]
_FeatureId = Annotated[
    str, msgspec.Meta(pattern=r"\A[A-Za-z0-9._-]{1,100}\Z", extra=as_words("1 to 100 of A-Z a-z 0-9 . _ -"))
]
_Sha256 = Annotated[
    str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z", extra=as_words("64 lower-case hex digits"))
]
Scope = Annotated[
    str,
    msgspec.Meta(
        pattern=r"\A(user|agent|project|workflow|store):[A-Za-z0-9._@/-]{1,200}\Z",
        extra=as_words(
            "user:, agent:, project:, workflow: or store: and a name of 1 to 200 of A-Z a-z 0-9 . _ @ / -"
        ),
    ),
]
MemoryKey = Annotated[str, msgspec.Meta(min_length=1, max_length=_LIMITS.memory_key_max)]
_Position = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Value = Annotated[msgspec.Raw, about("Any JSON of at most {graph_value_bytes_max} bytes.")]
_Positive = Annotated[int, msgspec.Meta(gt=0)] | Annotated[float, msgspec.Meta(gt=0)]

Imported = Literal["trusted", "untrusted"]
"""What the server says of imported events: whether an administrator vouches for them."""
Rel = Literal[
    "because",
    "about",
    "evaluates",
    "answers",
    "uses",
    "reads",
    "undoes",
    "supersedes",
    "result_of",
    "adopts",
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
ARTIFACT_REF = "sha256:"
"""What the id of a ref to an artifact begins with."""


class Ref(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An edge to an event that was there before, or to an artifact (``sha256:<digest>``)."""

    rel: Rel
    id: _EventId
    session: Annotated[
        _Session | None, about("Whose event it is; without it this session, inherited events included.")
    ] = None

    @property
    def artifact(self) -> str | None:
        """The digest of the artifact that this names, None if it names an event."""
        return self.id.removeprefix(ARTIFACT_REF) if self.id.startswith(ARTIFACT_REF) else None


class StrictEvent(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What every strict event may have."""

    is_judgement: ClassVar[bool] = False
    """Whether it always needs the role evaluator and a principal that did not generate."""
    is_servers: ClassVar[bool] = False
    """Whether only the server writes it."""

    type: str
    id: Annotated[str | None, about("Your own; the server gives one otherwise.")] = None
    refs: Annotated[list[Ref], msgspec.Meta(max_length=_LIMITS.refs_per_event_max)] = []
    metadata: Annotated[
        dict[str, msgspec.Raw], about("Yours, of at most {graph_metadata_bytes_max} bytes; never looked at.")
    ] = {}
    session_thread_id: Annotated[str | None, about("The thread that it belongs to, if not the first.")] = None


class Paused(StrictEvent):
    """Stops the session until it is resumed."""

    reason: Text


class Resumed(StrictEvent):
    """Lifts a pause."""

    reason: Text | None = None


class Ended(StrictEvent):
    """The session was closed, with its outcome."""

    is_servers = True

    outcome: EndOutcome
    reason: Text | None = None


class LeaseClaimed(StrictEvent):
    """A worker was given the session, under a new epoch."""

    is_servers = True

    epoch: Annotated[int, msgspec.Meta(ge=1)]
    worker: _Name
    seconds: Annotated[int, msgspec.Meta(ge=1)]
    exclusive: bool


class LeaseReleased(StrictEvent):
    """The worker has given the session back."""

    is_servers = True

    epoch: Annotated[int, msgspec.Meta(ge=1)]
    worker: _Name
    reason: Text | None = None


class See(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What the context of the next worker is narrowed to."""

    types: Annotated[list[_Name], msgspec.Meta(max_length=_LIMITS.see_entries_max)] | None = None
    last: Annotated[
        Annotated[int, msgspec.Meta(ge=0)] | None, about("Only this many of the last events.")
    ] = None
    from_: Annotated[_Position | None, about("Events from this position on.")] = msgspec.field(
        name="from", default=None
    )
    facts: Annotated[
        Annotated[list[_Name], msgspec.Meta(max_length=_LIMITS.see_entries_max)] | None,
        about("Keys, or beginnings of keys with `*` behind them."),
    ] = None


class Routed(StrictEvent):
    """The session goes to a principal next; `*` clears the route."""

    to: Annotated[_Principal, about("A principal, or `*` for anyone.")]
    reason: Text
    needs: Annotated[
        list[_FeatureId],
        msgspec.Meta(max_length=_LIMITS.features_max),
        about("Features that must pass before it is woken."),
    ] = []
    see: See | None = None


class Fact(StrictEvent):
    """Something that the session knows from now on and that no compaction drops."""

    key: _Name
    value: _Value
    kind: Annotated[FactKind, about("`fact` if absent.")] = "fact"


class FactRetracted(StrictEvent):
    """A fact no longer holds."""

    key: _Name
    reason: Text | None = None


class FileDigest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that a check rests on, as it must be."""

    path: Text
    sha256: _Sha256


_Files = Annotated[list[FileDigest], msgspec.Meta(max_length=_LIMITS.feature_files_max)]


class Feature(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing that must be so before the session is done."""

    id: _FeatureId
    text: Text
    check: Annotated[Text | None, about("The command that shows it.")] = None
    files: Annotated[_Files | None, about("Files that a `pass` must find unchanged.")] = None


class OutcomeDefined(StrictEvent):
    """The done-condition: features that all fail at first."""

    features: Annotated[list[Feature], msgspec.Meta(min_length=1, max_length=_LIMITS.features_max)]
    description: Text | None = None


class Evaluation(StrictEvent):
    """A verdict, by somebody who did not do the work."""

    is_judgement = True

    verdict: Verdict
    feature: _FeatureId | None = None
    score: _Share | None = None
    metrics: Annotated[dict[_Name, float], msgspec.Meta(max_length=_LIMITS.metrics_max)] | None = None
    command: Annotated[Text | None, about("The check that was run.")] = None
    exit_code: int | None = None
    files: Annotated[_Files | None, about("The files of the check, as they were found.")] = None
    sandbox: Annotated[_Name | None, about("Where it was run.")] = None
    model: Annotated[_Name | None, about("The model that judged, if one did.")] = None
    note: Text | None = None


class Git(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Where the work stands in a git repository."""

    commit: _Name
    branch: _Name | None = None


class Checkpoint(StrictEvent):
    """Where a worker stands, and what the next one should do."""

    units: Annotated[int, msgspec.Meta(ge=0), about("How much was done, in units of your own.")]
    next: Annotated[Text, about("What comes next.")]
    instructions: Annotated[_Instructions, about("What the next worker should know.")]
    done: Annotated[
        list[Text],
        msgspec.Meta(max_length=_LIMITS.features_max),
        about("What the worker claims to have done."),
    ] = []
    git: Git | None = None
    state: _Value | msgspec.UnsetType = msgspec.UNSET


class ContextCompacted(StrictEvent):
    """A range of events is replaced by a summary in the context; the events stay."""

    from_: Annotated[_Position, about("The position of the first event.")] = msgspec.field(name="from")
    to: Annotated[_Position, about("The position behind the last event.")]
    summary: _Summary


class ContextReset(StrictEvent):
    """The context begins anew, from a checkpoint."""

    checkpoint: Annotated[_EventId, about("Its event.")]


class ApprovalRequested(StrictEvent):
    """Somebody else must decide before the work goes on."""

    question: Text
    options: Annotated[
        list[Decision],
        msgspec.Meta(min_length=1, max_length=4),
        about("What may be decided; `approve` and `reject` if absent."),
    ] = msgspec.field(default_factory=lambda: ["approve", "reject"])
    blocking: Annotated[bool, about("Whether it stops the session; true if absent.")] = True


class ApprovalDecided(StrictEvent):
    """The answer to a request for approval."""

    is_judgement = True

    request: Annotated[_EventId, about("The event that asked.")]
    decision: Decision
    reason: Text
    payload: _Value | msgspec.UnsetType = msgspec.UNSET


class BudgetSet(StrictEvent):
    """Limits; a null lifts one."""

    tokens: _Positive | msgspec.UnsetType | None = msgspec.UNSET
    usd: _Positive | msgspec.UnsetType | None = msgspec.UNSET
    seconds: _Positive | msgspec.UnsetType | None = msgspec.UNSET
    tool_calls: _Positive | msgspec.UnsetType | None = msgspec.UNSET
    consecutive_errors: _Positive | msgspec.UnsetType | None = msgspec.UNSET
    repeated_calls: _Positive | msgspec.UnsetType | None = msgspec.UNSET

    def limits(self) -> dict[str, int | float | None]:
        """Return the measures that this names, with their new limits."""
        named = ((measure, getattr(self, measure)) for measure in MEASURES)
        return {measure: limit for measure, limit in named if limit is not msgspec.UNSET}


MEASURES = ("tokens", "usd", "seconds", "tool_calls", "consecutive_errors", "repeated_calls")
"""What a budget can limit, in the order in which limits are looked at."""


class BudgetTripped(StrictEvent):
    """A limit was reached."""

    is_servers = True

    limit: Literal["tokens", "usd", "seconds", "tool_calls", "consecutive_errors", "repeated_calls"]
    max: int | float
    value: int | float


class SandboxReported(StrictEvent):
    """What the harness says of a sandbox; never refused for its order."""

    sandbox: Annotated[_Name, about("Its id.")]
    backend: Annotated[str, msgspec.Meta(min_length=1, max_length=_LIMITS.graph_word_max)]
    status: SandboxStatus
    image: Text | None = None
    image_digest: Text | None = None
    workdir: Text | None = None
    network: Text | None = None
    host: Text | None = None
    reason: Text | None = None
    exit_code: int | None = None
    retry_of: Annotated[_Name | None, about("The sandbox that it replaces.")] = None
    spec: _Value | msgspec.UnsetType = msgspec.UNSET


class ArtifactAttached(StrictEvent):
    """An artifact belongs to the session, under a name and a role."""

    sha256: _Sha256
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=_LIMITS.artifact_name_max)]
    role: Annotated[str, msgspec.Meta(min_length=1, max_length=_LIMITS.graph_word_max)]
    bytes: Annotated[int, msgspec.Meta(ge=0)] | None = None
    media_type: _Name | None = None


class MemoryWritten(StrictEvent):
    """Something that later sessions find in a scope, with the evidence for it."""

    scope: Scope
    key: MemoryKey
    value: _Value
    why: Annotated[MemoryReason, about("What it was learned from; `state` is an adapter's.")]
    kind: Annotated[MemoryKind, about("`note` if absent.")] = "note"
    confidence: _Share | None = None


class ReturnedWrite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A write that a read returned: the event, and the session that it was appended to.

    The session is null of what was written to a memory store without one.
    """

    id: _EventId
    session: _Session | None


class MemoryRead(StrictEvent):
    """What was read from a scope, and what it was for."""

    scope: Scope
    at: Annotated[_Position, about("How many records of the scope were read.")]
    returned: Annotated[list[ReturnedWrite], msgspec.Meta(max_length=_LIMITS.memory_returned_max)]
    query: Text | None = None
    key: MemoryKey | None = None
    influence: Annotated[Influence, about("What it is for, as the reader says; `unknown` if absent.")] = (
        "unknown"
    )
    workflow: _Name | None = None
    backend: Annotated[_Name | None, about("The index that found it, if not the server.")] = None


class MemoryRolledBack(StrictEvent):
    """A write is not remembered any more; it stays in the log."""

    write: Annotated[_EventId, about("The event that wrote it.")]
    reason: Text
    session: Annotated[_Session | None, about("Of the write; without it this session.")] = None


class AdoptedFact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fact that was taken over; ``id`` is the event that said it in the branch."""

    key: str
    value: msgspec.Raw
    kind: FactKind
    id: str


class AdoptedVerdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A verdict that was taken over."""

    feature: str
    verdict: Verdict
    id: str
    by: str


class AdoptedArtifact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An artifact that was taken over."""

    id: str
    sha256: str
    name: str
    role: str


class Adopted(StrictEvent):
    """The durable tier of a branch was taken over, as of a position of it."""

    is_servers = True

    session: _Session
    position: _Position
    facts: list[AdoptedFact]
    verdicts: list[AdoptedVerdict]
    artifacts: list[AdoptedArtifact]


class RedactedEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event whose body is gone."""

    id: str
    offset: str
    type: str
    sha256: str | None
    bytes: int


class RedactionRecorded(StrictEvent):
    """Events, and artifacts, whose bodies were erased."""

    is_servers = True

    events: list[RedactedEvent]
    reason: Text
    artifacts: list[str] = []


TYPES: dict[str, type[StrictEvent]] = {
    "ds.session.paused": Paused,
    "ds.session.resumed": Resumed,
    "ds.session.ended": Ended,
    "ds.lease.claimed": LeaseClaimed,
    "ds.lease.released": LeaseReleased,
    "ds.routed": Routed,
    "ds.fact": Fact,
    "ds.fact.retracted": FactRetracted,
    "ds.outcome.defined": OutcomeDefined,
    "ds.evaluation": Evaluation,
    "ds.checkpoint": Checkpoint,
    "ds.context.compacted": ContextCompacted,
    "ds.context.reset": ContextReset,
    "ds.approval.requested": ApprovalRequested,
    "ds.approval.decided": ApprovalDecided,
    "ds.budget.set": BudgetSet,
    "ds.budget.tripped": BudgetTripped,
    "ds.sandbox": SandboxReported,
    "ds.memory.written": MemoryWritten,
    "ds.memory.read": MemoryRead,
    "ds.memory.rolled_back": MemoryRolledBack,
    "ds.artifact": ArtifactAttached,
    "ds.adopted": Adopted,
    "ds.redacted": RedactionRecorded,
}
"""The strict types."""
