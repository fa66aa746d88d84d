"""What a session's events say together: status, usage, times, outcomes."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.sessions import summary
from durable_sessions.sessions.drafts import parse
from durable_sessions.sessions.summary import Summary

LIMITS = replace(DEFAULT_LIMITS, session_outcomes_max=3)


def fold(*events: dict[str, Any] | str, start: Summary | None = None, now_ms: int = 0) -> Summary:
    attributes = {} if start is None else {summary.SUMMARY: start.encode()}
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    drafts = [draft for text in texts for draft in parse(text.encode(), LIMITS)]
    pairs = [
        (draft, f"o{n}" if draft.type == "user.define_outcome" else None, n) for n, draft in enumerate(drafts)
    ]
    folded = summary.fold(
        attributes, [pair for pair in pairs if pair[0].type in summary.RELEVANT], now_ms, LIMITS
    )
    return summary.of({summary.SUMMARY: folded.encode()})


def status(name: str, at: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": f"session.status_{name}", **({} if at is None else {"created_at": at}), **more}


statuses = st.sampled_from(["running", "idle", "rescheduled", "terminated"])


@given(st.lists(st.tuples(statuses, st.integers(0, 1000)), max_size=12))
def test_status_and_times_follow_the_events(steps: list[tuple[str, int]]) -> None:
    """Told by a clock that is read at each event, whether the events come one by one or together."""
    now, active, since, folded = 0, 0, None, Summary()
    for name, later in steps:
        now += later
        folded = fold(status(name), start=folded, now_ms=now)
        if name == "running":
            since = now if since is None else since
        elif since is not None:
            active, since = active + now - since, None
        assert folded.status == {"rescheduled": "rescheduling"}.get(name, name)
        assert (folded.active_ms, folded.running_since_ms) == (active, since)
        assert folded.ended_ms == (now if name == "terminated" else None)
    together = fold(*[status(name) for name, _ in steps], now_ms=now)
    assert together.status == folded.status


def test_imported_events_are_dated_when_they_happened() -> None:
    folded = fold(
        status("running", "2026-01-01T00:00:00Z"), status("idle", "2026-01-01T00:00:07.5+00:00"), now_ms=5
    )
    assert folded.active_ms == 7_500
    backwards = fold(status("running", "2026-01-01T00:00:07Z"), status("idle", "2026-01-01T00:00:00Z"))
    assert backwards.active_ms == 0


def test_the_reason_to_stop_is_that_of_the_last_status() -> None:
    paused = fold(status("idle", stop_reason={"type": "requires_action"}))
    assert paused.stop_reason == "requires_action"
    assert fold(status("running"), start=paused).stop_reason is None
    for odd in ("text", 5, None, {"type": 5}, {}):
        assert fold(status("idle", stop_reason=odd)).stop_reason is None


counts = st.integers(0, 2**53 - 1) | st.sampled_from([-1, True, "7", None, 1.5, 2**70])


@given(st.lists(st.tuples(counts, counts), max_size=5))
def test_usage_is_the_sum_of_what_can_be_counted(used: list[tuple[Any, Any]]) -> None:
    events = [
        {"type": "span.model_request_end", "model_usage": {"input_tokens": one, "output_tokens": other}}
        for one, other in used
    ]

    def total(values: list[Any]) -> int:
        counted = [value for value in values if type(value) is int and 0 <= value < 2**53]
        return min(sum(counted), 2**53 - 1)

    usage = fold(*events).usage
    assert usage.input_tokens == total([one for one, _ in used])
    assert usage.output_tokens == total([other for _, other in used])


def test_cache_tokens_are_counted_in_both_spellings() -> None:
    new = {"cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 2}}
    old = {"cache_creation_input_tokens": 10, "cache_read_input_tokens": 5}
    spans: list[Any] = [new, old, None, [], "x"]
    events = [{"type": "span.model_request_end", "model_usage": used} for used in spans]
    usage = fold(*events).usage
    assert (usage.cache_5m_tokens, usage.cache_1h_tokens, usage.cache_read_input_tokens) == (11, 2, 5)


def test_odd_text_does_not_hide_what_an_event_says() -> None:
    odd = '{"type":"span.model_request_end","note":"\\ud800","model_usage":{"input_tokens":3,"x":"\\udc00"}}'
    assert fold(odd).usage.input_tokens == 3


def test_outcomes_follow_their_evaluation() -> None:
    defined = fold({"type": "user.define_outcome", "description": "d"})
    assert [(one.id, one.description, one.result) for one in defined.outcomes] == [("o0", "d", "pending")]
    kind = "span.outcome_evaluation_"
    started = fold({"type": kind + "start", "outcome_id": "o0", "iteration": 2}, start=defined)
    assert (started.outcomes[0].result, started.outcomes[0].iteration) == ("evaluating", 2)
    ended = fold(
        {"type": kind + "end", "outcome_id": "o0", "iteration": 1, "result": "satisfied", "explanation": "e"},
        start=started,
        now_ms=1_000,
    )
    (outcome,) = ended.outcomes
    assert (outcome.result, outcome.iteration, outcome.explanation) == ("satisfied", 2, "e")
    assert outcome.completed_at == "1970-01-01T00:00:01.000Z"
    for time in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "x", 5):
        again = fold({"type": kind + "end", "outcome_id": "o0", "original_created_at": time}, start=started)
        assert again.outcomes[0].completed_at == "1970-01-01T00:00:00.000Z"
    assert fold({"type": kind + "end", "outcome_id": "other", "result": "x"}, start=defined) == defined


def test_no_more_outcomes_are_followed_than_the_limit_says() -> None:
    many = fold(*[{"type": "user.define_outcome", "description": str(n)} for n in range(5)])
    assert [outcome.description for outcome in many.outcomes] == ["0", "1", "2"]


def test_events_of_other_types_say_nothing() -> None:
    for kind in ("user.message", "session.status", "session.status_running.x", "own"):
        (draft,) = parse(json.dumps({"type": kind}).encode(), LIMITS)
        assert draft.type not in summary.RELEVANT
