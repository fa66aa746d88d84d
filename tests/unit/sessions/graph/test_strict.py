"""The shapes of strict events: what is refused, and which member the refusal names."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.errors import InvalidEventError, UnknownEventTypeError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.sessions.graph import schemas, strict

Event = dict[str, Any]
LIMITS = DEFAULT_LIMITS
DIGEST = "0" * 64
REF = {"rel": "because", "id": "e1"}

GOOD: list[Event] = [
    {"type": "ds.session.paused", "reason": "lunch"},
    {"type": "ds.session.resumed"},
    {"type": "ds.routed", "to": "judge", "reason": "verify", "see": {"types": ["a"], "from": 3}},
    {"type": "ds.routed", "to": "*", "reason": "anyone"},
    {"type": "ds.fact", "key": "cause", "value": {"any": [1, None]}},
    {"type": "ds.fact", "key": "goal", "value": "Make it pass", "kind": "goal"},
    {"type": "ds.fact.retracted", "key": "cause"},
    {
        "type": "ds.outcome.defined",
        "features": [{"id": "f1", "text": "adds", "files": [{"path": "t.py", "sha256": DIGEST}]}],
    },
    {"type": "ds.evaluation", "verdict": "pass", "refs": [REF], "metrics": {"loss": 0.5}, "score": 1},
    {"type": "ds.checkpoint", "units": 0, "next": "f1", "instructions": "go on", "state": [1]},
    {"type": "ds.context.compacted", "from": 0, "to": 1, "summary": "short"},
    {"type": "ds.context.reset", "checkpoint": "e1"},
    {"type": "ds.approval.requested", "question": "Deploy?", "options": ["approve", "edit"]},
    {"type": "ds.approval.decided", "request": "e1", "decision": "approve", "reason": "fine"},
    {"type": "ds.budget.set", "tokens": 5, "usd": None},
    {"type": "ds.sandbox", "sandbox": "s1", "backend": "local", "status": "ready", "exit_code": -9},
    {"type": "ds.artifact", "sha256": DIGEST, "name": "patch", "role": "diff"},
]

BAD: list[tuple[Event, str]] = [
    ({"type": "ds.fact", "value": 1}, "key"),
    ({"type": "ds.fact", "key": "a", "vlaue": 1, "value": 1}, "vlaue"),
    ({"type": "ds.fact", "key": "a", "value": 1, "slot": "s"}, "slot"),
    ({"type": "ds.fact", "key": "a", "value": 1, "searchable": False}, "searchable"),
    ({"type": "ds.fact", "key": "", "value": 1}, "key"),
    ({"type": "ds.fact", "key": "a" * (LIMITS.graph_name_max + 1), "value": 1}, "key"),
    ({"type": "ds.fact", "key": "a", "value": 3, "kind": "goal"}, "value"),
    ({"type": "ds.fact", "key": "a", "value": "x" * LIMITS.graph_value_bytes_max}, "value"),
    ({"type": "ds.fact", "key": "a", "value": 1, "metadata": {"m": "x" * 4096}}, "metadata"),
    ({"type": "ds.evaluation", "verdict": "maybe", "refs": [REF]}, "verdict"),
    ({"type": "ds.evaluation", "verdict": "pass"}, "refs"),
    ({"type": "ds.evaluation", "verdict": "pass", "refs": [{"rel": "about", "id": "e1"}]}, "refs"),
    ({"type": "ds.evaluation", "verdict": "pass", "refs": [REF], "score": 1.5}, "score"),
    ({"type": "ds.budget.set"}, "tokens"),
    ({"type": "ds.budget.set", "tokens": 0}, "tokens"),
    ({"type": "ds.budget.set", "usd": -1}, "usd"),
    ({"type": "ds.context.compacted", "from": 4, "to": 4, "summary": "s"}, "from"),
    (
        {"type": "ds.outcome.defined", "features": [{"id": "a", "text": "x"}, {"id": "a", "text": "y"}]},
        "features[1].id",
    ),
    ({"type": "ds.outcome.defined", "features": []}, "features"),
    ({"type": "ds.outcome.defined", "features": [{"id": "a b", "text": "x"}]}, "features[0].id"),
    ({"type": "ds.session.paused", "reason": "r", "refs": [{"rel": "likes", "id": "e"}]}, "refs[0].rel"),
    ({"type": "ds.session.paused", "reason": "r", "refs": [{"rel": "uses", "id": "e", "x": 1}]}, "refs[0].x"),
    ({"type": "ds.session.paused", "reason": "r", "refs": [REF] * 65}, "refs"),
    ({"type": "ds.approval.requested", "question": "q", "options": ["approve", "approve"]}, "options"),
    ({"type": "ds.routed", "to": " judge", "reason": "r"}, "to"),
    ({"type": "ds.routed", "to": "a\nb", "reason": "r"}, "to"),
    ({"type": "ds.artifact", "sha256": "A" * 64, "name": "n", "role": "r"}, "sha256"),
]


@pytest.mark.parametrize("event", GOOD, ids=lambda event: str(event["type"]))
def test_an_event_of_the_right_shape_is_taken(event: Event) -> None:
    parsed = strict.parse(event["type"], msgspec.json.encode(event), None, LIMITS)
    assert isinstance(parsed, schemas.TYPES[event["type"]])


@pytest.mark.parametrize(("event", "path"), BAD, ids=[f"{one['type']}-{path}" for one, path in BAD])
def test_a_wrong_member_is_named(event: Event, path: str) -> None:
    with pytest.raises(InvalidEventError) as refused:
        strict.parse(event["type"], msgspec.json.encode(event), 3, LIMITS)
    assert refused.value.fields["member"] == path
    assert refused.value.fields["index"] == 3
    assert str(refused.value).startswith("Event 3, counted from 0: ")


@pytest.mark.parametrize(
    ("member", "most"),
    [
        ("reason", LIMITS.graph_text_max),
    ],
)
def test_a_text_may_be_as_long_as_its_limit(member: str, most: int) -> None:
    def sent(length: int) -> bytes:
        return msgspec.json.encode({"type": "ds.session.paused", member: "x" * length})

    strict.parse("ds.session.paused", sent(most), None, LIMITS)
    with pytest.raises(InvalidEventError):
        strict.parse("ds.session.paused", sent(most + 1), None, LIMITS)


def test_an_unknown_type_names_the_nearest() -> None:
    with pytest.raises(UnknownEventTypeError) as refused:
        strict.parse("ds.fcat", b'{"type":"ds.fcat"}', 0, LIMITS)
    assert "Did you mean ds.fact?" in str(refused.value)


@pytest.mark.parametrize("kind", [name for name, shape in schemas.TYPES.items() if shape.is_servers])
def test_what_only_the_server_writes_is_refused(kind: str) -> None:
    with pytest.raises(InvalidEventError, match="only the server writes"):
        strict.parse(kind, b"{}", 0, LIMITS)


@pytest.mark.parametrize("event", GOOD, ids=lambda event: str(event["type"]))
def test_a_stored_event_reads_like_the_sent_one(event: Event) -> None:
    sent = strict.parse(event["type"], msgspec.json.encode(event), None, LIMITS)
    stored = msgspec.json.encode(
        {"id": "e1", "offset": "0_1", "actor": "me", "ref_incarnations": [], **event}
    )
    read = strict.read(event["type"], stored)
    assert read is not None
    expected = msgspec.to_builtins(sent, builtin_types=(msgspec.Raw,)) | {"id": "e1"}
    assert msgspec.json.encode(
        msgspec.to_builtins(read, builtin_types=(msgspec.Raw,))
    ) == msgspec.json.encode(
        {name: expected[name] for name in msgspec.to_builtins(read, builtin_types=(msgspec.Raw,))}
    )


@given(st.sampled_from(sorted(schemas.TYPES)), st.binary(max_size=40))
def test_any_stored_bytes_are_read_without_failing(kind: str, body: bytes) -> None:
    strict.read(kind, b'{"type":' + body)
    strict.read(kind, body)


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (
            {"type": "ds.approval.decided", "request": "r", "decision": "allow", "reason": "r"},
            "send approve or edit or reject or respond",
        ),
        ({"type": "ds.evaluation", "verdict": "maybe", "refs": [REF]}, "send fail or inconclusive or pass"),
        (
            {"type": "ds.session.paused", "reason": "r", "refs": [{"rel": "because", "event": "e"}]},
            "a ref has rel, id and perhaps session",
        ),
        ({"type": "ds.budget.set", "limits": {}}, "it has tokens, usd, seconds, tool_calls,"),
        ({"type": "ds.context.compacted", "form": 1}, "it has from, to, summary,"),
    ],
)
def test_a_refusal_says_what_to_send_instead(event: Event, told: str) -> None:
    with pytest.raises(InvalidEventError, match=told):
        strict.parse(event["type"], msgspec.json.encode(event), 0, LIMITS)
