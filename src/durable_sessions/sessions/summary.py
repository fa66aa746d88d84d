"""What is derived from a session's events as they are appended: status, usage, times, outcomes."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from durable_sessions import lenient
from durable_sessions.lenient import COUNT_MAX, count
from durable_sessions.limits import Limits
from durable_sessions.sessions.drafts import Draft
from durable_sessions.times import rfc3339

T = TypeVar("T")

SUMMARY = "summary"

STATUSES = ("idle", "running", "rescheduling", "terminated")
STATUS_BY_TYPE = {
    "session.status_running": "running",
    "session.status_idle": "idle",
    "session.status_rescheduled": "rescheduling",
    "session.status_terminated": "terminated",
}
RELEVANT = {
    *STATUS_BY_TYPE,
    "span.model_request_end",
    "user.define_outcome",
    "span.outcome_evaluation_start",
    "span.outcome_evaluation_ongoing",
    "span.outcome_evaluation_end",
}
UNDER_WAY = frozenset({"running", "rescheduling"})
"""What a session cannot be any more once it takes no more events."""
_OUTCOME_RESULTS = {
    "span.outcome_evaluation_start": "evaluating",
    "span.outcome_evaluation_ongoing": "evaluating",
}


class Usage(msgspec.Struct, omit_defaults=True):
    """Tokens, summed over all model requests."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_5m_tokens: int = 0
    cache_1h_tokens: int = 0


class Outcome(msgspec.Struct, omit_defaults=True):
    """One outcome that was requested, and the state of its evaluation.

    ``defined`` and ``evaluated`` are the positions after the event that requested it and after the last
    event about its evaluation.
    """

    id: str
    description: str
    result: str = "pending"
    iteration: int = 0
    completed_at: str | None = None
    explanation: str | None = None
    defined: int = 0
    evaluated: int = 0


class Summary(msgspec.Struct, omit_defaults=True):
    """The fold of a session's events; times in milliseconds."""

    status: str = "idle"
    stop_reason: str | None = None
    running_since_ms: int | None = None
    active_ms: int = 0
    ended_ms: int | None = None
    usage: Usage = msgspec.field(default_factory=Usage)
    outcomes: list[Outcome] = []

    def encode(self) -> bytes:
        """Return the value of the attribute."""
        return msgspec.json.encode(self)


_decode = msgspec.json.Decoder(Summary).decode


class _Event(msgspec.Struct):
    """The members of relevant events, not decoded yet: clients may send anything."""

    stop_reason: msgspec.Raw = lenient.NULL
    model_usage: msgspec.Raw = lenient.NULL
    outcome_id: msgspec.Raw = lenient.NULL
    description: msgspec.Raw = lenient.NULL
    iteration: msgspec.Raw = lenient.NULL
    result: msgspec.Raw = lenient.NULL
    explanation: msgspec.Raw = lenient.NULL


class _Reason(msgspec.Struct):
    type: msgspec.Raw = lenient.NULL


class _Created(msgspec.Struct):
    ephemeral_5m_input_tokens: msgspec.Raw = lenient.NULL
    ephemeral_1h_input_tokens: msgspec.Raw = lenient.NULL


class _Used(msgspec.Struct):
    input_tokens: msgspec.Raw = lenient.NULL
    output_tokens: msgspec.Raw = lenient.NULL
    cache_read_input_tokens: msgspec.Raw = lenient.NULL
    cache_creation: msgspec.Raw = lenient.NULL
    cache_creation_input_tokens: msgspec.Raw = lenient.NULL


_EVENT = msgspec.json.Decoder(_Event)
_REASON = msgspec.json.Decoder(_Reason)
_CREATED = msgspec.json.Decoder(_Created)
_USED = msgspec.json.Decoder(_Used)


def of(attributes: Mapping[str, bytes]) -> Summary:
    """Return the summary that a stream's attributes hold."""
    value = attributes.get(SUMMARY)
    return Summary() if value is None else _decode(value)


def fold(
    attributes: Mapping[str, bytes],
    events: Sequence[tuple[Draft, str | None, int]],
    now_ms: int,
    limits: Limits,
) -> Summary:
    """Return the summary after relevant events, given with the outcome each defines and its position."""
    summary = of(attributes)
    for draft, outcome, position in events:
        try:
            event = lenient.decode(_EVENT, draft.body)
        except msgspec.MsgspecError:
            event = _Event()
        at_ms = now_ms if draft.happened_ms is None else draft.happened_ms
        if draft.type in STATUS_BY_TYPE:
            _status(summary, STATUS_BY_TYPE[draft.type], event, at_ms)
        elif draft.type == "span.model_request_end":
            _add_usage(summary.usage, event.model_usage)
        elif draft.type == "user.define_outcome":
            if outcome is not None and len(summary.outcomes) < limits.session_outcomes_max:
                asked = Outcome(outcome, _text(event.description), defined=position + 1)
                summary.outcomes.append(asked)
        else:
            _evaluate(summary, draft.type, event, at_ms, position)
    return summary


def inherited(attributes: Mapping[str, bytes], base: int) -> Summary | None:
    """Return the summary that a fork begins with: the outcomes requested before ``base``, None without any.

    An outcome that was evaluated only after ``base`` is pending in the fork.
    """
    outcomes = [
        one if one.evaluated <= base else Outcome(one.id, one.description, defined=one.defined)
        for one in of(attributes).outcomes
        if one.defined <= base
    ]
    return Summary(outcomes=outcomes) if outcomes else None


def closed(summary: Summary, now_ms: int) -> bool:
    """Terminate a running session that takes no more events; say whether it was running."""
    if summary.status not in UNDER_WAY:
        return False
    _status(summary, "terminated", _Event(), now_ms)
    return True


def end(attributes: Mapping[str, bytes], now_ms: int) -> Summary:
    """Return the summary of a session that was archived."""
    summary = of(attributes)
    _status(summary, "terminated", _Event(), now_ms)
    return summary


def _status(summary: Summary, status: str, event: _Event, at_ms: int) -> None:
    if status == "running":
        if summary.running_since_ms is None:  # a second "running" in a row does not restart the clock
            summary.running_since_ms = at_ms
    elif summary.running_since_ms is not None:
        summary.active_ms = _sum(summary.active_ms, max(0, at_ms - summary.running_since_ms))
        summary.running_since_ms = None
    summary.status = status
    reason = _object(_REASON, event.stop_reason)
    summary.stop_reason = None if reason is None else _text(reason.type) or None
    summary.ended_ms = at_ms if status == "terminated" else None


def _add_usage(usage: Usage, raw: msgspec.Raw) -> None:
    used = _object(_USED, raw)
    if used is None:
        return
    usage.input_tokens = _sum(usage.input_tokens, count(used.input_tokens))
    usage.output_tokens = _sum(usage.output_tokens, count(used.output_tokens))
    read = _sum(usage.cache_read_input_tokens, count(used.cache_read_input_tokens))
    usage.cache_read_input_tokens = read
    created = _object(_CREATED, used.cache_creation)
    if created is None:  # without a breakdown, all of it counts for the default, 5 minutes
        usage.cache_5m_tokens = _sum(usage.cache_5m_tokens, count(used.cache_creation_input_tokens))
    else:
        usage.cache_5m_tokens = _sum(usage.cache_5m_tokens, count(created.ephemeral_5m_input_tokens))
        usage.cache_1h_tokens = _sum(usage.cache_1h_tokens, count(created.ephemeral_1h_input_tokens))


def _evaluate(summary: Summary, kind: str, event: _Event, at_ms: int, position: int) -> None:
    named = lenient.text(event.outcome_id)
    for outcome in summary.outcomes:
        if outcome.id == named:
            outcome.evaluated = position + 1
            outcome.iteration = max(outcome.iteration, count(event.iteration))
            outcome.result = _OUTCOME_RESULTS.get(kind) or _text(event.result) or outcome.result
            if kind == "span.outcome_evaluation_end":
                outcome.explanation = _text(event.explanation) or None
                outcome.completed_at = rfc3339(at_ms)


def _object(decoder: "msgspec.json.Decoder[T]", raw: msgspec.Raw) -> T | None:
    """Return a member that should be an object; None if it is something else."""
    data = bytes(raw)
    return lenient.decode(decoder, data) if data[:1] == b"{" else None


def _sum(left: int, right: int) -> int:
    return min(left + right, COUNT_MAX)


def _text(raw: msgspec.Raw) -> str:
    return lenient.text(raw) or ""
