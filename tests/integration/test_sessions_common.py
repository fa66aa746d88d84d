"""What every request to the sessions face can rely on: errors, limits, bytes."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.limits import MIB
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.sessions import append, at, read

pytestmark = pytest.mark.anyio

EVENTS = "/sessions/s/events"


def require_error(answer: httpx2.Response, status: int, kind: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert body.keys() == {"type", "error", "request_id"}
    assert body["type"] == "error"
    assert body["request_id"] == answer.headers["request-id"]
    error: dict[str, Any] = body["error"]
    assert error["type"] == kind
    assert error["message"]
    return error


WRONG = [
    ("GET", "/sessions/missing", 404, "not_found_error"),
    ("GET", "/sessions/missing/events", 404, "not_found_error"),
    ("HEAD", "/sessions/missing/events", 404, ""),
    ("GET", "/sessions/missing/events/stream", 404, "not_found_error"),
    ("GET", "/sessions/.hidden", 400, "invalid_request_error"),
    ("PATCH", "/sessions/x", 405, "invalid_request_error"),
    ("DELETE", "/sessions/x/events", 405, "invalid_request_error"),
    ("GET", "/sessions/x/nothing", 404, "not_found_error"),
    ("GET", "/agents/missing", 404, "not_found_error"),
    ("GET", "/sessions?limit=0", 400, "invalid_request_error"),
    ("GET", "/sessions?page=x", 400, "invalid_request_error"),
]


async def test_every_error_has_the_same_shape(api: httpx2.AsyncClient) -> None:
    for method, path, status, kind in WRONG:
        answer = await api.request(method, path)
        if method == "HEAD":
            assert (answer.status_code, answer.content) == (status, b"")
            assert answer.headers["request-id"]
        else:
            require_error(answer, status, kind)


async def test_every_answer_has_a_request_id_of_its_own(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "a"})
    answers = [await api.get(path) for path in (EVENTS, "/sessions/s", "/sessions", "/agents")]
    answers.append(await api.post(EVENTS, json={"type": "a"}))
    assert {answer.status_code for answer in answers} == {200, 204}
    assert len({answer.headers["request-id"] for answer in answers}) == len(answers)


BAD: list[tuple[str, int | None, str]] = [
    ('[{"type":"a"},{"no":"type"}]', 1, '"type"'),
    ('{"events":[{"type":"a"},{"type":"b"},5]}', 2, "object"),
    ('{"events":[{"type":""}]}', 0, "1 to 128"),
    ('[{"type":"a","id":""}]', 0, "id"),
    ('[{"type":"a","id":7}]', 0, "id"),
    ('[{"type":"a","id":"x","id":"y"}]', 0, "twice"),
    ('{"type":"' + "x" * 129 + '"}', None, "1 to 128"),
    ('{"no":"type"}', None, '"type"'),
    ('{"events":"a"}', None, "list"),
    ('{"events":[]}', None, "no event"),
    ("[]", None, "no event"),
    ("", None, "no event"),
    ('{"type":"a"', None, "JSON"),
    ('{"type":"a","x":NaN}', None, "JSON"),
    ('{"type":"a"} {"type":"b"}', None, "JSON"),
]


async def test_bad_events_are_400_and_name_the_bad_one(api: httpx2.AsyncClient) -> None:
    for body, index, says in BAD:
        error = require_error(await api.post(EVENTS, content=body), 400, "invalid_request_error")
        assert says in error["message"], body
        if index is not None:
            assert error["details"]["index"] == index
    assert (await api.get(EVENTS)).status_code == 404, "what was refused has created nothing"


async def test_text_that_is_not_utf8_is_refused_wherever_it_is(api: httpx2.AsyncClient) -> None:
    for path in (EVENTS, "/sessions", "/agents"):
        bad = await api.post(path, content=b'{"type":"a","name":"n","model":"m","metadata":{"x":"\xff"}}')
        require_error(bad, 400, "invalid_request_error")
    require_error(await api.get(EVENTS + "?type=%ff"), 400, "invalid_request_error")


async def test_nesting_is_allowed_up_to_128_levels_in_any_body(api: httpx2.AsyncClient) -> None:
    def nested(levels: int) -> bytes:
        return b'{"type":"a","x":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"

    for wrap in (b"%b", b"[%b]", b'{"events":[%b]}'):
        assert (await api.post(EVENTS, content=wrap % nested(128))).status_code == 204
        require_error(await api.post(EVENTS, content=wrap % nested(129)), 400, "invalid_request_error")
        require_error(await api.post(EVENTS, content=wrap % nested(50_000)), 400, "invalid_request_error")


async def test_what_the_sdks_send_along_is_tolerated(api: httpx2.AsyncClient) -> None:
    headers = {"x-stainless-lang": "python", "x-stainless-retry-count": "1", "anthropic-beta": "x-2025-01-01"}
    answer = await api.post(EVENTS + "?beta=true", headers=headers, json={"type": "a"})
    assert answer.status_code == 204
    headers["anthropic-version"] = "2023-06-01"
    sent = {"events": [{"type": "agent.note"}]}
    answer = await api.post(EVENTS + "?beta=true&what=ever&what=else", headers=headers, json=sent)
    assert answer.status_code == 200
    for path in (EVENTS, "/sessions", "/sessions/s"):
        assert (await api.get(path + "?beta=true&foo[bar]=1&%20=", headers=headers)).status_code == 200


ODD = [
    b'{ "type" : "a" ,\n "n": 12345678901234567890, "f":1.0,"e":1E+2, "z":-0 }',
    b'{"type":"a","k":1,"k":2,"\\u006b":3}',
    b'{"type":"a","s":"\\ud800 \\u00e9 \xc3\xa9 \\/ \\ud83d\\ude00 \\n"}',
    b'{"type":"a","deep":{"x": [ 1,2 , {"y":null}]}}',
    b'{"type":"\\u0061"}',
]


async def test_events_come_back_byte_for_byte(api: httpx2.AsyncClient) -> None:
    for body in ODD:
        assert (await api.post(EVENTS, content=b" " + body + b" ")).status_code == 204
    assert (await api.post(EVENTS, content=b"[" + b" , ".join(ODD) + b"]")).status_code == 204
    assert (await api.post(EVENTS, content=b'{"events":[' + b",".join(ODD) + b"]}")).status_code == 204
    answer = await api.get(EVENTS)
    for body in ODD:
        assert answer.content.count(b"," + body[1:]) == 3, body
    assert len(answer.json()["data"]) == 3 * len(ODD)


async def test_members_of_the_server_cannot_be_forged(api: httpx2.AsyncClient) -> None:
    forged = (
        b'{"offset":"1","type":"a","actor":"\\u0061dmin","odd":"\\ud800",'
        b'"created_at":"1999-01-01T00:00:00Z","processed_at":null,"\\u006fffset2":1}'
    )
    await api.post(EVENTS, content=forged)
    (event,) = await read(api, "s")
    assert event["actor"] == "local"
    assert event["offset"] == at(0)
    assert event["created_at"] == event["processed_at"] > "2020"
    assert event["original_offset"] == "1"
    assert event["original_actor"] == "admin"
    assert event["original_created_at"] == "1999-01-01T00:00:00Z"
    assert event["original_processed_at"] is None


# Limits ---------------------------------------------------------------------------------


async def test_an_event_of_1_mib_is_taken_and_one_byte_more_is_not(api: httpx2.AsyncClient) -> None:
    def event(size: int) -> bytes:
        empty = b'{"type":"a","text":""}'
        return empty[:-2] + b"x" * (size - len(empty)) + empty[-2:]

    assert (await api.post(EVENTS, content=event(MIB))).status_code == 204
    error = require_error(await api.post(EVENTS, content=event(MIB + 1)), 413, "request_too_large")
    assert str(MIB) in error["message"]
    both = await api.post(EVENTS, content=b'[{"type":"b"},' + event(MIB + 1) + b"]")
    assert require_error(both, 413, "request_too_large")["details"]["index"] == 1
    assert len(await read(api, "s")) == 1, "all or nothing"


async def test_a_body_of_8_mib_is_taken_and_one_byte_more_is_not(api: httpx2.AsyncClient) -> None:
    def body(size: int) -> bytes:
        pad = b'{"type":"a","text":"' + b"x" * (MIB - 200) + b'"},'
        whole = b"[" + pad * 8 + b'{"type":"end","text":"'
        return whole + b"y" * (size - len(whole) - 3) + b'"}]'

    assert (await api.post(EVENTS, content=body(8 * MIB))).status_code == 204
    require_error(await api.post(EVENTS, content=body(8 * MIB + 1)), 413, "request_too_large")

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(9):
            yield b" " * MIB

    require_error(await api.post(EVENTS, content=chunks()), 413, "request_too_large")
    head = await api.head(EVENTS)
    assert head.headers["stream-next-offset"] == at(9)


async def test_a_thousand_events_are_taken_and_one_more_is_not(api: httpx2.AsyncClient) -> None:
    events = [{"type": "a", "n": number} for number in range(1001)]
    assert (await api.post(EVENTS, json={"events": events[:1000]})).status_code == 204
    error = require_error(await api.post(EVENTS, json=events), 400, "invalid_request_error")
    assert "1000" in error["message"]
    assert (await api.head(EVENTS)).headers["stream-next-offset"] == at(1000)


async def test_the_limits_can_be_set(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data", body_bytes=4096, event_bytes=100, events_per_request=3) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1") as api,
    ):
        assert (await api.post(EVENTS, json=[{"type": "a"}] * 3)).status_code == 204
        require_error(await api.post(EVENTS, json=[{"type": "a"}] * 4), 400, "invalid_request_error")
        require_error(await api.post(EVENTS, json={"type": "a" * 101}), 413, "request_too_large")
        require_error(await api.post(EVENTS, content=b" " * 4097), 413, "request_too_large")


async def test_a_batch_is_all_or_nothing(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "a"})
    for bad in ([{"type": "b"}, {"type": ""}], [{"type": "b"}, 1], [{"type": "b", "id": ""}]):
        assert (await api.post(EVENTS, json=bad)).status_code == 400
    assert [event["type"] for event in await read(api, "s")] == ["a"]


# Times ----------------------------------------------------------------------------------


async def test_times_have_milliseconds_and_are_utc(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "a"})
    (event,) = await read(api, "s")
    session = (await api.get("/sessions/s")).json()
    for time in (event["created_at"], event["processed_at"], session["created_at"], session["updated_at"]):
        assert len(time) == len("2030-01-31T12:00:00.000Z")
        assert time.endswith("Z")


async def test_times_beyond_the_calendar_are_only_text(api: httpx2.AsyncClient) -> None:
    outcome = {"type": "user.define_outcome", "description": "d"}
    answer = await api.post(EVENTS, json=outcome, headers={"Prefer": "return=representation"})
    name = answer.json()["data"][0]["outcome_id"]
    for time in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "no time", 5, None):
        told = {"original_created_at": time, "result": "ok"}
        end = {"type": "span.outcome_evaluation_end", "outcome_id": name, **told}
        assert (await api.post(EVENTS, json=end)).status_code == 204
        status = {"type": "session.status_terminated", "original_created_at": time}
        assert (await api.post(EVENTS, json=status)).status_code == 204
    assert (await api.get("/sessions/s")).status_code == 200


# Both dialects write one log --------------------------------------------------------------


async def test_both_dialects_write_the_same_log(server: LocalServer, api: httpx2.AsyncClient) -> None:
    strict = {"anthropic-version": "2023-06-01"}
    message = {"type": "user.message", "content": [{"type": "text", "text": "hi"}]}
    missing = await api.post(EVENTS, headers=strict, json={"events": [message]})
    require_error(missing, 404, "not_found_error")
    require_error(await api.post("/sessions", headers=strict, json={}), 400, "invalid_request_error")
    created = await api.post(
        "/sessions", headers=strict, json={"agent": "agent_x", "environment_id": "env_x"}
    )
    assert created.status_code == 200
    path = f"/sessions/{created.json()['id']}/events"
    for body in (json.dumps(message), json.dumps([message])):
        require_error(await api.post(path, headers=strict, content=body), 400, "invalid_request_error")
    answer = await api.post(path, headers=strict, json={"events": [message]})
    assert answer.status_code == 200
    assert (await api.post(path, json=message)).status_code == 204
    first, second = (await api.get(path)).json()["data"]
    assert first == answer.json()["data"][0]
    assert first.keys() == second.keys()
    unknown = {"type": "user.unheard_of"}
    require_error(
        await api.post(path, headers=strict, json={"events": [unknown]}), 400, "invalid_request_error"
    )
    assert (await api.post(path, json=unknown)).status_code == 204
    own = {"type": "agent.anything", "free": True}
    assert (await api.post(path, headers=strict, json={"events": [own]})).status_code == 200
