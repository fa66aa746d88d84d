"""Appends of one plain event: decided in one step, and never otherwise than by the full decision."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.errors import InvalidEventError
from durable_sessions.ids import RandomIds
from durable_sessions.limits import DEFAULT_LIMITS as LIMITS
from durable_sessions.sessions import append, drafts
from durable_sessions.sessions.batch import Batch
from durable_sessions.streams.append import Append
from durable_sessions.streams.state import State
from tests.unit.sessions.world import key

IDS = RandomIds()
TYPES = st.sampled_from(
    [
        "note",
        "agent.message",
        "user.message",
        "user.define_outcome",
        "session.updated",
        "session.status_idle",
        "span.model_request_end",
        "ds.fact",
        "ds.x",
        "é",
        "",
    ]
)
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["mine", 'a"b', None]),
        "created_at": st.sampled_from(["2026-11-15T12:00:00Z", "x", None]),
        "actor": st.just("me"),
        "session_thread_id": st.just("t"),
        "slot": st.just("s"),
        "source": st.sampled_from([None, {"tool": "x"}]),
        "original_id": st.just("x"),
        "content": st.lists(st.fixed_dictionaries({"type": TYPES}), max_size=2),
        "events": st.just([]),
        "key": st.just("k"),
        "value": st.just("v"),
    },
)
EVENTS = st.tuples(TYPES, MEMBERS).map(lambda event: {"type": event[0], **event[1]})
BODIES = st.one_of(
    EVENTS.map(lambda event: json.dumps(event).encode()),
    EVENTS.map(lambda event: json.dumps(event, ensure_ascii=False, indent=1).encode()),
    st.sampled_from([b"", b"{}", b'{"type":"a","type":"b"}', b'{"type":"a"} ', b'{"type":"a"', b"[]", b"3"]),
)


def full(state: State, body: bytes, actor: str) -> tuple[Any, Any]:
    sent = drafts.parse_append(body, LIMITS)
    assert (sent.conditions, sent.session) == (None, None)
    batch = Batch(sent.drafts, actor, Append(body))
    return append.decide(state, key("s"), batch, 1_000_000, LIMITS, IDS)


@given(st.lists(st.sampled_from([b'{"type":"note"}', b'{"type":"agent.message"}']), max_size=3), BODIES)
def test_a_plain_event_is_decided_as_any_other(before: list[bytes], body: bytes) -> None:
    state = State()
    for first in (b'{"type":"first"}', *before):
        for effect in full(state, first, "me")[0]:
            state.apply(effect)
    draft = drafts.plain(body, LIMITS)
    if draft is None:
        return
    stream = state.streams[key("s")]
    decided = append.plain(stream, draft, "me", 1_000_000)
    if decided is None:
        return
    effect, life = decided
    effects, stored = full(state, body, "me")
    assert effects == [effect]
    assert (stored.tail, stored.closed, stored.life) == (effect.next, False, life)
    assert (stored.producer, stored.duplicate, stored.repeats.repeated) == (None, False, [])


def test_most_events_are_plain() -> None:
    state = State()
    for effect in full(state, b'{"type":"agent.message"}', "me")[0]:
        state.apply(effect)
    stream = state.streams[key("s")]
    for body in (b'{"type":"note"}', b'{"type":"agent.message","content":[{"type":"text","text":"hi"}]}'):
        draft = drafts.plain(body, LIMITS)
        assert draft is not None
        assert append.plain(stream, draft, "me", 1_000_000) is not None
    for body in (b'{"type":"note","id":"mine"}', b'{"type":"note","slot":"s"}', b"[]"):
        assert drafts.plain(body, LIMITS) is None
    checked = drafts.plain(b'{"type":"ds.fact","key":"k","value":"v"}', LIMITS)
    assert checked is not None
    assert append.plain(stream, checked, "me", 1_000_000) is None


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from(["a", "b"]), st.sampled_from(["", " "])), max_size=4),
    st.integers(0, 4),
)
def test_a_type_that_is_there_twice_is_found_wherever_other_types_are(
    inner: list[tuple[bool, str, str]], at: int
) -> None:
    """Types of an event, and types of blocks in its content, in any order and in either spelling."""
    sent = [
        f'"type":{space}"{kind}"' if own else f'"{kind}":{{"type":{space}"{kind}"}}'
        for own, kind, space in inner
    ]
    sent.insert(min(at, len(sent)), '"type":"a"')
    body = ("{" + ",".join(sent) + "}").encode()
    if any(own for own, _, _ in inner):
        assert drafts.plain(body, LIMITS) is None
        with pytest.raises(InvalidEventError, match="there twice"):
            drafts.parse_append(body, LIMITS)
    else:
        assert drafts.parse_append(body, LIMITS).drafts[0].type == "a"
