"""One key takes all it can get, and many come without a key: whoever has another key is served as ever."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from tests.hostile.arena import MIB
from tests.hostile.bystander import crowd
from tests.hostile.stranger import PATIENCE_SECONDS, Stranger, request
from tests.hostile.vitals import Vitals
from tests.support.keys import BOOTSTRAP, bearer, make_secret
from tests.support.process import ServerProcess, counts_in_one_process

pytestmark = pytest.mark.anyio

WAITERS = 12
CONNECTIONS = 60
SUBSCRIPTION_BYTES = 40 * MIB
LIMITS: dict[str, float] = {
    "request_bytes_max": 16 * MIB,
    "append_body_bytes_max": 4 * MIB,
    "artifact_memory_bytes_max": 8 * MIB,
    "waiters_max": WAITERS,
    "connections_max": CONNECTIONS,
    "all_subscription_bytes_max": SUBSCRIPTION_BYTES,
}
TEXT = b"Content-Type: text/plain"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ServerProcess]:
    secret = {"DURABLE_SESSIONS_API_KEY": BOOTSTRAP}
    with ServerProcess(tmp_path / "data", environment=secret, limits=LIMITS) as running:
        yield running
        assert running.terminate() == 0


async def greedy(server: ServerProcess) -> str:
    """Make a key whose owner takes all there is, with a stream of its own."""
    secret = await make_secret(server.url, "writer", "greedy")
    answer = httpx2.put(f"{server.url}/v1/stream/s", headers={**bearer(secret), "Content-Type": "text/plain"})
    assert answer.status_code == 201
    return secret


def authorization(secret: str) -> bytes:
    return b"Authorization: Bearer " + secret.encode()


async def modest(server: ServerProcess, *, size: int) -> None:
    """Append something large with another key, and read it back."""
    async with httpx2.AsyncClient(
        base_url=server.url, headers=bearer(BOOTSTRAP), timeout=PATIENCE_SECONDS
    ) as client:
        await client.put("/v1/stream/mine", headers={"Content-Type": "text/plain"})
        answer = await client.post(
            "/v1/stream/mine", headers={"Content-Type": "text/plain"}, content=b"m" * size
        )
        assert answer.status_code in (200, 204), answer.text
        assert (await client.get("/v1/stream/mine?offset=-1")).status_code == 200
        await client.delete("/v1/stream/mine")


async def test_bodies_without_a_key_hold_nothing(server: ServerProcess) -> None:
    async with crowd(server.url, 1, "crowd", bearer(BOOTSTRAP)) as those, AsyncExitStack() as stack:
        body = request(b"POST", b"/v1/stream/s", TEXT, body=b"x" * 4 * MIB)[:-1]
        for _ in range(8):
            stranger = await stack.enter_async_context(await Stranger.connect(server.port))
            (answer,) = await stranger.refused(body)
            assert answer.status == 401
        await modest(server, size=4 * MIB)
        await those.progress()


async def test_a_wrong_role_is_told_before_the_body(server: ServerProcess) -> None:
    reader = authorization(await make_secret(server.url, "reader", "greedy"))
    for path in (b"/v1/stream/s", b"/v1/sessions/s/events", b"/v1/agents", b"/v1/artifacts/" + b"0" * 64):
        method = b"PUT" if b"artifacts" in path else b"POST"
        head = request(method, path, TEXT, reader, b"Content-Length: 4000000", b"Expect: 100-continue")
        async with await Stranger.connect(server.port) as stranger:
            (answer,) = await stranger.refused(head)
            assert answer.status == 403, path


async def test_large_bodies_that_need_no_key(server: ServerProcess) -> None:
    most = DEFAULT_LIMITS.keyless_body_bytes_max
    for size, expected in ((most, 405), (most + 1, 413)):
        async with await Stranger.connect(server.port) as stranger:
            assert await stranger.send(request(b"POST", b"/livez", b"Content-Length: %d" % size))
            await asyncio.sleep(0.1)
            assert await stranger.send(b"x" * size)
            assert (await stranger.answer()).status == expected


@counts_in_one_process
async def test_bodies_of_one_key(server: ServerProcess) -> None:
    secret = await greedy(server)
    body = request(b"POST", b"/v1/stream/s", TEXT, authorization(secret), body=b"x" * (4 * MIB))
    async with crowd(server.url, 1, "crowd", bearer(BOOTSTRAP)) as those, AsyncExitStack() as stack:
        two = [await stack.enter_async_context(await Stranger.connect(server.port)) for _ in range(2)]
        for stranger in two:
            assert await stranger.send(body[: -len(b"rest")])
        third = await stack.enter_async_context(await Stranger.connect(server.port))
        (answer,) = await third.refused(body[:-1])
        assert answer.status == 429
        assert b"share_exceeded" in answer.body
        assert answer.headers[b"retry-after"] == b"1"
        await modest(server, size=4 * MIB)
        await those.progress()
        for stranger in two:
            assert await stranger.send(b"rest")
            assert (await stranger.answer()).status == 204


async def test_readers_of_one_key(server: ServerProcess) -> None:
    secret = await greedy(server)
    url = f"{server.url}/v1/stream/s?offset=now&live=sse"
    follow = request(b"GET", b"/v1/stream/s?offset=now&live=sse", authorization(secret))
    async with crowd(server.url, 1, "crowd", bearer(BOOTSTRAP)) as those, AsyncExitStack() as stack:
        # The crowd follows a stream too, so that of 12 there are 11, and half of these without it are 5.
        for _ in range(5):
            stranger = await stack.enter_async_context(await Stranger.connect(server.port))
            assert await stranger.send(follow)
            assert (await stranger.some()).startswith(b"HTTP/1.1 200")
        for live in ("sse", "long-poll"):
            refused = httpx2.get(url.replace("sse", live), headers=bearer(secret), timeout=PATIENCE_SECONDS)
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "share_exceeded")
            assert "waiters_max" in refused.json()["error"]["message"]
        await those.progress()


@counts_in_one_process
async def test_connections_of_one_key_and_of_none(server: ServerProcess) -> None:
    secret = await greedy(server)
    head = request(b"GET", b"/v1/stream/s?offset=now", authorization(secret))
    async with crowd(server.url, 1, "crowd", bearer(BOOTSTRAP)) as those, AsyncExitStack() as stack:
        refused = 0
        for _ in range(CONNECTIONS):
            stranger = await stack.enter_async_context(await Stranger.connect(server.port))
            assert await stranger.send(head)
            answer = await stranger.answer()
            refused += answer.status == 429
            assert answer.status in (200, 429)
        assert refused >= CONNECTIONS // 2
        for _ in range(CONNECTIONS):
            await stack.enter_async_context(await Stranger.connect(server.port))
        await modest(server, size=1000)
        await those.progress()


async def test_slow_readers_of_artifacts(server: ServerProcess) -> None:
    secret = await greedy(server)
    data = b"a" * 4 * MIB
    path = f"/v1/artifacts/{hashlib.sha256(data).hexdigest()}"
    stored = httpx2.put(server.url + path, headers=bearer(secret), content=data, timeout=PATIENCE_SECONDS)
    assert stored.status_code == 201
    small = b"small"
    own = f"/v1/artifacts/{hashlib.sha256(small).hexdigest()}"
    read = request(b"GET", path.encode(), authorization(secret))
    async with (
        crowd(server.url, 1, "crowd", bearer(BOOTSTRAP)) as those,
        await Stranger.connect(server.port, 4096) as slow,
    ):
        assert await slow.send(read)
        assert (await slow.some(64)).startswith(b"HTTP/1.1 200")
        refused = httpx2.get(server.url + path, headers=bearer(secret), timeout=PATIENCE_SECONDS)
        assert refused.status_code == 429
        assert refused.json()["error"]["details"]["error_code"] == "share_exceeded"
        assert httpx2.put(server.url + own, headers=bearer(BOOTSTRAP), content=small).status_code == 201
        assert httpx2.get(server.url + own, headers=bearer(BOOTSTRAP)).content == small
        await those.progress()


async def test_subscriptions_of_one_key(server: ServerProcess) -> None:
    """Each is as large as one may be; the memory they take is bounded, and another workspace has its part."""
    secret = await greedy(server)
    assert server.process is not None
    vitals = Vitals(server.process.pid)
    vitals.begin()
    before = vitals.peak_bytes()
    answers: list[httpx2.Response] = []
    async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
        for number in range(8):
            paths = [f"{number}/{link:04d}/{'p' * 300}" for link in range(9_000)]
            body = {"type": "pull-wake", "streams": paths, "wake_stream": "wakes"}
            path = f"/v1/stream/__ds/subscriptions/{number}"
            answers.append(await client.put(path, headers=bearer(secret), json=body))
        codes = [answer.status_code for answer in answers]
        assert codes == [201] * codes.count(201) + [409] * codes.count(409)
        assert codes.count(201) == SUBSCRIPTION_BYTES // 2 // (9_000 * (400 + len(paths[0]))), "half of it"
        assert answers[-1].json()["error"]["code"] == "TOO_MANY_SUBSCRIPTIONS"
        body = {"type": "pull-wake", "streams": ["mine"], "wake_stream": "wakes"}
        own = await client.put(f"{path}-own", headers=bearer(BOOTSTRAP), json=body)
        assert own.status_code == 201
        flushed = await client.post("/v1/admin/flush", headers=bearer(BOOTSTRAP))
        assert flushed.status_code == 200
    assert vitals.peak_bytes() - before < 8 * SUBSCRIPTION_BYTES, "with requests, answers and the flush"
