"""Folds of random sessions: incrementally, from any snapshot and from zero they are the same, and total."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.errors import DurableSessionsError
from durable_sessions.limits import DEFAULT_LIMITS, Limits
from durable_sessions.sessions.graph import schemas
from durable_sessions.sessions.graph.fold import Fold
from durable_sessions.sessions.graph.rules import Appender
from durable_sessions.sessions.graph.state import Around, SessionState, state
from durable_sessions.sessions.graph.stored import happened
from tests.unit.sessions.graph.ledger import JUDGE, Event, Ledger

ACTORS = [Appender("coder", False), Appender("judge", True), Appender("admin", True)]
FREE = [
    "agent.message",
    "agent.tool_use",
    "agent.tool_result",
    "user.message",
    "span.model_request_end",
    "session.status_idle",
    "session.status_running",
    "session.error",
    "user.define_outcome",
    "span.outcome_evaluation_end",
    "note",
]
ids = st.integers(0, 30).map("e{}".format)
refs = st.lists(
    st.fixed_dictionaries({"rel": st.sampled_from(["because", "about"]), "id": ids}), min_size=1, max_size=2
)
free = st.fixed_dictionaries(
    {"type": st.sampled_from(FREE)},
    optional={
        "name": st.sampled_from(["ls", "cat"]),
        "input": st.integers(0, 1),
        "tool_use_id": ids,
        "is_error": st.booleans(),
        "effect": st.sampled_from(["none", "idempotent", "odd"]),
        "evaluated_permission": st.just("ask"),
        "model_usage": st.fixed_dictionaries({"input_tokens": st.integers(0, 9)}),
        "cost_usd": st.sampled_from([0, 0.25, "much"]),
        "stop_reason": st.sampled_from([{"type": "requires_action"}, {"type": "end_turn"}, 7]),
        "content": st.sampled_from(["hello", [{"type": "text", "text": "hi"}], 3]),
        "refs": st.sampled_from([7, [{"rel": "because", "id": "e0"}]]),
        "outcome_id": st.sampled_from(["outc_1", "outc_2", 7]),
        "result": st.sampled_from(["satisfied", "failed", None]),
    },
)
features = st.lists(
    st.fixed_dictionaries(
        {"id": st.sampled_from(["f1", "f2", "f3"]), "text": st.just("t")},
        optional={"check": st.sampled_from(["a", "b"])},
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda feature: feature["id"],
)
strict = st.one_of(
    st.just({"type": "ds.session.paused", "reason": "r"}),
    st.just({"type": "ds.session.resumed"}),
    st.fixed_dictionaries(
        {
            "type": st.just("ds.fact"),
            "key": st.sampled_from(["a", "b"]),
            "value": st.sampled_from(["x", "y"]),
            "kind": st.sampled_from(["fact", "goal", "decision"]),
        },
        optional={"metadata": st.just({"of": "somebody"})},
    ),
    st.fixed_dictionaries({"type": st.just("ds.fact.retracted"), "key": st.sampled_from(["a", "c"])}),
    st.fixed_dictionaries(
        {"type": st.just("ds.outcome.defined"), "features": features},
        optional={"description": st.just("d"), "metadata": st.just({"of": "somebody"})},
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("ds.evaluation"),
            "verdict": st.sampled_from(["pass", "fail", "inconclusive"]),
            "feature": st.sampled_from(["f1", "f2"]),
            "refs": refs,
        },
        optional={"metrics": st.just({"value": 1.5})},
    ),
    st.just({"type": "ds.checkpoint", "units": 1, "next": "n", "instructions": "i", "done": ["d"]}),
    st.just({"type": "ds.context.compacted", "from": 0, "to": 1, "summary": "s"}),
    st.fixed_dictionaries({"type": st.just("ds.context.reset"), "checkpoint": ids}),
    st.fixed_dictionaries(
        {"type": st.just("ds.approval.requested"), "question": st.just("q"), "blocking": st.booleans()},
        optional={"refs": refs},
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("ds.approval.decided"),
            "request": ids,
            "decision": st.sampled_from(["approve", "reject"]),
            "reason": st.just("r"),
        }
    ),
    st.fixed_dictionaries(
        {"type": st.just("ds.budget.set")},
        optional={"tool_calls": st.integers(1, 5), "tokens": st.integers(1, 20), "usd": st.none()},
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("ds.sandbox"),
            "sandbox": st.sampled_from(["s1", "s2"]),
            "backend": st.just("local"),
            "status": st.sampled_from(["requested", "ready", "lost", "released"]),
        }
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("ds.artifact"),
            "sha256": st.just("a" * 64),
            "name": st.just("n"),
            "role": st.just("diff"),
        }
    ),
    st.fixed_dictionaries(
        {"type": st.just("ds.routed"), "to": st.sampled_from(["judge", "*"]), "reason": st.just("r")},
        optional={"needs": st.just(["f1"])},
    ),
)
acts: st.SearchStrategy[list[tuple[str, list[Event], int]]] = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"), st.lists(st.one_of(free, strict), min_size=1, max_size=3), st.integers(0, 2)
        ),
        st.tuples(st.just("wake"), st.just([]), st.integers(0, 2)),
        st.tuples(st.just("fork"), st.just([]), st.integers(0, 40)),
    ),
    max_size=25,
)


def play(steps: list[tuple[str, list[Event], int]], session: Ledger | None = None) -> Ledger:
    """Return a session after steps of which those that a server would refuse are left out."""
    session = session or Ledger(Limits(state_list_max=5, checkpoint_due_events=4))
    for act, events, number in steps:
        if act == "fork":
            session = session.fork(min(number, len(session.events)))
        elif act == "wake":
            session.wake(ACTORS[number].principal, exclusive=number == 0)
        else:
            lease = session.control.core.lease
            actor = ACTORS[number]
            epoch = lease.epoch if lease is not None and lease.principal == actor.principal else None
            try:
                session.append(*events, by=actor, epoch=epoch)
            except DurableSessionsError:
                continue
    return session


def shown(fold: Fold) -> Any:
    return msgspec.json.decode(msgspec.json.encode(state(fold, Around("s", fold.folded.at_ms))))


@settings(max_examples=150)
@given(acts, st.data())
def test_invariant_1_a_fold_is_the_same_however_it_was_made(steps: Any, data: st.DataObject) -> None:
    session = play(steps)
    cut = data.draw(st.integers(0, len(session.events)), label="snapshot at")
    first = session.fold(cut)
    restored = Fold.restore(first.snapshot(), session.limits)
    assert shown(restored) == shown(first)
    session.advance(restored, len(session.events))
    whole = session.fold()
    assert shown(restored) == shown(whole)
    assert restored.control.attributes() == whole.control.attributes()


@settings(max_examples=150)
@given(acts)
def test_invariant_1_control_at_the_tip_is_that_of_the_fold(steps: Any) -> None:
    session = play(steps)
    fold = session.fold()
    assert fold.control.attributes() == session.attributes
    msgspec.json.decode(msgspec.json.encode(shown(fold)), type=SessionState)


RAISES: list[tuple[str, list[Event], int]] = [
    ("append", [{"type": "ds.budget.set", "tool_calls": 50}], 0),
    ("append", [{"type": "ds.budget.set", "tool_calls": 60}, {"type": "agent.message"}], 2),
    ("append", [{"type": "ds.budget.set", "tool_calls": 70}], 2),
    ("append", [{"type": "ds.budget.set", "tool_calls": None}], 2),
]
"""Raised by a judge who then works, and who tries to raise and lift it again: few random logs do so."""


@settings(max_examples=150)
@given(acts, acts)
def test_invariant_9_nothing_was_judged_by_a_generator(steps: Any, more: Any) -> None:
    session = play([*steps, *RAISES, *more])
    generators: set[str] = set()
    limits: dict[str, float] = {}
    has_outcome = False
    for event in map(msgspec.json.decode, session.events):
        set_now = {name: event[name] for name in schemas.MEASURES if name in event}
        is_limit = event["type"] == "ds.budget.set"
        judges = (
            event["type"] in ("ds.evaluation", "ds.approval.decided")
            or (event["type"] == "ds.outcome.defined" and has_outcome)
            or (is_limit and any(_is_raised(limits.get(name), to) for name, to in set_now.items()))
        )
        assert not (judges and event["actor"] in generators), event
        has_outcome = has_outcome or event["type"] == "ds.outcome.defined"
        if is_limit:
            limits = {name: to for name, to in (limits | set_now).items() if to is not None}
        if event["type"].startswith("agent."):
            generators.add(event["actor"])


def _is_raised(limit: float | None, to: float | None) -> bool:
    return limit is not None and (to is None or to > limit)


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.dictionaries(
                st.sampled_from(
                    ["type", "id", "actor", "created_at", "refs", "value", "features", "imported"]
                ),
                st.one_of(
                    st.sampled_from(["ds.fact", "ds.outcome.defined", "agent.tool_use", "ds.lease.claimed"]),
                    st.integers(),
                    st.none(),
                    st.lists(st.integers(), max_size=2),
                ),
            ).map(msgspec.json.encode),
        ),
        max_size=8,
    ),
    st.sampled_from([None, 0, 3]),
)
def test_no_log_makes_a_fold_fail(events: list[bytes], checked_from: int | None) -> None:
    fold = Fold(DEFAULT_LIMITS)
    for position, event in enumerate(events):
        fold.step(happened(event, position, checked_from))
    assert shown(fold)["event_count"] == len(events)
    assert shown(Fold.restore(fold.snapshot(), DEFAULT_LIMITS)) == shown(fold)


def test_strict_events_from_before_they_were_checked_count_for_nothing() -> None:
    stored = msgspec.json.encode(
        {
            "id": "e0",
            "actor": "old",
            "type": "ds.lease.claimed",
            "epoch": 9,
            "worker": "w",
            "seconds": 5,
            "exclusive": True,
        }
    )
    fold = Fold(DEFAULT_LIMITS)
    fold.step(happened(stored, 0, None))
    assert fold.control.core.lease is None
    assert [one.code for one in fold.folded.warnings] == ["imported_untrusted"]


@pytest.mark.parametrize(("mark", "known"), [("trusted", True), ("untrusted", False)])
def test_only_a_trusted_import_tells_the_fold_something(mark: str, known: bool) -> None:
    event = {"id": "e0", "imported": mark, "actor": "me", "original_actor": "them", "type": "ds.fact"}
    fold = Fold(DEFAULT_LIMITS)
    fold.step(happened(msgspec.json.encode({**event, "key": "a", "value": 1}), 0, 0))
    assert [fact.actor for fact in fold.folded.facts.values()] == (["them"] if known else [])


@pytest.mark.parametrize(
    ("first", "warned"),
    [
        ({"type": "note"}, True),
        ({"type": "ds.outcome.defined", "features": [{"id": "f1", "text": "t"}]}, False),
        ({"type": "user.define_outcome", "outcome_id": "outc_1", "description": "d"}, False),
    ],
)
def test_who_is_woken_without_any_done_condition_is_warned(first: Event, warned: bool) -> None:
    session = Ledger()
    session.append(first)
    session.wake()
    session.wake()
    codes = [one["code"] for one in shown(session.fold())["warnings"]]
    assert codes.count("no_outcome") == int(warned)


def test_the_goal_is_verbatim_the_first_one() -> None:
    session = Ledger()
    session.append({"type": "user.message", "content": [{"type": "text", "text": "Do it"}]})
    assert shown(session.fold())["goal"]["text"] == "Do it"
    session.append({"type": "ds.fact", "key": "goal", "value": "First", "kind": "goal"})
    session.append({"type": "ds.fact", "key": "goal", "value": "Second", "kind": "goal"})
    goal = shown(session.fold())["goal"]
    assert goal == {"text": "First", "id": "e1", "changes": ["e2"]}
    assert "goal_changed" in [one["code"] for one in shown(session.fold())["warnings"]]


def test_an_amended_check_starts_anew_and_a_removed_feature_is_told() -> None:
    session = Ledger()
    features: list[Event] = [{"id": "f1", "text": "a", "check": "x"}, {"id": "f2", "text": "b"}]
    session.append({"type": "ds.outcome.defined", "features": features})
    evidence = [{"rel": "because", "id": "e0"}]
    for name in ("f1", "f2"):
        session.append(
            {"type": "ds.evaluation", "feature": name, "verdict": "pass", "refs": evidence}, by=JUDGE
        )
    assert shown(session.fold())["done"] is True
    amended = [{"id": "f1", "text": "a", "check": "easier"}]
    session.append({"type": "ds.outcome.defined", "features": amended}, by=JUDGE)
    now = shown(session.fold())
    assert (now["done"], now["outcome"]["removed"], now["outcome"]["amendments"]) == (False, ["f2"], 1)
    assert {"check_changed", "feature_removed"} <= {one["code"] for one in now["warnings"]}


def test_open_calls_are_those_without_a_result() -> None:
    session = Ledger()
    session.append(
        {
            "type": "agent.tool_use",
            "name": "ls",
            "input": {"a": 1},
            "effect": "idempotent",
            "idempotency_key": "k",
        },
        {"type": "agent.tool_use", "name": "rm"},
        {"type": "agent.tool_result", "tool_use_id": "e1", "is_error": True},
        {"type": "agent.tool_result", "tool_use_id": "e9"},
    )
    calls = shown(session.fold())["calls"]
    assert [one["id"] for one in calls["open"]] == ["e0"]
    assert calls["open"][0]["idempotency_key"] == "k"
    assert (calls["total"], calls["failed"]) == (2, 1)
    assert [one["code"] for one in shown(session.fold())["warnings"]] == ["orphan_result"]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], "open"),
        ([{"type": "ds.fact", "key": "k", "value": 1}], "open"),
        ([{"type": "note"}], "active"),
        ([{"type": "ds.session.paused", "reason": "r"}], "paused"),
        (
            [{"type": "note"}, {"type": "ds.session.paused", "reason": "r"}, {"type": "ds.session.resumed"}],
            "resumed",
        ),
        ([{"type": "session.status_idle", "stop_reason": {"type": "requires_action"}}], "paused"),
        (
            [
                {"type": "session.status_idle", "stop_reason": {"type": "requires_action"}},
                {"type": "session.status_running"},
            ],
            "resumed",
        ),
    ],
)
def test_the_lifecycle_follows_the_events(events: list[Event], expected: str) -> None:
    session = Ledger()
    for event in events:
        session.append(event)
    assert shown(session.fold())["lifecycle"] == expected


def test_a_second_wake_is_a_resumption() -> None:
    session = Ledger()
    session.wake()
    assert shown(session.fold())["lifecycle"] == "active"
    session.wake()
    assert shown(session.fold())["lifecycle"] == "resumed"
