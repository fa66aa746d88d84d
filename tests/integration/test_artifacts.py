"""Artifacts: by digest, checked both ways, once each, durable before they are acknowledged."""

import asyncio
import hashlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import BOOTSTRAP, bearer, make_secret
from tests.support.process import ServerProcess
from tests.support.refusals import error_code
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.http.raw import Peer

pytestmark = pytest.mark.anyio

HOST = b"Host: 127.0.0.1\r\n"

DATA = b"<p>all that the tool said</p>" * 100
DIGEST = hashlib.sha256(DATA).hexdigest()
PATH = f"/v1/artifacts/{DIGEST}"
HTML = {"Content-Type": "text/html; charset=utf-8"}
MIB = 1024 * 1024


@pytest.fixture
async def client(server: LocalServer) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
        yield client


def objects(server: LocalServer) -> list[str]:
    root = server.data / "bucket"
    return sorted(
        file.relative_to(root).as_posix() for file in (root / "artifacts").rglob("*") if file.is_file()
    )


def named(data: bytes) -> str:
    return f"/v1/artifacts/{hashlib.sha256(data).hexdigest()}"


async def test_stored_once_and_given_back_as_it_came(server: LocalServer, client: httpx2.AsyncClient) -> None:
    assert (await client.get(PATH)).status_code == 404
    assert (await client.head(PATH)).status_code == 404
    first = await client.put(PATH, content=DATA, headers=HTML)
    assert (first.status_code, first.headers["etag"]) == (201, f'"{DIGEST}"')
    assert first.json() == {"sha256": DIGEST, "bytes": len(DATA), "content_type": HTML["Content-Type"]}
    kept = objects(server)
    path = f"artifacts/default/sha256/{DIGEST[:2]}/{DIGEST}"
    assert kept == [path, path + ".json"]
    again = await client.put(PATH, content=DATA, headers={"Content-Type": "text/plain"})
    assert (again.status_code, again.json()) == (200, first.json())
    assert objects(server) == kept
    got = await client.get(PATH)
    assert (got.status_code, got.content) == (200, DATA)
    assert got.headers["content-type"] == HTML["Content-Type"]
    assert (got.headers["etag"], got.headers["content-length"]) == (f'"{DIGEST}"', str(len(DATA)))
    assert {"private", "immutable"} <= set(got.headers["cache-control"].split(", "))
    assert "sandbox" in got.headers["content-security-policy"]
    head = await client.head(PATH)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-type", "content-length", "etag", "cache-control", "accept-ranges"):
        assert head.headers[name] == got.headers[name]


async def test_what_does_not_have_its_digest_is_not_stored(
    server: LocalServer, client: httpx2.AsyncClient
) -> None:
    refused = await client.put(PATH, content=DATA + b"!")
    assert (refused.status_code, error_code(refused)) == (400, "artifact_mismatch")
    assert hashlib.sha256(DATA + b"!").hexdigest() in refused.json()["error"]["message"]
    assert objects(server) == []
    for name in ("abc", DIGEST.upper(), DIGEST + "0", "..%2f" + DIGEST, DIGEST + "/x", ""):
        answer = await client.put(f"/v1/artifacts/{name}", content=DATA)
        assert (answer.status_code, error_code(answer)) == (400, "invalid_request"), name
    assert (await client.post(PATH)).status_code == 405
    assert (await client.patch(PATH)).status_code == 405
    assert (await client.put(PATH, content=DATA, headers={"Content-Type": "x" * 257})).status_code == 400


async def test_nothing_is_an_artifact_too(client: httpx2.AsyncClient) -> None:
    assert (await client.put(named(b""), content=b"")).status_code == 201
    got = await client.get(named(b""))
    assert (got.status_code, got.content) == (200, b"")
    assert got.headers["content-type"] == "application/octet-stream"


async def test_who_has_it_already_gets_no_bytes(client: httpx2.AsyncClient) -> None:
    await client.put(PATH, content=DATA)
    for tag in (f'"{DIGEST}"', f'W/"{DIGEST}"', f'"x", "{DIGEST}"', "*"):
        answer = await client.get(PATH, headers={"If-None-Match": tag})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", f'"{DIGEST}"')
    assert (await client.head(PATH, headers={"If-None-Match": f'"{DIGEST}"'})).status_code == 304
    assert (await client.get(PATH, headers={"If-None-Match": '"other"'})).status_code == 200


@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=5-9", 5, 10),
        ("bytes=2890-", 2890, 2900),
        ("bytes=-7", 2893, 2900),
        ("bytes=2899-5000", 2899, 2900),
        ("bytes=-9999", 0, 2900),
        ("bytes=0-", 0, 2900),
    ],
)
async def test_ranges(client: httpx2.AsyncClient, asked: str, first: int, end: int) -> None:
    await client.put(PATH, content=DATA)
    got = await client.get(PATH, headers={"Range": asked})
    assert got.content == DATA[first:end]
    if (first, end) == (0, 2900):
        assert got.status_code == 200
    else:
        assert got.status_code == 206
        assert got.headers["content-range"] == f"bytes {first}-{end - 1}/2900"
    fresh = await client.get(PATH, headers={"Range": asked, "If-Range": f'"{DIGEST}"'})
    assert fresh.content == DATA[first:end]


async def test_ranges_that_are_none(client: httpx2.AsyncClient) -> None:
    await client.put(PATH, content=DATA)
    for asked in ("bytes=2900-", "bytes=9999-10000", "bytes=-0"):
        refused = await client.get(PATH, headers={"Range": asked})
        assert (refused.status_code, refused.headers["content-range"]) == (416, "bytes */2900"), asked
    for asked in ("bytes=5-1", "bytes=0-1,5-6", "lines=1-2", "bytes=x"):
        assert (await client.get(PATH, headers={"Range": asked})).status_code == 200, asked
    stale = {"Range": "bytes=0-1", "If-Range": '"other"'}
    assert (await client.get(PATH, headers=stale)).status_code == 200


async def test_bytes_that_have_changed_are_never_served(
    server: LocalServer, client: httpx2.AsyncClient
) -> None:
    await client.put(PATH, content=DATA)
    file = server.data / "bucket" / objects(server)[0]
    file.write_bytes(DATA.replace(b"all", b"ill", 1))
    for headers in ({}, {"Range": "bytes=2000-2001"}):
        refused = await client.get(PATH, headers=headers)
        assert (refused.status_code, error_code(refused)) == (500, "object_damaged")
    file.unlink()
    assert (await client.get(PATH)).status_code == 500


async def test_a_half_stored_artifact_is_none_and_is_completed_by_the_next_try(
    server: LocalServer, client: httpx2.AsyncClient
) -> None:
    await client.put(PATH, content=DATA)
    data, about = (server.data / "bucket" / path for path in objects(server))
    about.unlink()
    assert (await client.get(PATH)).status_code == 404
    data.write_bytes(b"not it")
    assert (await client.put(PATH, content=DATA)).status_code == 201
    assert (await client.get(PATH)).content == DATA


async def test_many_at_once_store_one(server: LocalServer, client: httpx2.AsyncClient) -> None:
    answers = await asyncio.gather(*[client.put(PATH, content=DATA) for _ in range(10)])
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
    assert len(objects(server)) == 2


async def test_workspaces_keep_their_own_copies(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data", api_key=BOOTSTRAP) as server,
        httpx2.AsyncClient(base_url=server.url) as client,
    ):
        ours = bearer(BOOTSTRAP)
        theirs = bearer(await make_secret(server.url, "writer", "a.b-c_d"))
        reader = bearer(await make_secret(server.url, "reader"))
        assert (await client.put(PATH, content=DATA, headers=ours)).status_code == 201
        assert (await client.get(PATH, headers=theirs)).status_code == 404
        assert (await client.put(PATH, content=DATA, headers=theirs)).status_code == 201
        assert (await client.get(PATH, headers=reader)).content == DATA
        assert (await client.put(PATH, content=DATA, headers=reader)).status_code == 403
        assert {path.split("/")[1] for path in objects(server)} == {"default", "a.b-c_d"}


# Sizes ------------------------------------------------------------------------------------


async def test_artifacts_have_a_limit_of_their_own(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, append_body_bytes_max=MIB, artifact_bytes_max=3 * MIB)
    async with local_server(tmp_path / "data", limits=limits) as server:
        async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client:

            async def pieces(data: bytes) -> AsyncIterator[bytes]:
                for start in range(0, len(data), 100_000):
                    yield data[start : start + 100_000]

            most, more = b"m" * (3 * MIB), b"m" * (3 * MIB + 1)
            assert (await client.put(named(most), content=most)).status_code == 201
            assert (await client.get(named(most))).content == most
            for body in (more, pieces(more)):
                refused = await client.put(named(more), content=body)
                assert (refused.status_code, error_code(refused)) == (413, "artifact_too_large")
            chunked = b"c" * (2 * MIB)
            assert (await client.put(named(chunked), content=pieces(chunked))).status_code == 201
            await client.put("/v1/stream/s", headers={"Content-Type": "text/plain"})
            for body in (chunked, pieces(chunked)):
                for method, path in (("POST", "/v1/stream/s"), ("PUT", "/v1/stream/t"), ("POST", PATH)):
                    refused = await client.request(method, path, content=body)
                    assert (refused.status_code, error_code(refused)) == (413, "body_too_large")
                    body = pieces(chunked) if not isinstance(body, bytes) else body
        assert server.node.server.request_bytes == 0


async def test_a_stranger_may_not_send_more_than_an_append(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP) as server:
        reader = await make_secret(server.url, "reader")
        length = b"Content-Length: %d\r\n" % (60 * MIB)
        for head, status in (
            (length, 401),
            (length + b"x-api-key: wrong\r\n", 401),
            (length + b"x-api-key: %b\r\n" % reader.encode(), 403),
            (b"Transfer-Encoding: chunked\r\n", 401),
        ):
            async with await Peer.connect(server.node.server.port) as peer:
                refused = await peer.ask(b"PUT %b HTTP/1.1\r\n%b%b\r\n" % (PATH.encode(), HOST, head))
                assert refused.status == status, "before a byte of the body has been read"


async def test_large_bodies_have_a_budget_of_their_own(tmp_path: Path) -> None:
    limits = replace(
        DEFAULT_LIMITS,
        append_body_bytes_max=MIB,
        request_bytes_max=2 * MIB,
        artifact_bytes_max=4 * MIB,
        incomplete_artifact_bytes_max=8 * MIB,  # one alone gets half: its largest artifact
    )
    async with local_server(tmp_path / "data", limits=limits) as server:
        http = server.node.server
        head = b"PUT %b HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n"
        async with await Peer.connect(http.port) as first, await Peer.connect(http.port) as second:
            await first.send(head % (PATH.encode(), HOST, 4 * MIB) + b"x" * (3 * MIB))
            while http.request_bytes < 3 * MIB:
                await asyncio.sleep(0.01)
            async with httpx2.AsyncClient(base_url=server.url) as client:
                assert (await client.put("/v1/stream/s", content=b"y" * 900_000)).status_code == 201
            await second.send(head % (PATH.encode(), HOST, 4 * MIB) + b"x" * (3 * MIB))
            assert (await second.reply()).status == 503
            await first.send(b"x" * MIB)
            assert (await first.reply()).status == 400, "complete, and not what its name says"
        while http.open_connections:
            await asyncio.sleep(0.01)
        assert http.request_bytes == 0


async def test_what_is_held_in_memory_is_bounded_and_given_back(tmp_path: Path) -> None:
    data = b"z" * (24 * MIB)  # more than the kernel takes for a peer that does not read
    limits = replace(DEFAULT_LIMITS, artifact_memory_bytes_max=25 * MIB)
    async with (
        local_server(tmp_path / "data", limits=limits) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client,
    ):
        assert (await client.put(named(data), content=data)).status_code == 201
        async with await Peer.connect(server.node.server.port, receive_buffer_bytes=4096) as slow:
            await slow.send(b"GET %b HTTP/1.1\r\n%b\r\n" % (named(data).encode(), HOST))
            assert (await slow.head()).status == 200
            refused = await client.get(named(data))
            assert (refused.status_code, error_code(refused)) == (503, "overloaded")
            assert (await client.head(named(data))).status_code == 200
        while (answer := await client.get(named(data))).status_code == 503:
            await asyncio.sleep(0.02)
        assert answer.content == data
        assert [(await client.get(named(data))).status_code for _ in range(5)] == [200] * 5


# Keeping ----------------------------------------------------------------------------------


def tool(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "durable_sessions", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)


def test_acknowledged_is_durable_and_no_tool_takes_it_for_garbage(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        assert httpx2.put(server.url + PATH, content=DATA, headers=HTML).status_code == 201
        httpx2.put(server.url + "/v1/stream/s")
        httpx2.post(server.url + "/v1/admin/flush")
        server.kill()
        server.start()
        assert httpx2.get(server.url + PATH).content == DATA
        assert server.terminate() == 0
    for file in data.glob("catalog.sqlite*"):
        file.unlink()
    swept = json.loads(tool("gc", "--data", str(data), "--json").stdout)
    assert not [one for one in swept["objects"] if one["path"].startswith("artifacts/")]
    checked = json.loads(tool("verify", "--data", str(data), "--artifacts", "--json").stdout)
    assert (checked["ok"], checked["checked"]["artifacts"]) == (True, 1)
    with ServerProcess(data) as server:
        assert httpx2.get(server.url + PATH).headers["content-type"] == HTML["Content-Type"]


async def test_verify_names_damaged_artifacts_only_if_asked(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data") as server, httpx2.AsyncClient(base_url=server.url) as client:
        for data in (b"sound", b"damaged", b"missing", b"unnamed", b"half"):
            await client.put(named(data), content=data)
    root = tmp_path / "data" / "bucket"

    def file(data: bytes, suffix: str = "") -> Path:
        digest = hashlib.sha256(data).hexdigest()
        return root / "artifacts/default/sha256" / digest[:2] / (digest + suffix)

    file(b"damaged").write_bytes(b"changed")
    file(b"missing").unlink()
    file(b"unnamed", ".json").write_bytes(b"{")
    file(b"half", ".json").unlink()
    run = tool("verify", "--data", str(tmp_path / "data"), "--artifacts", "--json")
    found = json.loads(run.stdout)
    assert run.returncode == 1
    assert {problem["where"] for problem in found["problems"]} == {
        str(file(b"damaged").relative_to(root)),
        str(file(b"missing").relative_to(root)),
        str(file(b"unnamed", ".json").relative_to(root)),
    }
    assert str(file(b"half").relative_to(root)) in found["notes"][0]
    assert tool("verify", "--data", str(tmp_path / "data")).returncode == 0


# Deleting -------------------------------------------------------------------------------


async def test_an_artifact_is_deleted_and_can_be_stored_again(
    server: LocalServer, client: httpx2.AsyncClient
) -> None:
    assert (await client.delete(PATH)).status_code == 204, "one that is not there is as good as deleted"
    await client.put(PATH, content=DATA, headers=HTML)
    await client.put(named(b"other"), content=b"other")
    assert (await client.delete(PATH)).status_code == 204
    for method in ("GET", "HEAD"):
        assert (await client.request(method, PATH)).status_code == 404
    assert error_code(await client.get(PATH)) == "artifact_not_found"
    assert not [path for path in objects(server) if DIGEST in path]
    assert (await client.get(named(b"other"))).content == b"other"
    assert (await client.delete(PATH)).status_code == 204
    await server.restart()
    assert (await client.get(PATH)).status_code == 404
    again = await client.put(PATH, content=DATA, headers={"Content-Type": "text/plain"})
    assert (again.status_code, again.json()["content_type"]) == (201, "text/plain")
    assert (await client.get(PATH)).content == DATA
    assert (await client.delete("/v1/artifacts/xyz")).status_code == 400


async def test_only_admins_delete_and_only_in_their_workspace(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP) as server:
        secrets = {role: await make_secret(server.url, role, "a") for role in ("reader", "writer", "admin")}
        other = await make_secret(server.url, "admin", "b")
        async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
            await client.put(PATH, content=DATA, headers=bearer(secrets["writer"]))
            for role in ("reader", "writer"):
                refused = await client.delete(PATH, headers=bearer(secrets[role]))
                assert (refused.status_code, error_code(refused)) == (403, "permission_error")
            assert (await client.delete(PATH, headers=bearer(other))).status_code == 204
            assert (await client.get(PATH, headers=bearer(secrets["reader"]))).status_code == 200
            assert (await client.delete(PATH, headers=bearer(secrets["admin"]))).status_code == 204
            assert (await client.get(PATH, headers=bearer(secrets["reader"]))).status_code == 404


async def test_what_is_deleted_no_longer_counts(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP, workspace_bytes=len(DATA) + 10) as server:
        headers = bearer(await make_secret(server.url, "admin", "a"))
        async with httpx2.AsyncClient(
            base_url=server.url, timeout=PATIENCE_SECONDS, headers=headers
        ) as client:
            other = DATA[::-1]
            for restarts in (False, True):
                assert (await client.put(PATH, content=DATA)).status_code == 201
                assert (await client.put(named(other), content=other)).status_code == 429
                if restarts:
                    await server.restart()
                assert (await client.delete(PATH)).status_code == 204
                assert (await client.delete(PATH)).status_code == 204
                assert (await client.put(named(other), content=other)).status_code == 201
                assert (await client.put(PATH, content=DATA)).status_code == 429
                assert (await client.delete(named(other))).status_code == 204


async def test_storing_and_deleting_at_once_leaves_all_or_nothing(
    server: LocalServer, client: httpx2.AsyncClient
) -> None:
    for _ in range(10):
        answers = await asyncio.gather(
            *[client.put(PATH, content=DATA) for _ in range(4)],
            *[client.delete(PATH) for _ in range(3)],
        )
        assert {answer.status_code for answer in answers} <= {200, 201, 204}
        found = await client.get(PATH)
        assert found.status_code in (200, 404)
        assert len([path for path in objects(server) if DIGEST in path]) == (
            2 if found.content == DATA else 0
        )
