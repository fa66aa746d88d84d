"""One server with several partitions: each request reaches the one it is for, and nothing shows outside."""

from pathlib import Path

import httpx2
import pytest

from durable_sessions.bucket.format import raise_version, read_format
from durable_sessions.bucket.partition_layout import PartitionLayout, commit_layout
from durable_sessions.bucket.store import Bucket
from durable_sessions.errors import ArchiveMissingError, BucketRefusedError
from durable_sessions.partition_id import SYSTEM, PartitionId
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.testing.server import LocalServer, local_server
from durable_sessions.tools.verify import verify
from tests.support.keys import BOOTSTRAP, bearer, proof
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.anyio

SESSIONS = [f"session-{number}" for number in range(8)]


def client_of(server: LocalServer) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS)


async def fill(client: httpx2.AsyncClient, text: str) -> None:
    for name in SESSIONS:
        answer = await client.post(
            f"/v1/sessions/{name}/events", json={"events": [{"type": "user.message", "text": text}]}
        )
        assert answer.is_success, answer.text


async def read(client: httpx2.AsyncClient) -> dict[str, tuple[list[str], str]]:
    """Return the ids of the events and the ETag of each session."""
    found = {}
    for name in SESSIONS:
        events = (await client.get(f"/v1/sessions/{name}/events")).json()["data"]
        stream = await client.get(f"/v1/stream/sessions/{name}", params={"offset": "-1"})
        found[name] = [event["id"] for event in events], stream.headers["etag"]
    return found


async def test_sessions_are_spread_and_survive_flush_and_restart(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", partitions=2) as server:
        async with client_of(server) as client:
            await fill(client, "flushed")
            flushed = (await client.post("/v1/admin/flush")).json()
            assert list(flushed["partitions"]) == ["00", "01", "sys"]
            await fill(client, "in the log")
            before = await read(client)
        ids = [event for events, _ in before.values() for event in events]
        assert len(set(ids)) == len(ids) == 2 * len(SESSIONS)
        await server.restart()
        async with client_of(server) as client:
            assert await read(client) == before
        for number, keeper in server.node.keepers.items():
            streams = keeper.engine.partition._state.by_id.values()
            homes = {home_partition(*stream.key, of=2) for stream in streams}
            assert homes <= {number}
        assert set(server.node.keepers) == {0, 1, SYSTEM}
        bucket = server.node.engine.archive.bucket
    for own in PartitionId(0, of=2).all():
        assert (await verify(bucket, own.directory(tmp_path / "data"), partition=own)).problems == []


async def test_the_number_of_partitions_is_that_of_the_bucket(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with local_server(data, partitions=3) as server:
        assert set(server.node.keepers) == {0, 1, 2, SYSTEM}
    async with local_server(data) as server:
        assert set(server.node.keepers) == {0, 1, 2, SYSTEM}
    with pytest.raises(BucketRefusedError, match="it has 3 partitions, not 2"):
        async with local_server(data, partitions=2):
            pass


async def test_a_session_without_an_id_is_created_where_it_belongs(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", partitions=3) as server, client_of(server) as client:
        for _ in range(20):
            created = await client.post("/v1/sessions", json={})
            assert created.status_code == 201
            found = await client.get(f"/v1/sessions/{created.json()['id']}")
            assert found.json()["incarnation"] == created.json()["incarnation"]
        named = await client.post("/v1/sessions", json={"id": "named"})
        found = await client.get("/v1/sessions/named")
        assert found.json()["incarnation"] == named.json()["incarnation"]


async def test_keys_count_everywhere(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", partitions=2) as server, client_of(server) as client:
        await fill(client, "before")
        wanted = {"role": "admin", "principal": "ann"}
        made = await client.post("/v1/keys", json=wanted, headers=proof(server.data))
        assert made.status_code == 201, made.text
        for name in SESSIONS:
            assert (await client.get(f"/v1/sessions/{name}")).status_code == 401
        client.headers["x-api-key"] = made.json()["secret"]
        await fill(client, "after")
        await server.restart()
        await fill(client, "again")
        revoked = await client.delete(f"/v1/keys/{made.json()['id']}")
        assert revoked.is_success
        for name in SESSIONS:
            assert (await client.get(f"/v1/sessions/{name}")).status_code == 401


async def test_acts_in_all_partitions_are_in_one_audit_record_once(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", partitions=2, api_key=BOOTSTRAP) as server:
        async with client_of(server) as client:
            client.headers.update(bearer(BOOTSTRAP))
            await fill(client, "to be deleted")
            for name in SESSIONS:
                assert (await client.delete(f"/v1/sessions/{name}")).is_success
            acts: list[str] = await until(lambda: audited(client, len(SESSIONS)))
        assert sorted(acts) == sorted(SESSIONS)
        outboxes = [keeper.engine.partition.tip.outbox for keeper in server.node.keepers.values()]
        await until(lambda: not any(map(len, outboxes)))
        await server.restart()
        async with client_of(server) as client:
            client.headers.update(bearer(BOOTSTRAP))
            assert await audited(client, len(SESSIONS)) == acts, "each in the order of its partition, once"


async def audited(client: httpx2.AsyncClient, count: int) -> list[str]:
    """Return the sessions whose deletion is in the audit record, oldest first; none if there are fewer."""
    acts = (await client.get("/v1/audit", params={"order": "asc", "limit": 100})).json()["data"]
    found = [act["session"] for act in acts if act["type"] == "session.deleted"]
    return found if len(found) >= count else []


async def test_health_and_metrics_are_of_all_partitions(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", partitions=2) as server, client_of(server) as client:
        await fill(client, "counted")
        ready = await client.get("/readyz")
        assert ready.status_code == 200
        assert set(ready.json()["partitions"]) == {"00", "01", "sys"}
        metrics = (await client.get("/metrics")).text
        lines = [line for line in metrics.splitlines() if line.startswith("durable_sessions_records_total")]
        assert len(lines) == 3
        assert sum(float(line.split()[-1]) for line in lines) == len(SESSIONS)
        assert metrics.count("# TYPE durable_sessions_records_total") == 1
        assert 'durable_sessions_http_connections{worker="0"}' in metrics


async def test_a_directory_with_logs_of_another_generation_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with local_server(data) as server, client_of(server) as client:
        await fill(client, "text")
    bucket = await Bucket.open(data / "bucket")
    found = await read_format(bucket)
    assert found is not None
    await raise_version(bucket, found)
    await commit_layout(bucket, PartitionLayout(generation=2, number=1))
    with pytest.raises(BucketRefusedError, match="repartitioned with another data directory"):
        async with local_server(data):
            pass
    (data / "bucket").rename(tmp_path / "away")
    later = PartitionId(0, 1, 2).directory(data)
    later.mkdir(parents=True)
    (data / "log").rename(later / "log")
    with pytest.raises(ArchiveMissingError):
        async with local_server(data):
            pass


async def test_an_act_on_the_whole_server_is_recorded_once(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data", partitions=2, api_key=BOOTSTRAP) as server,
        client_of(server) as client,
    ):
        client.headers.update(bearer(BOOTSTRAP))
        await fill(client, "to be found")
        assert (await client.post("/v1/admin/flush")).status_code == 200
        assert (await client.post("/v1/admin/reindex")).status_code == 202

        async def indexed() -> str:
            found = str((await client.get("/readyz")).json()["search"]["state"])
            return found if found == "ready" else ""

        state: str = await until(indexed)
        assert state == "ready"

        async def recorded() -> list[str]:
            found = (await client.get("/v1/audit", params={"order": "asc"})).json()["data"]
            return [act["type"] for act in found] if len(found) >= 2 else []

        acts: list[str] = await until(recorded)
        assert acts == ["flush.requested", "reindex.requested"]
        found = (await client.get("/v1/search", params={"q": "found", "limit": 20})).json()["data"]
        assert sorted(group["session"]["id"] for group in found) == SESSIONS
    directories = [own.directory(tmp_path / "data") for own in PartitionId(0, of=2).all()]
    assert [(one / "search").exists() for one in directories] == [True, True, False], "no keys are indexed"
