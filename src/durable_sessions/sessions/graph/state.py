"""The state of a session as it is shown: its fold, and two members that tell the time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from durable_sessions.schema_notes import Offset, about
from durable_sessions.sessions.graph import shown_control
from durable_sessions.sessions.graph.budget import Meter
from durable_sessions.sessions.graph.control import Control
from durable_sessions.sessions.graph.fold import Fold
from durable_sessions.sessions.graph.folded_session import (
    AttachedArtifact,
    Decided,
    Goal,
    KnownFact,
    LastCheckpoint,
    OpenCall,
    Warned,
)
from durable_sessions.sessions.graph.happened import ModelUsage
from durable_sessions.sessions.graph.outcome import DoneCondition, FeatureState
from durable_sessions.sessions.graph.schemas import FactKind, FileDigest, Verdict
from durable_sessions.sessions.graph.shown_control import ShownLease, ShownRoute, ShownStop
from durable_sessions.sessions.record import ForkedFrom
from durable_sessions.sessions.summary import UNDER_WAY
from durable_sessions.streams import offsets
from durable_sessions.times import rfc3339

_WAITING = frozenset({"requires_action", "budget_reached"})


class ShownFact(msgspec.Struct):
    """Something that the session knows."""

    value: msgspec.Raw
    kind: FactKind
    id: str
    offset: Offset
    actor: str


class ShownFeature(msgspec.Struct):
    """A feature of the outcome, and the last verdict on it."""

    id: str
    text: str
    check: str | None
    files: list[FileDigest] | None
    passing: bool
    verdict: Verdict | None
    evaluation: str | None
    evaluated_by: str | None
    iterations: int


class ShownOutcome(msgspec.Struct):
    """The done-condition."""

    id: str
    description: str | None
    defined_by: str
    amendments: int
    removed: list[str]
    features: list[ShownFeature]


class ShownRequest(msgspec.Struct):
    """A request for approval that waits for a decision."""

    id: str
    question: str
    options: list[str]
    blocking: bool
    about: str | None
    actor: str


class ShownApprovals(msgspec.Struct):
    """Requests for approval, and the newest decisions."""

    pending: list[ShownRequest]
    decided: list[Decided]


class ShownCall(msgspec.Struct):
    """A tool call without a result."""

    id: str
    name: str
    input: msgspec.Raw
    effect: str
    idempotency_key: str | None
    offset: Offset


class ShownCalls(msgspec.Struct):
    """Tool calls."""

    open: list[ShownCall]
    total: int
    failed: int


class ShownTrip(msgspec.Struct):
    """The limit that was reached."""

    limit: str
    max: int | float
    value: int | float
    id: str


class ShownBudget(msgspec.Struct):
    """Limits, and what has been used of each measure."""

    limits: dict[str, int | float]
    used: dict[str, int | float]
    set_by: Annotated[dict[str, str], about("Which event has set a limit, if it was an event.")]
    tripped: ShownTrip | None


class ShownUsage(msgspec.Struct):
    """What model requests used: in this session, and in what it inherited."""

    own: ModelUsage
    inherited: ModelUsage


class ShownContext(msgspec.Struct):
    """Where the context begins, and how often it was reset and compacted."""

    from_: int = msgspec.field(name="from")
    resets: int
    compactions: int


class ShownMemory(msgspec.Struct):
    """What the session wrote to memory scopes, read there, and rolled back."""

    writes: list[str]
    reads: list[str]
    rolled_back: list[str]


class SessionState(msgspec.Struct, kw_only=True):
    """The state of a session at an offset."""

    session: str
    offset: Offset
    event_count: int
    lifecycle: str
    status: str
    stop_reason: str | None
    forked_from: ForkedFrom | None
    done: bool | None
    stops: list[ShownStop]
    goal: Goal | None
    facts: dict[str, ShownFact]
    outcome: ShownOutcome | None
    approvals: ShownApprovals
    calls: ShownCalls
    epoch: int
    lease: ShownLease | None
    route: ShownRoute | None
    sandbox: dict[str, Any] | None
    sandboxes: list[dict[str, Any]]
    budget: ShownBudget | None
    usage: ShownUsage
    checkpoint: dict[str, Any] | None
    checkpoints: int
    events_since_checkpoint: int
    context: ShownContext
    memory: ShownMemory
    artifacts: list[AttachedArtifact]
    generators: list[str]
    warnings: list[Warned]


@dataclass(frozen=True)
class Around:
    """What the log of a session does not say of it.

    ``renewed_ms`` is when its lease was renewed last, None to count from its claim. ``is_declared`` says that
    principals are only declared, because the server has no keys.
    """

    session: str
    now_ms: int
    closed: bool = False
    archived: bool = False
    forked_from: ForkedFrom | None = None
    renewed_ms: int | None = None
    is_declared: bool = False


def state(fold: Fold, around: Around) -> SessionState:
    """Return the state after the events that were folded."""
    folded, control = fold.folded, fold.control
    core, outcome = control.core, control.outcome
    checkpoint = folded.checkpoint
    is_over = around.closed or around.archived
    status, stop_reason = _status(fold, around)
    return SessionState(
        session=around.session,
        offset=offsets.encode(folded.position),
        event_count=folded.position,
        lifecycle=_lifecycle(fold, around),
        status=status,
        stop_reason=stop_reason,
        forked_from=around.forked_from,
        done=control.done,
        stops=shown_control.stops(control),
        goal=folded.goal or folded.first_message,
        facts=shown_facts(folded.facts),
        outcome=shown_outcome(outcome),
        approvals=ShownApprovals(pending(fold), folded.decided),
        calls=ShownCalls(
            [_call(call) for call in folded.open_calls.values()], folded.calls_total, folded.calls_failed
        ),
        epoch=core.epoch,
        lease=None if is_over else shown_control.lease(core.lease, around.renewed_ms),
        route=shown_control.route(control),
        sandbox=None if folded.sandbox is None else _said(folded.sandboxes[folded.sandbox].said),
        sandboxes=[
            _said(one.said) | {"history": [{"id": event, "status": status} for event, status in one.history]}
            for one in folded.sandboxes.values()
        ],
        budget=_budget(control, around.now_ms),
        usage=ShownUsage(folded.own, folded.inherited),
        checkpoint=None if checkpoint is None else shown_checkpoint(checkpoint),
        checkpoints=folded.checkpoints,
        events_since_checkpoint=folded.position - (0 if checkpoint is None else checkpoint.position + 1),
        context=ShownContext(folded.context_from, folded.resets, folded.compactions),
        memory=ShownMemory(folded.memory_writes, folded.memory_reads, folded.rolled_back),
        artifacts=folded.artifacts,
        generators=sorted(control.generators),
        warnings=_warnings(fold, around),
    )


def _status(fold: Fold, around: Around) -> tuple[str, str | None]:
    """Return the status and why the session stopped; no event says that a closed one runs no longer."""
    folded = fold.folded
    if around.archived or (around.closed and folded.status in UNDER_WAY):
        return "terminated", None
    return folded.status, folded.stop_reason


def _lifecycle(fold: Fold, around: Around) -> str:
    folded, core = fold.folded, fold.control.core
    if around.archived:
        return "archived"
    if around.closed:
        return "closed"
    if core.stops or (folded.status == "idle" and folded.stop_reason in _WAITING):
        return "paused"
    if folded.is_open and core.wakes == 0:
        return "open"
    return "resumed" if core.lifted or folded.is_resumed or core.wakes > 1 else "active"


def shown_facts(facts: Mapping[str, KnownFact]) -> dict[str, ShownFact]:
    """Return facts as they are shown."""
    return {
        key: ShownFact(fact.value, fact.kind, fact.id, offsets.encode(fact.position), fact.actor)
        for key, fact in facts.items()
    }


def shown_checkpoint(checkpoint: LastCheckpoint) -> dict[str, Any]:
    """Return a checkpoint as it is shown."""
    return {
        "id": checkpoint.id,
        "offset": offsets.encode(checkpoint.position),
        "at": rfc3339(checkpoint.at_ms),
        "actor": checkpoint.actor,
        "done": [],
        "git": None,
        "state": None,
        **_said(checkpoint.said),
    }


def shown_outcome(outcome: DoneCondition | None) -> ShownOutcome | None:
    """Return the done-condition as it is shown."""
    if outcome is None:
        return None
    return ShownOutcome(
        outcome.id,
        outcome.description,
        outcome.defined_by,
        outcome.amendments,
        outcome.removed,
        [_feature(feature) for feature in outcome.features],
    )


def _feature(feature: FeatureState) -> ShownFeature:
    return ShownFeature(
        feature.id,
        feature.text,
        feature.check,
        feature.files,
        feature.passing,
        feature.verdict,
        feature.evaluation,
        feature.evaluated_by,
        feature.iterations,
    )


def pending(fold: Fold) -> list[ShownRequest]:
    """Return what waits for a decision: requests, and calls that ask for a confirmation."""
    requests = [
        ShownRequest(one.id, one.question, list(one.options), one.blocking, one.about, one.actor)
        for one in fold.control.approvals
    ]
    for call in fold.folded.open_calls.values():
        if call.asks:
            question = f"May {call.name or 'this tool'} be called?"
            requests.append(
                ShownRequest(call.id, question, ["approve", "reject"], False, call.id, call.actor)
            )
    return requests


def _call(call: OpenCall) -> ShownCall:
    return ShownCall(
        call.id, call.name, call.input, call.effect, call.idempotency_key, offsets.encode(call.position)
    )


def _budget(control: Control, now_ms: int) -> ShownBudget | None:
    meter: Meter | None = control.meter
    if meter is None:
        return None
    used = {
        measure: meter.used(measure, now_ms)
        for measure in ("tokens", "usd", "seconds", "tool_calls", "consecutive_errors", "repeated_calls")
    }
    trip = control.core.trip
    tripped = None if trip is None else ShownTrip(trip.limit, trip.max, trip.value, trip.id)
    return ShownBudget(meter.limits, used, meter.set_by, tripped)


def _warnings(fold: Fold, around: Around) -> list[Warned]:
    warnings = list(fold.folded.warnings)
    meter = fold.control.meter
    if meter is not None and "usd" in meter.limits and not meter.is_cost_known and fold.folded.own.requests:
        warnings.append(
            Warned("no_cost_reported", "There is a limit in usd, but no event has said what it cost.")
        )
    if around.is_declared:
        warnings.append(
            Warned("principals_declared", "The server has no keys, so that principals are only declared.")
        )
    return warnings


def _said(said: msgspec.Raw) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(said, type=dict[str, msgspec.Raw])
    return document
