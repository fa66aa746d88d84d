"""Which events a read wants."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.sessions.selection import EVERYTHING, Selection
from durable_sessions.times import rfc3339

TYPES = ["agent.a", "agent.b", "agent", "agents.a", "user.a", ".a", "agent.*", "é"]


def stored(kind: str, at_ms: int = 0, **more: Any) -> bytes:
    return json.dumps({"id": "x", "created_at": rfc3339(at_ms), "type": kind, **more}).encode()


@given(st.lists(st.sampled_from([*TYPES, "*.a", ".*", "user.*"]), max_size=3), st.sampled_from(TYPES))
def test_types_are_exact_or_all_that_begin_so(wanted: list[str], kind: str) -> None:
    def fits(one: str) -> bool:
        return kind.startswith(one[:-1]) if one.endswith(".*") else kind == one

    selected = Selection(types=tuple(wanted)).matcher()(stored(kind))
    assert selected == (not wanted or any(fits(one) for one in wanted))


@given(
    st.integers(0, 20),
    *[st.none() | st.integers(0, 20) for _ in range(4)],
)
def test_times_are_bounds(at: int, gt: int | None, gte: int | None, lt: int | None, lte: int | None) -> None:
    selection = Selection(after_ms=gt, from_ms=gte, before_ms=lt, through_ms=lte)
    expected = (
        (gt is None or at > gt)
        and (gte is None or at >= gte)
        and (lt is None or at < lt)
        and (lte is None or at <= lte)
    )
    assert selection.matcher()(stored("a", at)) == expected


def test_threads() -> None:
    one = Selection(thread="t").matcher()
    assert one(stored("a", session_thread_id="t"))
    assert not one(stored("a", session_thread_id="u"))
    assert not one(stored("a"))
    primary = Selection(thread="t", primary=True).matcher()
    assert primary(stored("a"))
    assert primary(stored("a", session_thread_id=None))
    assert primary(stored("a", session_thread_id="t"))
    assert not primary(stored("a", session_thread_id="u"))


@pytest.mark.parametrize("odd", [b'"x":"\\ud800"', b'"session_thread_id":"\\ud800"', b'"\\udfff":1'])
def test_odd_text_hides_no_event(odd: bytes) -> None:
    event = b'{"id":"i","created_at":"1970-01-01T00:00:00.000Z",' + odd + b',"type":"a"}'
    assert Selection(types=("a",)).matcher()(event)
    assert not Selection(types=("b",)).matcher()(event)
    assert Selection(through_ms=5).matcher()(event)
    assert EVERYTHING.matcher()(event)


def test_an_empty_selection_is_everything() -> None:
    assert Selection().everything
    assert not Selection(types=("a",)).everything
    assert not Selection(from_ms=0).everything


@pytest.mark.parametrize("selection", [Selection(happened_after_ms=0), Selection(happened_before_ms=10)])
def test_an_imported_event_without_a_time_did_not_happen_at_any(selection: Selection) -> None:
    matches = selection.matcher()
    assert matches(stored("a", 5))
    assert matches(stored("a", 5, source={"tool": "claude-code", "hook": "Stop"}))
    assert not matches(stored("a", 5, source={"tool": "swe-agent", "record_id": "M0"}))
    assert Selection(from_ms=0).matcher()(stored("a", 5, source={"tool": "swe-agent", "record_id": "M0"}))
