"""The protocol over HTTP where other servers get it wrong, and what the public suite does not ask."""

import httpx2
import pytest

from durable_sessions.testing.server import LocalServer

pytestmark = pytest.mark.anyio

TEXT = {"Content-Type": "text/plain"}
JSON = {"Content-Type": "application/json"}
START = "0000000000000000_0000000000000000"


def at(position: int) -> str:
    return f"0000000000000000_{position:016d}"


async def test_closed_counts_in_any_case(client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers=TEXT)
    closed = await client.post("/s", headers={"Stream-Closed": "TRUE"})
    assert (closed.status_code, closed.headers["stream-closed"]) == (204, "true")
    for value in ("false", "yes", "1", ""):
        await client.put(f"/{value}x", headers={**TEXT, "Stream-Closed": value})
        assert "stream-closed" not in (await client.head(f"/{value}x")).headers


async def test_a_ttl_of_zero_is_created_and_over(client: httpx2.AsyncClient) -> None:
    assert (await client.put("/s", headers={"Stream-TTL": "0"})).status_code == 201
    assert (await client.get("/s")).status_code == 404
    assert (await client.put("/s")).status_code == 201


async def test_a_soft_deleted_stream_is_gone_for_everything(client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers=TEXT, content="abc")
    await client.put("/f", headers={"Stream-Forked-From": "/v1/stream/s"})
    assert (await client.delete("/s")).status_code == 204
    assert (await client.post("/s", headers={"Stream-Closed": "true"})).status_code == 410
    assert (await client.post("/s", headers=TEXT, content="x")).status_code == 410
    assert (await client.get("/s")).status_code == 410
    assert (await client.head("/s")).status_code == 410
    assert (await client.delete("/s")).status_code == 410
    assert (await client.put("/s", headers=TEXT)).status_code == 409
    assert (await client.put("/g", headers={"Stream-Forked-From": "/v1/stream/s"})).status_code == 409
    assert (await client.get("/f")).text == "abc"


async def test_the_same_fork_without_content_type_is_the_same(client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers=TEXT, content="abc")
    fork = {"Stream-Forked-From": "/v1/stream/s", "Stream-Fork-Offset": at(2)}
    assert (await client.put("/f", headers=fork)).status_code == 201
    assert (await client.put("/f", headers=fork)).status_code == 200
    assert (await client.put("/f", headers={**fork, **TEXT})).status_code == 200


async def test_a_duplicate_says_where_the_stream_ends(client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers=TEXT)
    producer = {**TEXT, "Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"}
    first = await client.post("/s", headers=producer, content="abc")
    again = await client.post("/s", headers=producer, content="abc")
    assert (first.status_code, again.status_code) == (200, 204)
    assert again.headers["stream-next-offset"] == at(3)
    assert (again.headers["producer-epoch"], again.headers["producer-seq"]) == ("0", "0")


@pytest.mark.parametrize("tags", ['"x", {}', "W/{}", "*", '"a" , W/"b",{}'])
async def test_lists_of_entity_tags_match(client: httpx2.AsyncClient, tags: str) -> None:
    await client.put("/s", headers=TEXT, content="abc")
    etag = (await client.get("/s")).headers["etag"]
    again = await client.get("/s", headers={"If-None-Match": tags.format(etag)})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == etag


async def test_an_entity_tag_changes_with_the_close_the_stream_and_the_end(
    client: httpx2.AsyncClient,
) -> None:
    async def etag() -> str:
        return str((await client.get("/s")).headers["etag"])

    await client.put("/s", headers=TEXT, content="abc")
    tags = [await etag()]
    await client.post("/s", headers=TEXT, content="d")
    tags.append(await etag())
    await client.post("/s", headers={"Stream-Closed": "true"})
    tags.append(await etag())
    await client.delete("/s")
    await client.put("/s", headers=TEXT, content="abcd")
    tags.append(await etag())
    assert len(set(tags)) == 4


async def test_catch_up_can_be_cached_and_the_tail_cannot(client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers=TEXT, content="abc")
    assert "max-age=60" in (await client.get("/s")).headers["cache-control"]
    now = await client.get("/s?offset=now")
    assert (now.headers["cache-control"], "etag" in now.headers) == ("no-store", False)
    assert (await client.head("/s")).headers["cache-control"] == "no-store"


async def test_json_comes_back_byte_for_byte(client: httpx2.AsyncClient) -> None:
    odd = b'{"n": 12345678901234567890, "f":1.0, "k":1,"k":2,\n "s":"\\ud800\\u00e9 \xc3\xa9", "e":1E+2}'
    await client.put("/s", headers=JSON)
    await client.post("/s", headers=JSON, content=b" [ " + odd + b" , -0 ] ")
    assert (await client.get("/s")).content == b"[" + odd + b",-0]"


async def test_json_that_is_not_utf8_is_refused(client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers=JSON)
    bad = await client.post("/s", headers=JSON, content=b'{"a":"\xff"}')
    assert (bad.status_code, bad.json()["error"]["code"]) == (400, "invalid_json")
    assert (await client.get("/s")).content == b"[]"


async def test_an_offset_inside_an_append_begins_there(client: httpx2.AsyncClient) -> None:
    await client.put("/t", headers=TEXT, content="abcdef")
    assert (await client.get(f"/t?offset={at(4)}")).text == "ef"
    await client.put("/j", headers=JSON, content="[1,2,3]")
    assert (await client.get(f"/j?offset={at(2)}")).text == "[3]"


async def test_a_conditional_append_happens_only_at_its_tail(client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers=JSON)
    first = await client.post("/s", headers={**JSON, "If-Match": f'"{START}"'}, content="1")
    assert first.status_code == 204
    late = await client.post("/s", headers={**JSON, "If-Match": f'"{START}"'}, content="2")
    assert (late.status_code, late.headers["stream-next-offset"]) == (412, at(1))
    assert (await client.post("/s", headers={**JSON, "If-Match": "*"}, content="2")).status_code == 204
    assert (await client.get("/s")).json() == [1, 2]


async def test_large_streams_are_read_in_pieces(client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers=TEXT)
    body = bytes(range(256)) * 4096 * 3
    await client.post("/s", headers=TEXT, content=body)
    read, offset, pieces = b"", "-1", 0
    while True:
        answer = await client.get(f"/s?offset={offset}")
        read += answer.content
        offset = answer.headers["stream-next-offset"]
        pieces += 1
        if "stream-up-to-date" in answer.headers:
            break
        assert len(answer.content) == 1 << 20
    assert read == body
    assert pieces == 3


async def test_create_says_where_the_stream_is(server: LocalServer, client: httpx2.AsyncClient) -> None:
    created = await client.put("/a/b%20c", headers=TEXT)
    assert created.headers["location"] == server.url + "/v1/stream/a/b%20c"
    assert (await client.head("/a/b c")).status_code == 200


async def test_expiry_is_told_as_it_was_given(client: httpx2.AsyncClient) -> None:
    await client.put("/t", headers={"Stream-TTL": "3600"})
    assert (await client.head("/t")).headers["stream-ttl"] == "3600"
    await client.put("/e", headers={"Stream-Expires-At": "2099-01-02T03:04:05.678+02:00"})
    assert (await client.head("/e")).headers["stream-expires-at"] == "2099-01-02T01:04:05.678Z"


async def test_everything_survives_a_restart(server: LocalServer, client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers={**JSON, "Stream-TTL": "3600"})
    producer = {**JSON, "Producer-Id": "p", "Producer-Epoch": "3", "Producer-Seq": "0", "Stream-Seq": "b"}
    await client.post("/s", headers=producer, content="[1,2]")
    await client.put("/f", headers={"Stream-Forked-From": "/v1/stream/s", "Stream-Fork-Offset": at(1)})
    await client.delete("/s")
    await client.put("/closed", headers={**TEXT, "Stream-Closed": "true"}, content="end")
    await client.put("/deleted", headers=TEXT)
    await client.delete("/deleted")
    await server.restart()
    assert (await client.get("/s")).status_code == 410
    assert (await client.get("/f")).json() == [1]
    assert (await client.head("/f")).headers["stream-ttl"] == "3600"
    assert (await client.get("/closed")).headers["stream-closed"] == "true"
    assert (await client.get("/deleted")).status_code == 404
    await client.delete("/f")
    assert (await client.get("/s")).status_code == 404
