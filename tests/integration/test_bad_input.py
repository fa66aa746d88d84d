"""What a client can send wrongly gets a clear answer, changes nothing, and is never a 500."""

import asyncio
import urllib.parse
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.anyio

TEXT = {"Content-Type": "text/plain"}
JSON = {"Content-Type": "application/json"}
PRODUCER = {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"}
APPEND = b"POST /v1/stream/s HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
SMALL = replace(
    DEFAULT_LIMITS,
    append_body_bytes_max=1000,
    connections_max=8,
    header_seconds_max=0.5,
    body_seconds_max=0.5,
)


async def check(answer: httpx2.Response, status: int, code: str) -> None:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["code"] == code
    assert len(error["message"]) > 10
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize(
    "offset",
    [
        "",
        "0",
        "abc",
        "-2",
        "NOW",
        "now ",
        "1_1",
        "%00",
        "%0d%0a",
        "..%2f",
        "0000000000000000_0000000000000000%2C",
        "9" * 300,
    ],
)
@pytest.mark.parametrize("live", ["", "&live=long-poll", "&live=sse"])
async def test_offsets(client: httpx2.AsyncClient, offset: str, live: str) -> None:
    await client.put("/s", headers=TEXT)
    await check(await client.get(f"/s?offset={offset}{live}"), 400, "invalid_offset")


async def test_other_parameters(client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers=TEXT)
    await check(await client.get("/s?offset=-1&offset=-1"), 400, "invalid_request")
    await check(await client.get("/s?offset=-1&live=foo"), 400, "invalid_request")
    await check(await client.get("/s?live=sse"), 400, "invalid_request")
    await check(await client.get("/s?live=long-poll"), 400, "invalid_request")
    await check(await client.get("/s?offset=0000000000000000_0000000000000009"), 400, "offset_beyond_tail")
    assert (await client.get("/s?unknown=1&offset=-1&x&=&%ff")).status_code == 200


@pytest.mark.parametrize("ttl", ["", "-1", "+1", "01", "1.5", "1e3", "abc", "٣", "9" * 30, "1 2"])
async def test_ttls(client: httpx2.AsyncClient, ttl: str) -> None:
    answer = await client.put("/s", headers={b"Stream-TTL": ttl.encode()})
    await check(answer, 400, "invalid_header")
    assert (await client.head("/s")).status_code == 404


@pytest.mark.parametrize(
    "expires",
    [
        "",
        "March 7 2030",
        "2030-01-01",
        "2030-01-01T00:00:00",
        "2030-13-01T00:00:00Z",
        "2030-02-30T00:00:00Z",
        "1893456000",
        "2030-01-01T25:00:00Z",
        "2030-01-01T00:00:00+99:99",
    ],
)
async def test_expiry_times(client: httpx2.AsyncClient, expires: str) -> None:
    await check(await client.put("/s", headers={"Stream-Expires-At": expires}), 400, "invalid_header")


async def test_ttl_and_expiry_together(client: httpx2.AsyncClient) -> None:
    both = {"Stream-TTL": "1", "Stream-Expires-At": "2030-01-01T00:00:00Z"}
    await check(await client.put("/s", headers=both), 400, "invalid_header")


@pytest.mark.parametrize(
    "change",
    [
        {"Producer-Id": ""},
        {"Producer-Id": None},
        {"Producer-Epoch": None},
        {"Producer-Seq": None},
        {"Producer-Epoch": "-1"},
        {"Producer-Epoch": "1.0"},
        {"Producer-Seq": "abc"},
        {"Producer-Seq": ""},
        {"Producer-Seq": "9007199254740992"},
        {"Producer-Epoch": "9007199254740992"},
        {"Producer-Seq": "0, 0"},
        {"Producer-Id": "x" * 4097},
        {"Stream-Seq": "x" * 4097},
        {"Stream-Seq": ""},
        {"If-Match": "unquoted"},
        {"If-Match": ""},
    ],
)
async def test_append_headers(client: httpx2.AsyncClient, change: dict[str, str | None]) -> None:
    await client.put("/s", headers=TEXT)
    sent = {name: value for name, value in {**TEXT, **PRODUCER, **change}.items() if value is not None}
    await check(await client.post("/s", headers=sent, content="x"), 400, "invalid_header")
    assert (await client.get("/s")).content == b""


async def test_longest_producer_id_and_largest_numbers(client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers=TEXT)
    sent = {**TEXT, "Producer-Id": "é" * 4096, "Producer-Epoch": "9007199254740991", "Producer-Seq": "0"}
    encoded = {name: value.encode("latin-1") for name, value in sent.items()}
    assert (await client.post("/s", headers=encoded, content="x")).status_code == 200  # type: ignore[arg-type]


@pytest.mark.parametrize("content_type", ["", "text", "text/", "a b/c", "x" * 300])
async def test_content_types(client: httpx2.AsyncClient, content_type: str) -> None:
    await check(await client.put("/s", headers={"Content-Type": content_type}), 400, "invalid_header")


async def test_bodies(client: httpx2.AsyncClient) -> None:
    await client.put("/t", headers=TEXT)
    await client.put("/j", headers=JSON)
    await check(await client.post("/t", headers=TEXT), 400, "empty_body")
    await check(await client.post("/t", content=b"x"), 400, "missing_content_type")
    await check(await client.post("/t", headers=JSON, content=b"1"), 409, "content_type_mismatch")
    await check(await client.post("/j", headers=JSON, content=b"[]"), 400, "empty_body")
    await check(await client.post("/j", headers=JSON, content=b"{"), 400, "invalid_json")
    await check(await client.put("/new", headers=JSON, content=b"{"), 400, "invalid_json")
    assert (await client.head("/new")).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a//b",
        "a/../b",
        "..%2f..%2fetc",
        "%2e%2e",
        "./a",
        "a%00b",
        "a%0ab",
        "%ff",
        "a/",
        "x" * 1025,
        "%c3%a9" * 513,
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "DELETE"])
async def test_paths(server: LocalServer, method: str, path: str) -> None:
    reply = await raw(
        server,
        f"{method} /v1/stream/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode(),
    )
    assert b" 400 " in reply.split(b"\r\n")[0]
    if method != "HEAD":
        assert b'"invalid_path"' in reply


async def test_paths_at_the_limit(client: httpx2.AsyncClient) -> None:
    assert (await client.put("/" + "x" * 1024)).status_code == 201
    assert (await client.put("/" + urllib.parse.quote("é" * 512))).status_code == 201


async def test_forks(client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers=TEXT, content="ab")
    source = {"Stream-Forked-From": "/v1/stream/s"}
    for bad in (
        {"Stream-Fork-Offset": "0000000000000000_0000000000000001"},
        {"Stream-Fork-Sub-Offset": "0"},
        {"Stream-Forked-From": "s"},
        {"Stream-Forked-From": "http://elsewhere/v1/stream/s"},
        {**source, "Stream-Fork-Sub-Offset": "1"},
        {**source, "Stream-Fork-Offset": "0000000000000000_0000000000000003"},
        {**source, "Stream-Fork-Offset": "0000000000000000_0000000000000000", "Stream-Fork-Sub-Offset": "+1"},
        {**source, "Stream-Fork-Offset": "0000000000000000_0000000000000000", "Stream-Fork-Sub-Offset": "3"},
    ):
        await check(await client.put("/f", headers=bad), 400, "invalid_fork")
    await check(await client.put("/f", headers={**source, "Stream-Fork-Offset": "1"}), 400, "invalid_offset")
    await check(
        await client.put("/f", headers={"Stream-Forked-From": "/v1/stream/a/../b"}), 400, "invalid_path"
    )


async def test_methods_and_routes(server: LocalServer, client: httpx2.AsyncClient) -> None:
    refused = await client.patch("/s")
    await check(refused, 405, "method_not_allowed")
    assert "PUT" in refused.headers["allow"]
    await check(await client.get(server.url + "/nowhere"), 404, "route_not_found")
    await check(await client.post(server.url + "/livez"), 405, "method_not_allowed")
    await check(await client.get("/__ds/unknown"), 404, "ROUTE_NOT_FOUND")
    await check(await client.put("/__ds"), 404, "ROUTE_NOT_FOUND")
    reply = await raw(server, b"FROB /v1/stream/s HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 405 ")


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[LocalServer]:
    async with local_server(tmp_path / "small", limits=SMALL) as server:
        yield server


async def test_a_body_at_the_limit_and_one_past_it(small: LocalServer) -> None:
    async with httpx2.AsyncClient(base_url=small.url + "/v1/stream") as client:
        await client.put("/s", headers=TEXT)
        assert (await client.post("/s", headers=TEXT, content=b"x" * 1000)).status_code == 204
        await check(await client.post("/s", headers=TEXT, content=b"x" * 1001), 413, "body_too_large")

        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(11):
                yield b"x" * 100

        await check(await client.post("/s", headers=TEXT, content=chunks()), 413, "body_too_large")
        assert (await client.head("/s")).headers["stream-next-offset"].endswith("_0000000000001000")


@pytest.mark.parametrize(
    "start",
    [
        b"POST /v1/stream/s HT",
        APPEND[:-10],
        APPEND + b"Content-Length: 10\r\n\r\nhalf",
        APPEND + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf",
    ],
)
async def test_half_sent_requests_time_out_and_change_nothing(small: LocalServer, start: bytes) -> None:
    async with httpx2.AsyncClient(base_url=small.url + "/v1/stream") as client:
        await client.put("/s", headers=TEXT)
        reply = await raw(small, start)
        assert reply.startswith(b"HTTP/1.1 408 ")
        assert (await client.get("/s")).content == b""


async def test_a_client_that_hangs_up_mid_body_changes_nothing(
    server: LocalServer, client: httpx2.AsyncClient
) -> None:
    await client.put("/s", headers=TEXT)
    _, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    writer.write(APPEND + b"Content-Length: 10\r\n\r\nhalf")
    await writer.drain()
    writer.transport.abort()
    assert (await client.post("/s", headers=TEXT, content="whole")).status_code == 204
    assert (await client.get("/s")).text == "whole"


async def test_connections_beyond_the_limit_are_told_so(small: LocalServer) -> None:
    port = int(small.url.rpartition(":")[2])
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
    await until(lambda: small.node.server.open_connections >= 8)
    reply = await raw(small, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1" in reply.lower()
    for _, writer in held:
        writer.close()
    await until(lambda: small.node.server.open_connections == 0)
    assert (
        await raw(small, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    ).startswith(b"HTTP/1.1 200 ")


header_names = st.sampled_from(
    [
        "Content-Type",
        "Stream-Seq",
        "Stream-TTL",
        "Stream-Expires-At",
        "Stream-Closed",
        "Producer-Id",
        "Producer-Epoch",
        "Producer-Seq",
        "Stream-Forked-From",
        "Stream-Fork-Offset",
        "Stream-Fork-Sub-Offset",
        "If-Match",
        "If-None-Match",
        "Authorization",
        "Expect",
        "Range",
    ]
)
header_values = st.one_of(
    st.sampled_from(
        [
            "text/plain",
            "application/json",
            "true",
            "0",
            "1",
            "/v1/stream/s",
            "0000000000000000_0000000000000000",
            '"*"',
        ]
    ),
    st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=20),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH", "TRACE"]),
    path=st.sampled_from(["s", "__ds/subscriptions/a", "__ds/subscriptions/a/claim", "__ds/jwks.json"])
    | st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=20),
    query=st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=20)
    | st.sampled_from(["offset=-1", "offset=now", "offset=now&cursor=5"]),
    headers=st.dictionaries(header_names, header_values, max_size=5),
    body=st.binary(max_size=40)
    | st.sampled_from([b"{}", b"[1]", b'{"type":"webhook"}', b'{"type":"pull-wake","pattern":"*"}']),
)
async def test_nothing_that_a_client_sends_is_a_500(
    server: LocalServer, method: str, path: str, query: str, headers: dict[str, str], body: bytes
) -> None:
    head = f"{method} /v1/stream/{path}?{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    head += f"Content-Length: {len(body)}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items() if name != "Expect")
    reply = await raw(server, head.encode("latin-1") + b"\r\n" + body)
    status = int(reply.split(b" ")[1])
    assert status < 500, reply


async def raw(server: LocalServer, data: bytes) -> bytes:
    """Send bytes and return all that comes back until the server closes, or is quiet after an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    try:
        writer.write(data)
        reply = b""
        while True:
            wait = PATIENCE_SECONDS if not reply else 0.2
            try:
                piece = await asyncio.wait_for(reader.read(65536), wait)
            except TimeoutError:
                return reply
            if not piece:
                return reply
            reply += piece
    finally:
        writer.close()
