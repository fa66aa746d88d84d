"""Builds the session object for clients from the record, the summary and the stream."""

from collections.abc import Mapping
from typing import Any

import msgspec

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.sessions import cost_budget, event_ids, original_times, record, summary
from durable_sessions.sessions.graph import shown_control
from durable_sessions.sessions.graph.control import APPROVALS, CONTROL, MANAGED_OUTCOMES, METER, Control
from durable_sessions.sessions.leases import LeaseTimes
from durable_sessions.sessions.record import ForkedFrom
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.session_object import (
    CacheCreation,
    OutcomeEvaluation,
    SessionObject,
    SessionStats,
    SessionUsage,
)
from durable_sessions.sessions.summary import Outcome, Summary
from durable_sessions.storage.door import StreamView
from durable_sessions.streams import offsets
from durable_sessions.times import rfc3339

UNKNOWN_AGENT: dict[str, Any] = {
    "id": "agent_unknown",
    "type": "agent",
    "version": 1,
    "name": "unknown",
    "description": None,
    "system": None,
    "model": {"id": "unknown"},
    "tools": [],
    "mcp_servers": [],
    "skills": [],
    "execution_identity": {"type": "service_account"},
    "multiagent": None,
}
"""Shown for sessions that were created without an agent."""
_UNKNOWN_AGENT = msgspec.Raw(msgspec.json.encode(UNKNOWN_AGENT))
_UNKNOWN_ENVIRONMENT = "env_unknown"
_WAITING = frozenset({"requires_action", "budget_reached"})
_FEATURES_MAX = 100


def session_object(
    durable: StreamView, now_ms: int, times: LeaseTimes, *, source_deleted: bool = False
) -> SessionObject:
    """Return a session as it is shown; ``source_deleted`` says that it is a fork of one that is deleted."""
    attributes, stream = durable.attributes, durable.stream
    said, folded = record.of(attributes), summary.of(attributes)
    control = control_of(durable)
    archived = record.archived_at_ms(attributes)
    return SessionObject(
        id=session_of(stream.key),
        type="session",
        agent=_UNKNOWN_AGENT if said.agent == record.NULL else said.agent,
        environment_id=said.environment_id or _UNKNOWN_ENVIRONMENT,
        status=folded.status,
        title=said.title,
        metadata=said.metadata,
        created_at=rfc3339(stream.created_at_ms),
        updated_at=rfc3339(updated_ms(durable)),
        imported=original_times.of(attributes).is_imported,
        started_at=rfc3339(began_ms(durable)),
        last_activity_at=rfc3339(last_active_ms(durable)),
        archived_at=None if archived is None else rfc3339(archived),
        budget=cost_budget.shown(said, None if control is None else control.meter),
        resources=said.resources,
        vault_ids=said.vault_ids,
        outcome_evaluations=[*map(_outcome, folded.outcomes), *_features(control)],
        stats=_stats(folded, durable, now_ms),
        usage=_usage(folded),
        next_offset=offsets.encode(durable.tail),
        event_count=durable.tail,
        bytes=durable.record_bytes,
        lifecycle=lifecycle(durable, folded, control),
        incarnation=event_ids.tag(stream),
        done=None if control is None else control.done,
        lease=None if control is None else _lease(durable, control, times),
        route=None if control is None else shown_control.route(control),
        stops=[] if control is None else shown_control.stops(control),
        ttl_seconds=msgspec.UNSET if stream.ttl_seconds is None else stream.ttl_seconds,
        expires_at=msgspec.UNSET if stream.expires_at_ms is None else rfc3339(stream.expires_at_ms),
        forked_from=_source(said.forked_from, deleted=source_deleted),
    )


def control_of(durable: StreamView) -> Control | None:
    """Return what can refuse appends to a session, and when it is done; None if it has neither, as most."""
    attributes = durable.attributes
    is_worked = any(name in attributes for name in (CONTROL, METER, MANAGED_OUTCOMES))
    return Control(attributes, DEFAULT_LIMITS) if is_worked else None


def _source(source: ForkedFrom | None, *, deleted: bool) -> ForkedFrom | msgspec.UnsetType:
    if source is None:
        return msgspec.UNSET
    return msgspec.structs.replace(source, deleted=True) if deleted else source


def began_ms(durable: StreamView) -> int:
    """Return when a session began: when its first event happened if it was imported, else its creation."""
    first = original_times.of(durable.attributes).first_ms
    return durable.stream.created_at_ms if first is None else first


def updated_ms(durable: StreamView) -> int:
    """Return when a session was changed last."""
    return max(durable.changed_ms, durable.stream.created_at_ms)


def last_active_ms(durable: StreamView) -> int:
    """Return the time of the last event if the session was imported, else of its last change."""
    last = original_times.of(durable.attributes).last_ms
    return updated_ms(durable) if last is None else last


def lifecycle(durable: StreamView, folded: Summary, control: Control | None) -> str:
    """Return the lifecycle of a session: open, active, paused, resumed, closed or archived."""
    if record.ARCHIVED in durable.attributes:
        return "archived"
    if durable.closed:
        return "closed"
    is_waiting = folded.status == "idle" and folded.stop_reason in _WAITING
    if control is None or not control.is_controlled:
        return "paused" if is_waiting else "active" if durable.tail else "open"
    core = control.core
    if is_waiting or core.stops:
        return "paused"
    if not core.worked and not core.wakes:
        return "open"
    return "resumed" if core.lifted or core.wakes > 1 else "active"


def awaits_approval(attributes: Mapping[str, bytes]) -> bool:
    """Say whether a session waits for a decision: an open request, or a call that asks before it runs."""
    if APPROVALS in attributes and Control(attributes, DEFAULT_LIMITS).approvals:
        return True
    folded = summary.of(attributes)
    return folded.status == "idle" and folded.stop_reason == "requires_action"


def _lease(durable: StreamView, control: Control, times: LeaseTimes) -> shown_control.ShownLease | None:
    lease = control.core.lease
    # Nobody can write here any more, so it is nobody's turn.
    is_over = durable.closed or record.ARCHIVED in durable.attributes
    return (
        None
        if lease is None or is_over
        else shown_control.lease(lease, times.renewed_ms(durable.stream.id, lease))
    )


def _features(control: Control | None) -> list[OutcomeEvaluation]:
    """Return the features of an outcome as Managed Agents' clients know them."""
    outcome = None if control is None else control.outcome
    if outcome is None:
        return []
    return [
        OutcomeEvaluation(
            "outcome_evaluation",
            one.id,
            one.text,
            "pending" if one.verdict is None else "satisfied" if one.passing else "failed",
            one.iterations,
            None,
            None,
        )
        for one in outcome.features[:_FEATURES_MAX]
    ]


def _stats(folded: Summary, durable: StreamView, now_ms: int) -> SessionStats:
    """Return how long a session ran and existed; an imported one is measured up to its last event."""
    last_ms = original_times.of(durable.attributes).last_ms
    until_ms = now_ms if last_ms is None else last_ms
    active = folded.active_ms
    if folded.running_since_ms is not None:
        active += max(0, until_ms - folded.running_since_ms)
    ended = until_ms if folded.ended_ms is None else folded.ended_ms
    return SessionStats(active / 1000, max(0, ended - began_ms(durable)) / 1000)


def _usage(folded: Summary) -> SessionUsage:
    usage = folded.usage
    return SessionUsage(
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_input_tokens,
        CacheCreation(usage.cache_5m_tokens, usage.cache_1h_tokens),
    )


def _outcome(outcome: Outcome) -> OutcomeEvaluation:
    return OutcomeEvaluation(
        "outcome_evaluation",
        outcome.id,
        outcome.description,
        outcome.result,
        outcome.iteration,
        outcome.completed_at,
        outcome.explanation,
    )
