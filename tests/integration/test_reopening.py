"""A log that fails under a running server is opened again behind the same socket, and nothing is mixed up."""

import asyncio
import errno
import json
import shutil
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from durable_sessions.access.key_store import KeyStore
from durable_sessions.errors import LogDamagedError, LogFencedError, ManifestLostError
from durable_sessions.http.api.first_key_file import FILE, HEADER
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.node import disk_space
from durable_sessions.node.disk_space import Space
from durable_sessions.node.engine import Engine
from durable_sessions.testing.disk import FaultyDisk
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.process import ServerProcess
from tests.support.trial import until

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
LIMITS = replace(DEFAULT_LIMITS, reopen_seconds=0.01, reopen_seconds_max=0.05, disk_look_seconds=0.01)


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
async def server(tmp_path: Path, disk: FaultyDisk) -> AsyncIterator[LocalServer]:
    async with local_server(tmp_path, limits=LIMITS, disk=disk, long_poll_seconds=60.0) as server:
        yield server


@pytest.fixture
async def client(server: LocalServer) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        yield client


def code(answer: httpx2.Response) -> str:
    return str(answer.json()["error"]["code"])


async def reopened(server: LocalServer, times: int) -> None:
    await until(lambda: server.node.keeper.health.reopenings >= times)


async def test_appends_go_on_after_a_failed_sync(
    client: httpx2.AsyncClient, server: LocalServer, disk: FaultyDisk
) -> None:
    await client.put("/v1/stream/s", headers=JSON, content=b"[0]")
    for number in range(1, 4):
        disk.fail("sync", errno.EIO)
        answer = await client.post("/v1/stream/s", headers=JSON, content=b'["unknown"]')
        assert (answer.status_code, code(answer)) == (503, "outcome_unknown")
        assert answer.headers["retry-after"] == "1"
        await reopened(server, number)
        answer = await client.post("/v1/stream/s", headers=JSON, content=b"[%d]" % number)
        assert answer.status_code == 204
    found = (await client.get("/v1/stream/s")).json()
    assert [one for one in found if one != "unknown"] == [0, 1, 2, 3]
    await server.restart()
    assert (await client.get("/v1/stream/s")).json() == found


async def test_until_then_appends_are_refused_and_reads_answered(
    client: httpx2.AsyncClient, server: LocalServer, disk: FaultyDisk
) -> None:
    await client.put("/v1/stream/s", headers=JSON, content=b"[1]")
    disk.fail("write", errno.ENOSPC)
    with pytest.MonkeyPatch.context() as patch:

        async def probe(engine: Engine) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(Engine, "probe", probe)
        await client.post("/v1/stream/s", headers=JSON, content=b"[2]")
        answer = await client.post("/v1/stream/s", headers=JSON, content=b"[3]")
        assert (answer.status_code, code(answer)) == (503, "partition_stopped")
        assert answer.headers["retry-after"] == "1"
        await until(lambda: server.node.keeper.health.reopening_failure is not None)
        ready = await client.get("/readyz")
        assert ready.status_code == 503
        assert "No space left" in ready.json()["reopening"]["reason"]
        assert (await client.get("/livez")).status_code == 200
        assert (await client.get("/v1/stream/s")).json() == [1]
        assert "durable_sessions_partition_stopped 1.0" in (await client.get("/metrics")).text
    await reopened(server, 1)
    metrics = (await client.get("/metrics")).text
    assert "durable_sessions_partition_stopped 0.0" in metrics
    assert "durable_sessions_log_reopenings_total 1.0" in metrics
    ready = await client.get("/readyz")
    assert ready.status_code == 200
    assert "reopening" not in ready.json()


async def test_followers_come_again_and_miss_nothing(
    client: httpx2.AsyncClient, server: LocalServer, disk: FaultyDisk
) -> None:
    made = await client.put("/v1/stream/s", headers=JSON, content=b'["first"]')
    offset = made.headers["stream-next-offset"]
    connected = asyncio.Event()

    async def followed() -> list[str]:
        """Follow until the last message, coming again with the offset that was told last."""
        seen: list[str] = []
        at = offset
        while "last" not in seen:
            async with client.stream("GET", f"/v1/stream/s?live=sse&offset={at}") as answer:
                if answer.status_code != 200:
                    await asyncio.sleep(0.01)
                    continue
                connected.set()
                async for line in answer.aiter_lines():
                    if line.startswith("data:["):
                        seen += json.loads(line[5:])
                    elif line.startswith("data:{"):
                        at = json.loads(line[5:])["streamNextOffset"]
                    if "last" in seen:
                        break
        return seen

    polling = asyncio.create_task(client.get(f"/v1/stream/s?live=long-poll&offset={offset}"))
    following = asyncio.create_task(followed())
    await connected.wait()
    disk.fail("sync", errno.EIO)
    await client.put("/v1/stream/other", headers=JSON, content=b"[1]")
    await reopened(server, 1)
    async with asyncio.timeout(60):
        polled = await polling
    assert polled.status_code in {204, 503}, "it ends, and comes again with the same offset"
    assert (await client.post("/v1/stream/s", headers=JSON, content=b'["last"]')).is_success
    async with asyncio.timeout(60):
        assert await following == ["last"]


async def first_key(client: httpx2.AsyncClient, server: LocalServer) -> httpx2.Response:
    """Make the first key of a server, as who can read its data directory can."""
    token = json.loads((server.data / FILE).read_bytes())["token"]
    return await client.post("/v1/keys", json={"role": "admin", "principal": "me"}, headers={HEADER: token})


async def test_keys_sessions_subscriptions_and_search_are_there_again(
    client: httpx2.AsyncClient, server: LocalServer, disk: FaultyDisk
) -> None:
    session = (await client.post("/v1/sessions", json={"title": "kept"})).json()["id"]
    path = f"/v1/sessions/{session}"
    events = {"events": [{"type": "note", "text": "apple"}]}
    assert (await client.post(f"{path}/events", json=events)).is_success
    assert (await client.get("/v1/search", params={"q": "apple"})).json()["data"]
    pulled = {"type": "pull-wake", "pattern": "**", "wake_stream": "wakes"}
    assert (await client.put("/v1/stream/__ds/subscriptions/all", json=pulled)).is_success
    made = await first_key(client, server)
    assert made.is_success, made.text
    client.headers["x-api-key"] = made.json()["secret"]
    worker = server.node.feed._link
    disk.fail("sync", errno.EIO)
    assert (await client.post(f"{path}/events", json={"events": [{"type": "note"}]})).status_code == 503
    await reopened(server, 1)
    assert worker is not None
    assert worker._process.poll() is not None, "the old process that searches has ended"
    refused = await client.get(path, headers={"x-api-key": "wrong"})
    assert refused.status_code == 401
    assert (await client.get(path)).json()["title"] == "kept"
    assert (await client.get("/v1/stream/__ds/subscriptions/all")).is_success
    events = {"events": [{"type": "note", "text": "pear"}]}
    assert (await client.post(f"{path}/events", json=events)).is_success
    for word in ("apple", "pear"):
        async with asyncio.timeout(60):
            while not (await client.get("/v1/search", params={"q": word})).json().get("data"):
                await asyncio.sleep(0.05)
    assert set(server.node.supervisor.restarts.values()) == {0}, "no task was left behind to fail"


async def test_the_first_key_can_be_made_after_it(
    client: httpx2.AsyncClient, server: LocalServer, disk: FaultyDisk
) -> None:
    disk.fail("create", errno.EIO)
    assert (await client.put("/v1/stream/s", headers=JSON)).status_code == 503
    await reopened(server, 1)
    assert json.loads((server.data / FILE).read_bytes())["port"] == server.node.server.port
    assert (await first_key(client, server)).is_success


async def test_a_revocation_that_did_not_become_durable_is_never_confirmed(
    client: httpx2.AsyncClient, server: LocalServer, disk: FaultyDisk
) -> None:
    client.headers["x-api-key"] = (await first_key(client, server)).json()["secret"]
    other = (await client.post("/v1/keys", json={"role": "reader", "principal": "other"})).json()
    with pytest.MonkeyPatch.context() as patch:

        async def probe(engine: Engine) -> None:
            raise OSError(errno.EIO, "Input/output error")

        patch.setattr(Engine, "probe", probe)
        disk.fail("write", errno.EIO)
        answers = [await client.delete("/v1/keys/" + other["id"]) for _ in range(2)]
        assert [one.status_code for one in answers] == [503, 503]
    await reopened(server, 1)
    as_other = {"x-api-key": other["secret"]}
    assert (await client.get("/v1/sessions", headers=as_other)).status_code == 200
    assert (await client.delete("/v1/keys/" + other["id"])).status_code == 200
    assert (await client.get("/v1/sessions", headers=as_other)).status_code == 401


async def test_a_log_that_cannot_be_opened_yet_is_tried_again(
    client: httpx2.AsyncClient, server: LocalServer, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Engine] = []
    opened = Engine._open

    async def counted(engine: Engine, stack: AsyncExitStack) -> None:
        tries.append(engine)
        await opened(engine, stack)

    monkeypatch.setattr(Engine, "_open", counted)
    await client.put("/v1/stream/s", headers=JSON, content=b"[1]")
    disk.fail("sync", errno.EIO)  # of the append
    disk.fail("sync", errno.EIO, skip=1)  # after the probe's: of the frame that recovery writes again
    await client.post("/v1/stream/s", headers=JSON, content=b"[2]")
    await reopened(server, 1)
    assert len(tries) == 2
    assert (await client.post("/v1/stream/s", headers=JSON, content=b"[3]")).status_code == 204
    found = (await client.get("/v1/stream/s")).json()
    assert [one for one in found if one != 2] == [1, 3]


@pytest.mark.parametrize(
    ("part", "step"), [(Engine, "_open_bucket"), (KeyStore, "load"), (Engine, "_open_parts")]
)
async def test_an_opening_that_fails_at_any_step_lets_go_of_the_log_for_the_next(
    client: httpx2.AsyncClient,
    server: LocalServer,
    disk: FaultyDisk,
    monkeypatch: pytest.MonkeyPatch,
    part: type,
    step: str,
) -> None:
    await client.put("/v1/stream/s", headers=JSON, content=b"[1]")
    whole = getattr(part, step)
    failures: list[str] = []

    def fail_twice(opened: object, *arguments: object) -> object:
        if len(failures) < 2:
            failures.append(step)
            raise sqlite3.OperationalError("database or disk is full")
        return whole(opened, *arguments)

    monkeypatch.setattr(part, step, fail_twice)
    disk.fail("write", errno.ENOSPC)
    await client.post("/v1/stream/s", headers=JSON, content=b"[2]")
    await reopened(server, 1)
    assert len(failures) == 2
    assert (await client.post("/v1/stream/s", headers=JSON, content=b"[3]")).status_code == 204


async def test_what_can_never_be_opened_again_ends_the_service(
    client: httpx2.AsyncClient, server: LocalServer, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.put("/v1/stream/s", headers=JSON, content=b"[1]")

    async def damaged(engine: Engine, stack: AsyncExitStack) -> None:
        raise LogDamagedError(file="x.log", byte=7, problem="a frame is broken")

    monkeypatch.setattr(Engine, "_open", damaged)
    disk.fail("sync", errno.EIO)
    await client.post("/v1/stream/s", headers=JSON, content=b"[2]")
    async with asyncio.timeout(60):
        failure = await server.node.until_failed()
    assert isinstance(failure, LogDamagedError)
    answer = await client.get("/v1/stream/s")
    assert (answer.status_code, code(answer)) == (503, "partition_stopped")
    assert (await client.get("/readyz")).status_code == 503


async def test_search_pauses_while_space_is_low_and_goes_on_by_itself(
    client: httpx2.AsyncClient, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = (await client.post("/v1/sessions", json={})).json()["id"]
    path = f"/v1/sessions/{session}/events"

    async def note(word: str) -> None:
        assert (await client.post(path, json={"events": [{"type": "note", "text": word}]})).is_success

    async def finds(word: str) -> bool:
        answer = await client.get("/v1/search", params={"q": word})
        assert answer.status_code == 200, answer.text
        return bool(answer.json()["data"])

    await note("apple")
    assert await finds("apple")
    monkeypatch.setattr(disk_space, "space_of", lambda _: Space(10**9, 10**6))
    await until(lambda: server.node.feed.paused is not None)
    await note("pear")
    assert await finds("apple"), "what was indexed is found"
    assert not await finds("pear"), "what is new is not, and nobody waits for it"
    ready = await client.get("/readyz")
    assert ready.status_code == 200
    assert ready.json()["status"] == "degraded"
    assert ready.json()["search"]["state"] == "paused"
    assert ready.json()["disk"] == {"free_bytes": 10**6, "low_bytes": 10**7}
    metrics = (await client.get("/metrics")).text
    assert "durable_sessions_disk_low 1.0" in metrics
    assert "durable_sessions_disk_free_bytes 1e+06" in metrics
    monkeypatch.setattr(disk_space, "space_of", lambda _: Space(10**9, 10**8))
    await until(lambda: server.node.feed.paused is None)
    assert await finds("pear")
    assert (await client.get("/readyz")).json()["status"] == "ready"


async def test_a_service_that_starts_with_little_space_begins_no_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with local_server(tmp_path, limits=LIMITS, low_space_bytes=2**62) as server:
        await until(lambda: server.node.feed.paused is not None)
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
            session = (await client.post("/v1/sessions", json={})).json()["id"]
            path = f"/v1/sessions/{session}/events"
            assert (await client.post(path, json={"events": [{"type": "note"}]})).is_success
            answer = await client.get("/v1/search", params={"q": "note"})
            assert answer.status_code == 503
            assert "free on the disk" in answer.text
        assert not (tmp_path / "search").exists()


async def test_a_server_that_has_lost_its_bucket_is_not_opened_again(tmp_path: Path) -> None:
    limits = replace(LIMITS, step_down_seconds=0.01)
    bucket = str(tmp_path / "bucket")
    async with local_server(tmp_path / "a", limits=limits, bucket=bucket, flush_seconds=0.1) as first:
        opened = first.node.engine
        async with local_server(tmp_path / "b", limits=limits, bucket=bucket, flush_seconds=0.1):
            async with asyncio.timeout(60):
                failure = await first.node.until_failed()
        assert isinstance(failure, ManifestLostError)
        assert (first.node.engine, first.node.keeper.health.reopenings) == (opened, 0)
        async with httpx2.AsyncClient(base_url=first.url, timeout=60) as client:
            refused = await client.put("/v1/stream/s", headers=JSON)
            assert (refused.status_code, code(refused)) == (503, "partition_fenced")
            assert (await client.get("/readyz")).status_code == 503


async def test_a_server_whose_log_was_claimed_by_another_answers_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = replace(LIMITS, step_down_seconds=0.01)
    async with (
        local_server(tmp_path, limits=limits) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        await client.put("/v1/stream/s", headers=JSON, content=b"[0]")
        opened = server.node.engine

        async def fenced(batch: bytes) -> int:
            raise LogFencedError(log="somewhere", problem="epoch 9 was claimed")

        monkeypatch.setattr(opened.log, "append", fenced)
        asked = (client.post("/v1/stream/s", headers=JSON, content=b"[1]") for _ in range(5))
        for refused in [*await asyncio.gather(*asked), await client.get("/v1/stream/s?offset=-1")]:
            assert (refused.status_code, code(refused)) == (503, "partition_moved")
            assert refused.headers["Retry-After"] == "1"
        async with asyncio.timeout(60):
            assert isinstance(await server.node.until_failed(), LogFencedError)
        assert (server.node.engine, server.node.keeper.health.reopenings) == (opened, 0)
        monkeypatch.undo()
    async with (
        local_server(tmp_path, limits=limits) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        assert (await client.get("/v1/stream/s?offset=-1")).content == b"[0]"


async def test_a_log_that_is_opened_again_does_not_take_the_bucket_back_from_a_copy(tmp_path: Path) -> None:
    bucket = str(tmp_path / "bucket")
    async with (
        local_server(tmp_path / "a", limits=LIMITS, bucket=bucket, flush_seconds=3600.0) as first,
        httpx2.AsyncClient(timeout=60) as client,
        AsyncExitStack() as opened,
    ):
        await client.put(f"{first.url}/v1/stream/s", headers=JSON, content=b"[1]")
        with pytest.MonkeyPatch.context() as patch:

            async def probe(engine: Engine) -> None:
                raise OSError(errno.EIO, "Input/output error")

            patch.setattr(Engine, "probe", probe)
            first.node.engine.partition._committer.fail("a planted fault")
            shutil.copytree(tmp_path / "a" / "log", tmp_path / "b" / "log")
            second = await opened.enter_async_context(
                local_server(tmp_path / "b", limits=LIMITS, bucket=bucket, flush_seconds=3600.0)
            )
        async with asyncio.timeout(60):
            failure = await first.node.until_failed()
        assert isinstance(failure, ManifestLostError)
        assert first.node.keeper.health.reopenings == 0
        refused = await client.post(f"{first.url}/v1/stream/s", headers=JSON, content=b"[3]")
        assert refused.status_code == 503
        await second.node.engine.partition.check_fence()
        added = await client.post(f"{second.url}/v1/stream/s", headers=JSON, content=b"[4]")
        assert added.status_code == 204
        assert (await client.get(f"{second.url}/v1/stream/s")).json() == [1, 4]


def test_an_index_is_not_made_anew_while_space_is_low(tmp_path: Path) -> None:
    environment = {"DURABLE_SESSIONS_LOW_SPACE_BYTES": "1000000000GiB"}
    server = ServerProcess(tmp_path / "data", environment=environment)
    with server:
        assert httpx2.post(f"{server.url}/v1/sessions", json={}).is_success
        while httpx2.get(f"{server.url}/readyz").json()["search"]["state"] != "paused":
            time.sleep(0.05)
        refused = server.run("reindex", "--url", server.url)
        assert refused.returncode == 1
        assert "free on the disk" in refused.stderr
    refused = server.run("reindex", "--url", server.url)
    assert refused.returncode == 1, refused.stdout
    assert "free on the disk" in refused.stderr
    assert "Traceback" not in refused.stderr
