"""Events of older logs and of imports with any member odd: folds take them, and go on from any snapshot."""

import json

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.sessions.graph import schemas
from durable_sessions.sessions.graph.fold import Fold
from durable_sessions.sessions.graph.happened import (
    CALLS,
    MODEL_REQUEST_END,
    RESULTS,
    SESSION_ERROR,
    Members,
)
from durable_sessions.sessions.graph.links import links
from durable_sessions.sessions.graph.state import Around, state
from durable_sessions.sessions.graph.stored import happened
from tests.unit.sessions.graph.ledger import Event
from tests.unit.sessions.graph.test_erased import ERASABLE

SERVERS: Event = {"epoch": 1, "worker": "w", "seconds": 5, "exclusive": True, "events": [], "reason": "r"}
FREE = [
    *sorted(CALLS | RESULTS),
    MODEL_REQUEST_END,
    SESSION_ERROR,
    "user.message",
    "user.tool_confirmation",
    "session.status_idle",
    "user.define_outcome",
    "span.outcome_evaluation_end",
]
COMMON = ["id", "actor", "created_at", "refs", "imported", "original_actor", "redacted", "ref_incarnations"]
ODD = st.sampled_from(
    [
        *("null", "true", "0", "-1", "0.1", "1e308", "-1e308", "1e400", "9" * 30, str(2**64), str(2**53)),
        *('""', '"x"', '"*"', '"e0"', '"trusted"', r'"\ud800"', r'"\u0000"', '"' + "y" * 5_000 + '"'),
        *("[]", "{}", "[null]", "[[]]", '{"a":{}}', '[{"rel":"about","id":"e0"}]', "[" * 100 + "]" * 100),
    ]
)


@st.composite
def odd_events(draw: st.DrawFn) -> bytes:
    """Draw a stored event of a type that folds read, of which some members are not what they should be."""
    kind = draw(st.sampled_from([*schemas.TYPES, *FREE]))
    said = ERASABLE.get(kind, SERVERS) if kind in schemas.TYPES else {}
    members = {name: json.dumps(value) for name, value in said.items()}
    members |= {"id": f'"e{draw(st.integers(0, 5))}"', "actor": '"me"'}
    if draw(st.booleans()):
        members["imported"] = draw(st.sampled_from(['"trusted"', '"untrusted"']))
    known = [*said, *COMMON] if said else [*Members.__struct_fields__, *COMMON]
    for name in draw(st.lists(st.sampled_from(known), max_size=4)):
        members[name] = draw(ODD)
    members["type"] = f'"{kind}"'
    return ("{" + ",".join(f'"{name}":{value}' for name, value in members.items()) + "}").encode()


@settings(max_examples=300)
@given(st.lists(odd_events(), max_size=12), st.sampled_from([None, 0, 3]), st.integers(0, 12))
def test_no_odd_event_makes_a_fold_fail(
    events: list[bytes], checked_from: int | None, forked_at: int
) -> None:
    fold = Fold(DEFAULT_LIMITS)
    for position, event in enumerate(events):
        if position == forked_at:
            fold.cross_fork()
        read = happened(event, position, checked_from)
        links(read)
        fold.step(read)
    restored = Fold.restore(fold.snapshot(), DEFAULT_LIMITS)
    shown = [msgspec.json.encode(state(one, Around("s", fold.folded.at_ms))) for one in (fold, restored)]
    assert shown[0] == shown[1]
    assert fold.folded.position == len(events)


def test_counts_beyond_all_measure_can_be_stored() -> None:
    """Each request states the largest count that is believed."""
    most = {"input_tokens": 2**53 - 1, "output_tokens": 2**53 - 1, "cache_creation_input_tokens": 2**53 - 1}
    fold = Fold(DEFAULT_LIMITS)
    fold.step(happened(b'{"type":"ds.budget.set","id":"e0","actor":"me","tokens":5}', 0, 0))
    ended = msgspec.json.encode({"type": MODEL_REQUEST_END, "model_usage": most, "cost_usd": 1e308})
    for position in range(1, 1_000):
        fold.step(happened(ended, position, 0))
    restored = Fold.restore(fold.snapshot(), DEFAULT_LIMITS)
    budget = state(restored, Around("s", 0)).budget
    assert budget is not None
    assert budget.used["tokens"] > 2**64
