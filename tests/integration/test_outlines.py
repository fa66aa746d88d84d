"""Outlines over HTTP: in short, by block, in JSON and binary, with tags, and without what was redacted."""

import json
import struct
import zlib
from array import array
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions import Client
from durable_sessions.testing import BackgroundServer
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.commands import Commands
from tests.support.sessions import append, at, code

pytestmark = pytest.mark.anyio
OUTLINE = "/sessions/s/outline"
COLUMNS = [("bytes", "I"), ("pair", "i"), ("at", "I"), ("key", "I"), ("name", "H"), ("characters", "H")]
COLUMNS += [("thread", "H"), ("role", "B"), ("flags", "B")]
EVENTS: list[dict[str, Any]] = [
    {"type": "user.message", "id": "asked", "content": [{"type": "text", "text": "Make it green."}]},
    {"type": "agent.tool_use", "id": "call", "name": "bash", "input": {"command": "make"}},
    {"type": "agent.tool_result", "tool_use_id": "call", "is_error": True, "content": "red"},
    {"type": "session.thread_created", "session_thread_id": "sthr_1", "agent_name": "bob"},
    {"type": "agent.message", "session_thread_id": "sthr_1", "content": "Done."},
    {"type": "span.model_request_end", "model_usage": {"input_tokens": 7, "output_tokens": 3}},
]


@pytest.fixture(params=[1, 3], ids=["one partition", "three partitions"])
async def server(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LocalServer]:
    async with local_server(tmp_path / "data", partitions=request.param) as running:
        yield running


async def test_an_outline_in_short(api: httpx2.AsyncClient) -> None:
    await append(api, "s", *EVENTS)
    answer = await api.get(OUTLINE)
    found = answer.json()
    assert answer.headers["session-incarnation"]
    assert (found["session"], found["offset"], found["events"], found["block"]) == ("s", at(6), 6, 4_096)
    assert (found["through"], found["complete"]) == (6, True)
    (block,) = found["blocks"]
    assert block["roles"] == [1, 1, 0, 1, 0, 0, 0, 1, 0]
    assert (block["quiet"], block["failed"], block["context"], block["tokens_out"]) == (1, 1, 7, 3)
    assert found["names"] == ["bash"]
    assert [(one["id"], one["name"]) for one in found["threads"]] == [("sthr_1", "bob")]
    (point,) = found["points"]
    assert point[:7] == [0, 1, 1, 1, 1, 0, 7]
    assert (await api.get(OUTLINE, params={"points": 0})).json()["points"] == []


async def test_a_block_in_json_and_in_binary_is_the_same(api: httpx2.AsyncClient) -> None:
    await append(api, "s", *EVENTS)
    found = (await api.get(OUTLINE, params={"from": 3})).json()
    assert (found["from"], found["count"]) == (0, 6)
    assert found["columns"]["role"] == [0, 3, 4, 7, 1, 7]
    assert found["columns"]["pair"] == [0, 1, -1, 0, 0, 0]
    assert found["columns"]["flags"] == [0, 1 | 4, 1, 0, 0, 2]
    assert found["columns"]["name"] == [0, 1, 0, 0, 0, 0]
    assert found["columns"]["thread"] == [0, 0, 0, 1, 1, 0]
    assert found["requests"] == [[5, 7, 0, 0, 3, None]]
    binary = await api.get(OUTLINE, params={"from": 3}, headers={"Accept": "application/octet-stream"})
    magic, first, count, tail, t0 = struct.unpack_from("<4sIIId", binary.content)
    assert (magic, first, count, t0) == (b"DSO1", 0, 6, found["t0"])
    place = 24
    for name, kind in COLUMNS:
        column = array(kind)
        column.frombytes(binary.content[place : place + 6 * column.itemsize])
        place += 6 * column.itemsize
        assert column.tolist() == found["columns"][name], name
    assert len(binary.content) == place + tail
    assert json.loads(binary.content[place:]) == found["requests"]


async def test_tags_tell_what_a_client_has(api: httpx2.AsyncClient) -> None:
    await append(api, "s", *EVENTS)
    first = await api.get(OUTLINE, params={"from": 0})
    known = {"If-None-Match": first.headers["etag"]}
    assert (await api.get(OUTLINE, params={"from": 0}, headers=known)).status_code == 304
    binary = {**known, "Accept": "application/octet-stream"}
    assert (await api.get(OUTLINE, params={"from": 0}, headers=binary)).status_code == 200
    await append(api, "s", {"type": "note"})
    assert (await api.get(OUTLINE, params={"from": 0}, headers=known)).status_code == 200


async def test_what_is_redacted_is_flagged_in_forks_too(api: httpx2.AsyncClient) -> None:
    await append(api, "s", *EVENTS)
    await api.put("/sessions/fork", headers={"Stream-Forked-From": "/v1/sessions/s"})
    for name in ("s", "fork"):
        assert (await api.get(f"/sessions/{name}/outline", params={"from": 0})).json()["columns"]["flags"][
            0
        ] in (0, 64)
    answer = await api.post("/sessions/s/redact", json={"events": ["asked"], "reason": "a secret"})
    assert answer.is_success, answer.text
    own = (await api.get("/sessions/s/outline", params={"from": 0})).json()
    forked = (await api.get("/sessions/fork/outline", params={"from": 0})).json()
    assert own["columns"]["flags"][0] & 32
    assert forked["columns"]["flags"][0] & (32 | 64) == 32 | 64


@pytest.mark.parametrize("query", ["points=2001", "points=x", "from=6", "from=-1", "pints=3"])
async def test_what_does_not_fit_is_refused(api: httpx2.AsyncClient, query: str) -> None:
    await append(api, "s", *EVENTS)
    answer = await api.get(f"{OUTLINE}?{query}")
    assert answer.status_code == 400
    assert code(answer) in ("invalid_request", "unknown_parameter")


async def test_sessions_without_events_or_not_there(api: httpx2.AsyncClient) -> None:
    assert (await api.get(OUTLINE)).status_code == 404
    await api.put("/sessions/s", json={})
    found = (await api.get(OUTLINE)).json()
    assert (found["events"], found["blocks"], found["points"], found["complete"]) == (0, [], [], True)


@pytest.mark.parametrize("sort", ["created_at", "activity"])
async def test_lists_count_what_is_outlined(api: httpx2.AsyncClient, sort: str) -> None:
    await append(api, "s", *EVENTS)
    await append(api, "unseen", *EVENTS)
    await api.get(OUTLINE)
    listed = (await api.get("/sessions", params={"counts": "true", "sort": sort})).json()["data"]
    counts = {one["id"]: one["counts"] for one in listed}
    assert counts["unseen"] is None
    assert (counts["s"]["prompts"], counts["s"]["tool_calls"], counts["s"]["failed"]) == (1, 1, 1)
    assert counts["s"]["first_at"] <= counts["s"]["last_at"]
    plain = (await api.get("/sessions", params={"sort": sort})).json()["data"]
    assert all("counts" not in one for one in plain)


def test_the_client_reads_it_in_short_and_by_block(sdk: Client) -> None:
    session = sdk.session("s")
    session.append(EVENTS)
    found = session.outline(points=10)
    assert (found.events, found.through, found.complete, found.names) == (6, 6, True, ["bash"])
    block = session.outline_block(5)
    assert (block.first, block.count, block.requests) == (0, 6, [[5, 7, 0, 0, 3, None]])
    assert block.columns["role"].tolist() == [0, 3, 4, 7, 1, 7]


def test_the_command_shows_it(running: BackgroundServer, sdk: Client) -> None:
    sdk.session("s").append(EVENTS)
    commands = Commands(running.url)
    shown = commands.run("outline", "s").stdout
    assert "FAILED" in shown
    assert "tools: bash" in shown
    assert json.loads(commands.run("outline", "s", "--json").stdout)["events"] == 6


@pytest.mark.parametrize("form", ["application/octet-stream", "application/json"])
async def test_blocks_are_packed_for_who_takes_that(server: LocalServer, form: str) -> None:
    async with httpx2.AsyncClient(base_url=server.url + "/v1") as api:
        await append(api, "s", *[{"type": "note", "text": "x" * number} for number in range(300)])

        async def asked(encoding: str, **more: str) -> tuple[httpx2.Response, bytes]:
            headers = {"Accept": form, "Accept-Encoding": encoding, **more}
            request = api.build_request("GET", f"{OUTLINE}?from=0", headers=headers)
            answer = await api.send(request, stream=True)
            raw = b"".join([piece async for piece in answer.aiter_raw()])
            await answer.aclose()
            return answer, raw

        plain, body = await asked("identity")
        assert "content-encoding" not in plain.headers
        assert "Accept-Encoding" in plain.headers["vary"]
        for encoding in ("gzip", "br;q=1.0, gzip;q=0.8", "deflate,x-gzip"):
            packed, small = await asked(encoding)
            assert packed.headers["content-encoding"] == "gzip"
            assert zlib.decompress(small, wbits=31) == body
            assert len(small) < len(body) / 2
            # What a cache keeps of one form is not taken for the other.
            assert packed.headers["etag"] != plain.headers["etag"]
            same, nothing = await asked(encoding, **{"If-None-Match": packed.headers["etag"]})
            assert (same.status_code, nothing) == (304, b"")
        for encoding in ("gzip;q=0", "gzipped", "br", "gzip;q=0.000, identity"):
            assert (await asked(encoding))[1] == body
