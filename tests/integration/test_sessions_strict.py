"""A session as a stream: ``/v1/stream/sessions/{id}`` is the same log, with the same rules."""

import asyncio

import httpx2
import pytest

from tests.support.sessions import START, append, at, frames, notes, numbers, read
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
STREAM = "/stream/sessions/s"


async def test_both_faces_show_the_same_events_at_the_same_offsets(api: httpx2.AsyncClient) -> None:
    await append(api, "s", *notes(range(3)))
    strict = await api.get(STREAM)
    assert strict.json() == await read(api, "s")
    assert strict.headers["stream-next-offset"] == at(3)
    assert (await api.get(f"{STREAM}?offset={at(2)}")).json() == await read(api, "s", offset=at(2))
    added = await api.post(STREAM, headers=JSON, content=b'[{"type":"note", "n":3},{"n":4,"type":"note"}]')
    assert (added.status_code, added.headers["stream-next-offset"]) == (204, at(5))
    events = await read(api, "s")
    assert numbers(events) == [0, 1, 2, 3, 4]
    assert events[3].keys() == events[0].keys(), "the server adds its members on either face"
    assert (await api.get(STREAM)).content == b"[" + (await raw(api)) + b"]"
    head = await api.head(STREAM)
    assert head.headers["stream-next-offset"] == at(5)
    assert head.headers["content-type"] == "application/json"


async def raw(api: httpx2.AsyncClient) -> bytes:
    content = (await api.get("/sessions/s/events")).content
    return content[len(b'{"data":[') : content.rindex(b'],"next_page"')]


async def test_the_rules_of_sessions_hold_for_streams(api: httpx2.AsyncClient) -> None:
    assert (await api.post(STREAM, headers=JSON, content=b'[{"type":"a"}]')).status_code == 404
    assert (await api.put(STREAM, headers=JSON)).status_code == 201
    for body in (b"[1]", b'[{"no":"type"}]', b'[{"type":"a"},"text"]', b"[]", b""):
        assert (await api.post(STREAM, headers=JSON, content=body)).status_code == 400, body
    assert (await api.post(STREAM, content=b'[{"type":"a"}]')).status_code == 400, "no content type"
    text = {"Content-Type": "text/plain"}
    assert (await api.post(STREAM, headers=text, content=b'[{"type":"a"}]')).status_code == 409
    assert (await api.put("/stream/sessions/t", headers=text)).status_code == 409
    assert (await api.put("/stream/sessions/a b", headers=JSON)).status_code == 400
    await append(api, "s", {"type": "a", "id": "mine"})
    again = await api.post(STREAM, headers=JSON, content=b'[{"type":"a","id":"mine"}]')
    assert (again.status_code, again.headers["stream-next-offset"]) == (204, at(1))
    other = await api.post(STREAM, headers=JSON, content=b'[{"type":"new"},{"type":"b","id":"mine"}]')
    assert (other.status_code, other.json()["error"]["code"]) == (409, "event_id_conflict")
    assert len(await read(api, "s")) == 1, "nothing of it is stored"
    twice = b'[{"type":"a","id":"one"},{"type":"b","id":"one"}]'
    refused = await api.put("/stream/sessions/u", headers=JSON, content=twice)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "event_id_conflict")
    assert (await api.get("/sessions/u")).status_code == 404
    await api.post("/sessions/s/archive")
    assert (await api.post(STREAM, headers=JSON, content=b'[{"type":"a"}]')).status_code == 409


async def test_a_session_follows_what_the_strict_face_appends(api: httpx2.AsyncClient) -> None:
    body = b'[{"type":"session.status_running"},{"type":"x","session_thread_id":"thread_1"}]'
    created = await api.put(STREAM, headers={**JSON, "Stream-TTL": "3600"}, content=body)
    assert (created.status_code, created.headers["stream-next-offset"]) == (201, at(2))
    session = (await api.get("/sessions/s")).json()
    assert (session["status"], session["event_count"]) == ("running", 2)
    threads = (await api.get("/sessions/s/threads")).json()["data"]
    assert threads[1]["id"] == "thread_1"
    assert (await api.put(STREAM, headers={**JSON, "Stream-TTL": "3600"}, content=body)).status_code == 200
    assert len(await read(api, "s")) == 2
    assert (await api.head("/sessions/s/events")).headers["stream-ttl"] == "3600"


async def test_producers_conditions_and_closing_are_shared(api: httpx2.AsyncClient) -> None:
    producer = {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"}
    await api.put(STREAM, headers=JSON)
    first = await api.post(STREAM, headers={**JSON, **producer}, content=b'[{"type":"a"}]')
    assert first.status_code == 200
    again = await api.post("/sessions/s/events", headers=producer, json={"type": "a"})
    assert (again.status_code, again.headers["stream-next-offset"]) == (204, at(1))
    late = await api.post(STREAM, headers={**JSON, "If-Match": f'"{START}"'}, content=b'[{"type":"a"}]')
    assert (late.status_code, late.headers["stream-next-offset"]) == (412, at(1))
    assert (await api.post(STREAM, headers={"Stream-Closed": "true"})).status_code == 204
    assert (await api.get("/sessions/s")).json()["lifecycle"] == "closed"
    assert (await api.post("/sessions/s/events", json={"type": "b"})).status_code == 409


async def test_forks_and_deletes_go_across_the_faces(api: httpx2.AsyncClient) -> None:
    await append(api, "s", *notes(range(3)))
    headers = {**JSON, "Stream-Forked-From": "/v1/stream/sessions/s", "Stream-Fork-Offset": at(2)}
    assert (await api.put("/stream/sessions/f", headers=headers)).status_code == 201
    session = (await api.get("/sessions/f")).json()
    assert session["forked_from"] == {"session_id": "s", "position": 2}
    assert numbers(await read(api, "f")) == [0, 1]
    await api.put("/stream/other", headers=JSON)
    foreign = {**JSON, "Stream-Forked-From": "/v1/stream/other"}
    assert (await api.put("/stream/sessions/g", headers=foreign)).status_code == 400
    assert (await api.delete("/stream/sessions/f")).status_code == 204
    assert (await api.get("/sessions/f")).status_code == 404


async def test_the_strict_event_stream_follows_the_session(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "note", "n": 0})
    async with api.stream("GET", STREAM + "?offset=-1&live=sse") as answer, asyncio.timeout(PATIENCE_SECONDS):
        stream = frames(answer)
        assert numbers((await anext(stream)).json()) == [0]
        await anext(stream)
        await append(api, "s", {"type": "note", "n": 1})
        assert numbers((await anext(stream)).json()) == [1]
