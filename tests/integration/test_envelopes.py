"""``Stream-Envelope``: libraries for plain streams write to sessions and read back what they wrote."""

import json

import httpx2
import pytest

from tests.support.sessions import code

pytestmark = pytest.mark.anyio
CHUNK = {"Stream-Envelope": "ai.chunk"}
JSON = {"Content-Type": "application/json"}
MESSAGES = [
    b'{"type":"text-start","id":"t1"}',
    b'{"type":"text-delta","id":"t1","delta":"a"}',
    b'{"type":"text-delta","id":"t1","delta":"\\ud800 1.0e400"}',
    b'{"offset":"x","created_at":1,"actor":2, "n": 12345678901234567890123, "n": 2}',
    b'"text"',
    b"null",
    b"[1, 2]",
]


@pytest.fixture
async def session(client: httpx2.AsyncClient) -> str:
    await client.put("/sessions/chat", headers=JSON)
    await client.post("/sessions/chat", json={"type": "user.message", "content": "hi"})
    return "/sessions/chat"


async def test_messages_come_back_byte_for_byte(client: httpx2.AsyncClient, session: str) -> None:
    for message in MESSAGES[:6]:
        # A list is so many messages, so one that is a list is sent inside of one.
        assert (await client.post(session, content=message, headers={**JSON, **CHUNK})).status_code == 204
    rest = b"[" + b",".join(MESSAGES[6:] + MESSAGES[:2]) + b"]"
    assert (await client.post(session, content=rest, headers={**JSON, **CHUNK})).status_code == 204
    await client.post(session, json={"type": "agent.message", "content": "bye"})
    expected = b"[" + b",".join(MESSAGES + MESSAGES[:2]) + b"]"
    read = await client.get(session, headers=CHUNK)
    assert read.content == expected
    assert read.headers["stream-up-to-date"] == "true"
    assert "Stream-Envelope" in read.headers["vary"]
    whole = await client.get(session)
    assert whole.headers["etag"] != read.headers["etag"]
    assert whole.headers["stream-next-offset"] == read.headers["stream-next-offset"]
    stored = json.loads(whole.content.replace(b"\\ud800", b""))
    assert [event["type"] for event in stored] == ["user.message", *["ai.chunk"] * 9, "agent.message"]
    same = await client.get(session, headers={**CHUNK, "If-None-Match": read.headers["etag"]})
    assert same.status_code == 304
    assert (await client.get(session, params={"envelope": "ai.chunk"})).content == expected
    other = await client.get(session, headers={"Stream-Envelope": "ai.other"})
    assert other.json() == []


async def test_live_readers_get_messages_alone(client: httpx2.AsyncClient, session: str) -> None:
    await client.post(session, content=MESSAGES[0], headers={**JSON, **CHUNK})
    seen = b""
    async with client.stream("GET", session, params={"offset": "-1", "live": "sse"}, headers=CHUNK) as answer:
        async for piece in answer.aiter_bytes():
            seen += piece
            if b"text-start" in seen and seen.count(b"event: control") == 1:
                await client.post(session, json={"type": "agent.message", "content": "not for them"})
                await client.post(session, content=MESSAGES[1], headers={**JSON, **CHUNK})
            if b"text-delta" in seen and seen.endswith(b"\n\n"):
                break
    assert b"not for them" not in seen
    assert b"user.message" not in seen
    polled = await client.get(
        session, params={"offset": "0000000000000000_0000000000000002", "live": "long-poll"}, headers=CHUNK
    )
    assert polled.content == b"[" + MESSAGES[1] + b"]"


async def test_without_it_a_repeated_id_is_told(client: httpx2.AsyncClient, session: str) -> None:
    assert (await client.post(session, content=MESSAGES[0], headers=JSON)).status_code == 204
    lost = await client.post(session, content=MESSAGES[1], headers=JSON)
    assert lost.status_code == 409
    assert lost.json()["error"]["code"] == "event_id_conflict"


@pytest.mark.parametrize(
    "kind", ["agent.message", "user.x", "ds.fact", "", "x", "Ai.chunk", "ai.chunk\u00e9", "a.b" * 99]
)
async def test_only_types_of_ones_own(client: httpx2.AsyncClient, session: str, kind: str) -> None:
    headers = {b"Content-Type": b"application/json", b"Stream-Envelope": kind.encode("latin-1")}
    for answer in (
        await client.post(session, content=b"{}", headers=headers),
        await client.get(session, headers=headers),
        await client.put("/sessions/new", content=b"{}", headers=headers),
    ):
        assert answer.status_code == 400, answer.text
        assert "ai.chunk" in answer.text


async def test_plain_streams_do_not_know_it(client: httpx2.AsyncClient, api: httpx2.AsyncClient) -> None:
    await client.put("/plain", headers=JSON)
    await client.post("/plain", content=MESSAGES[0], headers={**JSON, **CHUNK})
    assert (await client.get("/plain", headers=CHUNK)).content == b"[" + MESSAGES[0] + b"]"
    made = await client.put("/sessions/made", content=MESSAGES[0], headers={**JSON, **CHUNK})
    assert made.status_code == 201
    again = await client.put("/sessions/made", content=MESSAGES[0], headers={**JSON, **CHUNK})
    assert again.status_code == 200
    [event] = (await api.get("/sessions/made/events")).json()["data"]
    assert event["raw"] == {"type": "text-start", "id": "t1"}
    missing = await client.post("/sessions/none", content=b"{}", headers={**JSON, **CHUNK})
    assert missing.status_code == 404
    refused = await api.post("/sessions/made/events", json={"type": "x"}, headers={"If-Match": '"nonsense"'})
    assert code(refused) == "invalid_header"
