"""Events, sessions, times and JSON as the client shows and sends them."""

import hashlib
import json
import subprocess
import sys
from collections import UserDict
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from durable_sessions.client import Event, encoding
from durable_sessions.client.calls import encode_events, time_text
from durable_sessions.client.errors import DigestMismatchError
from durable_sessions.client.info import session_info
from tests.unit.client.stub import Stub, said

STORED: dict[str, Any] = {
    "id": "sevt_1",
    "offset": "0000000000000000_0000000000000041",
    "created_at": "2026-11-15T12:00:00.123Z",
    "actor": "local",
    "type": "agent.message",
    "content": [{"type": "text", "text": "one"}, {"type": "image"}, {"type": "text", "text": "two"}],
}


@pytest.mark.parametrize(
    ("value", "error", "told"),
    [
        ({"n": float("nan")}, ValueError, "nan at n is not JSON; give a finite number, None, or a text."),
        ({"a": [1, {"b": float("-inf")}]}, ValueError, "-inf at a.1.b is not JSON"),
        (Event({"type": "x", "n": float("inf")}), ValueError, "inf at n is not JSON"),
        ({"tags": {"x"}}, TypeError, "A set at tags is not JSON; give a list"),
        ({"raw": b"x"}, TypeError, "Bytes at raw are not JSON; give a text, or put them into an artifact."),
        ({"a": ({"b": frozenset()},)}, TypeError, "A set at a.0.b is not JSON"),
        (float("nan"), ValueError, "nan is not JSON"),
        ({1, 2}, TypeError, "A set is not JSON"),
    ],
)
def test_what_json_does_not_have_is_refused(value: object, error: type[Exception], told: str) -> None:
    with pytest.raises(error) as refused:
        encoding.encode(value)
    assert str(refused.value).startswith(told)


def test_an_event_is_a_mapping_with_names() -> None:
    event = Event(STORED)
    assert (event.id, event.type, event.actor, event.position) == ("sevt_1", "agent.message", "local", 41)
    assert event.next_offset == "0000000000000000_0000000000000042"
    assert event.created_at == datetime(2026, 11, 15, 12, 0, 0, 123_000, UTC)
    assert event["content"] == STORED["content"]
    assert dict(event) == event.data == STORED
    assert event.get("missing") is None
    assert len(event) == len(STORED)
    assert "sevt_1" in repr(event)


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"content": STORED["content"]}, "one\ntwo"),
        ({"content": "plain"}, "plain"),
        ({"content": [{"type": "tool_result", "content": [{"type": "text", "text": "deep"}]}]}, "deep"),
        ({"text": "t"}, "t"),
        ({"error": {"message": "m"}}, ""),
        ({"message": {"role": "user", "content": "said"}}, "said"),
        ({"content": [{"type": "thinking", "thinking": "hm"}]}, "hm"),
        ({"content": None}, ""),
        ({"content": 3}, ""),
        ({}, ""),
    ],
)
def test_the_text_of_an_event(members: dict[str, Any], text: str) -> None:
    assert Event({"type": "x", **members}).text == text


def test_what_a_session_says_is_typed_and_nothing_is_lost() -> None:
    times = {"created_at": "2026-11-15T12:00:00.123Z", "updated_at": "2026-11-15T12:00:01.000Z"}
    raw = {"id": "s", **times, "usage": {"input_tokens": 3}, "new_member": [1]}
    info = session_info(raw)
    assert info.usage.input_tokens == 3
    assert info.updated_at - info.created_at == timedelta(milliseconds=877)
    assert info.raw["new_member"] == [1]


@pytest.mark.parametrize(
    "value",
    [{"a": "\ud800"}, {"a": 2**70}, {"a": [None, True, 1.5, "é"]}, {"a": {"b": {}}}],
)
def test_json_comes_back_as_it_was(value: Any) -> None:
    encoded = encoding.encode(value)
    assert encoding.decode(encoded) == value == json.loads(encoded)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"NaN", b'"\xff"', b"[" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000]
)
def test_what_is_not_json_is_refused_in_one_way(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        encoding.decode(text)


def test_events_can_be_mappings_of_every_kind() -> None:
    assert json.loads(encode_events({"type": "a"})) == [{"type": "a"}]
    assert json.loads(encode_events([Event(STORED), UserDict(type="b")])) == [STORED, {"type": "b"}]
    assert json.loads(encode_events(Event(STORED))) == [STORED]
    assert json.loads(encode_events({"type": str(n)} for n in range(2))) == [{"type": "0"}, {"type": "1"}]
    with pytest.raises(TypeError, match="object is not JSON"):
        encode_events({"type": "a", "x": object()})


def test_an_artifact_that_was_changed_on_its_way_is_refused() -> None:
    stub = Stub(said(200, "something else"))
    with pytest.raises(DigestMismatchError) as caught:
        stub.client().artifacts.get("0" * 64)
    assert caught.value.found == hashlib.sha256(b'"something else"').hexdigest()


def test_the_client_is_imported_when_it_is_asked_for() -> None:
    program = (
        "import sys, durable_sessions\n"
        "assert 'httpx2' not in sys.modules\n"
        "from durable_sessions import AsyncClient, Client\n"
        "assert not [name for name in sys.modules if name.startswith('durable_sessions.http')]\n"
        "assert not hasattr(durable_sessions, 'Server')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_times_have_a_zone() -> None:
    summer = timezone(timedelta(hours=2))
    assert time_text(datetime(2026, 7, 1, 2, 0, 0, 1_999, summer)) == "2026-07-01T00:00:00.001Z"
    assert time_text("2026-07-01T00:00:00Z") == "2026-07-01T00:00:00Z"
    with pytest.raises(ValueError, match="with a zone"):
        time_text(datetime(2026, 7, 1))  # noqa: DTZ001
