"""Which events a session takes now: stops, transitions, and who may judge.

Called event by event, each against the control that the events before it leave; a refusal changes nothing.
"""

from typing import NamedTuple

from durable_sessions.errors import (
    ApprovalPendingError,
    BudgetExceededError,
    ForbiddenError,
    InvalidEventError,
    InvalidTransitionError,
    NotIndependentError,
    SessionPausedError,
    TooManyFactsError,
)
from durable_sessions.limits import Limits
from durable_sessions.sessions.graph import approvals, outcome, schemas
from durable_sessions.sessions.graph.control import Control
from durable_sessions.sessions.graph.happened import MODEL_REQUEST_END
from durable_sessions.sessions.graph.lease import is_work
from durable_sessions.sessions.graph.schemas import StrictEvent

_REPORTS = frozenset({"agent.tool_result", "agent.mcp_tool_result", MODEL_REQUEST_END})
"""What a stopped session still takes of its worker: what was running already may report."""


class Appender(NamedTuple):
    """Who appends: the principal, and whether its role is evaluator or higher."""

    principal: str
    may_judge: bool


def require(
    control: Control,
    kind: str,
    event: StrictEvent | None,
    by: Appender,
    position: int,
    index: int | None,
    limits: Limits,
) -> None:
    """Refuse an event that the session does not take now; ``event`` is None for free types."""
    if event is None:
        if control.is_controlled and is_work(kind) and kind not in _REPORTS:
            require_going(control, kind)
        return
    if _is_judgement(control, event):
        require_judge(control, by)
    if isinstance(event, schemas.Paused):
        if control.core.paused is not None:
            raise InvalidTransitionError(problem="The session is paused already.", index=index)
    elif isinstance(event, schemas.Resumed):
        if control.core.paused is None:
            raise InvalidTransitionError(problem="The session is not paused.", index=index)
    elif isinstance(event, schemas.Routed):
        _require_features(control, event, index)
    elif isinstance(event, schemas.Fact | schemas.FactRetracted):
        _require_room_for_facts(control, limits)
    elif isinstance(event, schemas.Adopted):
        _require_room_for_facts(control, limits, len(event.facts))
    elif isinstance(event, schemas.Evaluation):
        outcome.require_feature(control.outcome, event, index)
    elif isinstance(event, schemas.ContextCompacted):
        if event.to > position:
            raise InvalidEventError(
                problem=f"to is {event.to}, beyond the {position} events before this one.",
                index=index,
                member="to",
            )
    elif isinstance(event, schemas.ApprovalRequested):
        approvals.require_room(control.approvals, limits)
    elif isinstance(event, schemas.ApprovalDecided):
        approvals.require_pending(control.approvals, event, index)


def _require_room_for_facts(control: Control, limits: Limits, count: int = 1) -> None:
    core = control.core
    has_room = core.facts + count <= limits.facts_per_session_max
    if not has_room or core.facts_bytes >= limits.facts_bytes_per_session_max:
        raise TooManyFactsError(
            facts_per_session_max=limits.facts_per_session_max,
            facts_bytes_per_session_max=limits.facts_bytes_per_session_max,
        )


def require_judge(control: Control, by: Appender) -> None:
    """Refuse a judgement by who may not judge, or has generated what is judged."""
    require_role(by)
    if by.principal in control.generators:
        raise NotIndependentError(principal=by.principal)


def require_role(by: Appender) -> None:
    """Refuse who is no evaluator."""
    if not by.may_judge:
        raise ForbiddenError(
            problem=f"This is a judgement: it needs a key with the role evaluator, and {by.principal} has a "
            "lower one."
        )


def _is_judgement(control: Control, event: StrictEvent) -> bool:
    if isinstance(event, schemas.OutcomeDefined):
        return control.outcome is not None
    if isinstance(event, schemas.BudgetSet):
        return control.meter is not None and control.meter.raises(event)
    return event.is_judgement


def require_going(control: Control, kind: str) -> None:
    """Refuse work while the session is stopped, with the code of the first stop."""
    stops = control.core.stops
    if not stops:
        return
    told = [{"kind": stop.kind, "id": stop.id} for stop in stops]
    if stops[0].kind == "paused":
        raise SessionPausedError(kind=kind, stops=told)
    if stops[0].kind == "approval":
        raise ApprovalPendingError(kind=kind, stops=told)
    trip = control.core.trip
    assert trip is not None, "the stop is a budget's"
    raise BudgetExceededError(kind=kind, stops=told, limit=trip.limit, max=trip.max, value=trip.value)


def _require_features(control: Control, event: schemas.Routed, index: int | None) -> None:
    known = set() if control.outcome is None else {feature.id for feature in control.outcome.features}
    for at, name in enumerate(event.needs):
        if name not in known:
            raise InvalidEventError(
                problem=f"The outcome has no feature {name}.", index=index, member=f"needs[{at}]"
            )
