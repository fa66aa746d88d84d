"""Plain appends: decided in one step, and never otherwise than by the full decision."""

import json

from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.limits import DEFAULT_LIMITS as LIMITS
from durable_sessions.streams import append
from durable_sessions.streams.append import Append, AppendResult
from durable_sessions.streams.stream import Stream
from tests.unit.streams.driver import Machine, key

TYPES = st.sampled_from(["text/plain", "application/json", "application/json; charset=utf-8", "a/b"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
BODIES = st.one_of(
    VALUES.map(lambda value: json.dumps(value).encode()),
    VALUES.map(
        lambda value: json.dumps(value, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")
    ),
    st.binary(max_size=10),
    st.sampled_from(
        [
            b"",
            b"{}",
            b" {} ",
            b"{}{}",
            b'{"a":1} ',
            b'{"a":"\\ud800"}',
            b'{"a":NaN}',
            b'{"a":' * 64 + b"1" + b"}" * 64,
            b'{"a":' * 65 + b"1" + b"}" * 65,
            b'{"a":"' + b"{" * 65 + b'"}',
            b"{" * 5000,
        ]
    ),
)


@given(
    st.data(),
    TYPES,
    st.none() | TYPES,
    BODIES,
    st.fixed_dictionaries(
        {},
        optional={
            "closed": st.just(True),
            "ttl_seconds": st.integers(1, 3),
            "expires_at_ms": st.integers(1_000_000, 1_003_000),
        },
    ),
)
def test_a_plain_append_is_decided_as_any_other(
    data: st.DataObject, kind: str, sent: str | None, body: bytes, options: dict[str, int]
) -> None:
    machine = Machine()
    if "ttl_seconds" in options:
        options.pop("expires_at_ms", None)
    machine.create("s", content_type=kind, **options)
    stream = machine.state.streams[key("s")]
    machine.advance(data.draw(st.integers(0, 1)))
    effect = append.plain(stream, sent, body, machine.now_ms, LIMITS)
    if effect is None:
        return
    decided = append.decide(machine.state, key("s"), Append(body, sent), machine.now_ms, LIMITS)
    assert decided == ([effect], AppendResult(effect.next, closed=False))
    machine.apply([effect])
    assert stream.tail == effect.next


def plain(stream: Stream, body: bytes, sent: str = "application/json") -> bool:
    return append.plain(stream, sent, body, 0, LIMITS) is not None


def test_most_appends_are_plain() -> None:
    machine = Machine()
    machine.create("j", content_type="application/json")
    machine.create("t", content_type="text/plain")
    assert plain(machine.find("j"), b'{"type":"agent.message","content":[{"type":"text","text":"hi"}]}')
    assert plain(machine.find("t"), b"\xff", "text/plain")
    assert not plain(machine.find("j"), b"[{}]")
    assert not plain(machine.find("j"), b"{")
    assert not plain(machine.find("t"), b"x")
    assert not plain(machine.find("t"), b"", "text/plain")
