"""Two workers on one data directory: either answers for both."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.node.worker_group import WorkerGroup
from durable_sessions.node.worker_id import WorkerId
from durable_sessions.partition_id import SYSTEM
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import code_of
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

LIMITS = replace(DEFAULT_LIMITS, link_hold_seconds_max=0.5)
SESSIONS = [f"session-{number}" for number in range(8)]
Workers = list[LocalServer]


@pytest.fixture
async def workers(tmp_path: Path) -> AsyncIterator[Workers]:
    def group(number: int) -> WorkerGroup:
        return WorkerGroup(WorkerId(number, of=2), tmp_path, b"a secret that both of them share")

    data = tmp_path / "data"
    async with (
        local_server(data, partitions=2, group=group(0), limits=LIMITS) as zero,
        local_server(data, partitions=2, group=group(1), limits=LIMITS) as one,
    ):
        yield [zero, one]


def client_of(server: LocalServer) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS)


async def append(client: httpx2.AsyncClient, name: str, text: str) -> httpx2.Response:
    event = {"type": "user.message", "content": [{"type": "text", "text": text}]}
    return await client.post(f"/v1/sessions/{name}/events", json={"events": [event]})


async def test_a_session_is_written_and_read_through_either(workers: Workers) -> None:
    assert [set(worker.node.keepers) for worker in workers] == [{0, SYSTEM}, {1}]
    async with client_of(workers[0]) as zero, client_of(workers[1]) as one:
        for name in SESSIONS:
            for client in (zero, one):
                assert (await append(client, name, "a needle")).is_success
        for client in (zero, one):
            for name in SESSIONS:
                events = (await client.get(f"/v1/sessions/{name}/events")).json()["data"]
                assert len(events) == 2
            listed = (await client.get("/v1/sessions", params={"order": "asc"})).json()["data"]
            assert sorted(session["id"] for session in listed) == SESSIONS
            found = (await client.get("/v1/search", params={"q": "needle", "limit": 20})).json()
            assert sorted(group["session"]["id"] for group in found["data"]) == SESSIONS
            assert set((await client.get("/readyz")).json()["partitions"]) == {"00", "01", "sys"}
            metrics = (await client.get("/metrics")).text
            assert all(f'http_connections{{worker="{number}"}}' in metrics for number in (0, 1))
        for client in (zero, one):
            for _ in range(5):
                created = (await client.post("/v1/sessions", json={})).json()["id"]
                assert (await zero.get(f"/v1/sessions/{created}")).status_code == 200
                assert (await one.get(f"/v1/sessions/{created}")).status_code == 200


async def test_a_live_reader_follows_a_session_of_another_worker(workers: Workers) -> None:
    async with client_of(workers[0]) as zero, client_of(workers[1]) as one:
        for name in SESSIONS:
            await zero.put(f"/v1/sessions/{name}", json={})
            for reader, writer in ((zero, one), (one, zero)):
                url = f"/v1/sessions/{name}/events/stream"
                async with reader.stream("GET", url, params={"offset": "now"}) as stream:
                    assert stream.status_code == 200
                    assert (await append(writer, name, f"live {name}")).is_success
                    async for line in stream.aiter_lines():
                        if line.startswith("data:") and f"live {name}" in line:
                            break
                    else:
                        raise AssertionError("the stream ended")


async def test_what_a_stopped_worker_has_is_unavailable_and_the_rest_is_served(workers: Workers) -> None:
    async with client_of(workers[0]) as zero, client_of(workers[1]) as one:
        for name in SESSIONS:
            assert (await append(zero, name, "before")).is_success
        homes = {name: 1 if name in [*_names(workers[1])] else 0 for name in SESSIONS}
        assert set(homes.values()) == {0, 1}
        await workers[1].stop()
        try:
            for name, home in homes.items():
                answer = await append(zero, name, "while it is away")
                if home == 0:
                    assert answer.is_success
                else:
                    assert answer.status_code == 503
                    assert code_of(answer) == "partition_unavailable"
                    break
            assert (await zero.get("/v1/sessions")).status_code == 503, "never a shorter list"
            assert (await zero.get("/readyz")).status_code == 503
        finally:
            await workers[1].start()
        for name in SESSIONS:
            assert (await append(zero, name, "after")).is_success
            assert (await one.get(f"/v1/sessions/{name}")).status_code == 200


def _names(worker: LocalServer) -> list[str]:
    streams = worker.node.engine.partition._state.streams
    return [key.path.removeprefix("sessions/") for key in streams if key.path.startswith("sessions/")]
