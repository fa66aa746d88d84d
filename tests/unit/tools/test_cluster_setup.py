"""Making a cluster of a bucket: each step can be repeated, and what belongs to others is refused."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from durable_sessions.bucket.cluster_description import DESCRIPTION, ClusterDescription, read_description
from durable_sessions.bucket.manifest import Manifest, Manifests
from durable_sessions.bucket.partition_layout import PartitionLayout, ensure_layout, read_layout
from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import SystemClock
from durable_sessions.errors import BucketRefusedError, LogError, ObjectDamagedError, SettingsError
from durable_sessions.ids import RandomIds
from durable_sessions.log.nats.wire import Reply
from durable_sessions.tools.cluster.setup import ROOM, ClusterSetup

pytestmark = pytest.mark.anyio

UNFLUSHED = 1_000_000


class FakeWire:
    """A NATS server that gives prepared answers to requests, and remembers these."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def request(
        self, subject: str, data: bytes, seconds: float, headers: Mapping[str, str] | None = None
    ) -> Reply:
        self.asked.append((subject, msgspec.json.decode(data)))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return Reply(answer if isinstance(answer, bytes) else msgspec.json.encode(answer))


@pytest.fixture
async def bucket(tmp_path: Path) -> Bucket:
    return await Bucket.open(tmp_path / "bucket")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_wait(_seconds: float) -> None:
        return

    monkeypatch.setattr(asyncio, "sleep", no_wait)


async def make(
    bucket: Bucket, wire: FakeWire | None = None, name: str = "blue", partitions: int = 2
) -> ClusterDescription:
    made = ClusterSetup(bucket, wire, SystemClock(), RandomIds())  # type: ignore[arg-type]
    return await made.run(name, UNFLUSHED, 3, partitions)


async def manifests(bucket: Bucket) -> list[Manifest | None]:
    layout = await read_layout(bucket)
    assert layout is not None
    return [await Manifests(bucket, partition).newest() for partition in layout.all]


async def test_every_partition_has_a_manifest_of_the_log(bucket: Bucket) -> None:
    made = await make(bucket)
    assert await read_description(bucket) == made
    assert (made.name, made.log, made.log_bytes_max) == ("blue", "bucket", int(ROOM * UNFLUSHED))
    found = await manifests(bucket)
    assert len(found) >= 2
    assert {one.lineage for one in found if one is not None} == {made.lineage}


async def test_a_repetition_goes_on_where_the_first_run_ended(bucket: Bucket) -> None:
    made = await make(bucket)
    before = await manifests(bucket)
    assert await make(bucket, partitions=5) == made
    assert await manifests(bucket) == before, "the number of partitions is decided once"


async def test_an_interrupted_run_is_finished_with_its_own_log(bucket: Bucket) -> None:
    wire = FakeWire({"error": {"code": 400, "description": "insufficient resources"}})
    with pytest.raises(LogError, match=r"NATS does not make the stream .*: insufficient resources"):
        await make(bucket, wire)
    begun = await read_description(bucket)
    assert await read_layout(bucket) is None, "no node can start on it yet"
    assert await make(bucket, FakeWire({})) == begun


async def test_each_partition_gets_a_stream_in_nats(bucket: Bucket) -> None:
    wire = FakeWire({})
    made = await make(bucket, wire)
    layout = await read_layout(bucket)
    assert layout is not None
    assert len({subject for subject, _ in wire.asked}) == len(layout.all)
    for subject, wanted in wire.asked:
        assert subject.startswith("$JS.API.STREAM.CREATE.")
        assert (wanted["num_replicas"], wanted["max_bytes"]) == (3, made.log_bytes_max)


@pytest.mark.parametrize(
    "trouble",
    [TimeoutError("nobody answers"), b"{", {"error": {"code": 503, "description": "no leader"}}],
    ids=["silence", "no JSON", "no leader"],
)
async def test_what_passes_is_waited_for_and_what_stays_is_told(bucket: Bucket, trouble: object) -> None:
    wire = FakeWire(trouble, trouble, {})
    await make(bucket, wire)
    assert wire.asked[0] == wire.asked[1] == wire.asked[2]
    with pytest.raises(LogError, match="NATS does not make the stream"):
        await make(bucket, FakeWire(trouble))


@pytest.mark.parametrize("name", ["", "Blue", "-a", "a-", "a" * 33, "a_b"])
async def test_a_name_that_is_none_is_refused_before_anything_is_written(bucket: Bucket, name: str) -> None:
    with pytest.raises(SettingsError, match="cannot be the name of a cluster"):
        await make(bucket, name=name)
    assert await bucket.list("") == []


async def test_the_bucket_of_another_cluster_is_refused(bucket: Bucket) -> None:
    await make(bucket)
    with pytest.raises(BucketRefusedError, match="belongs to the cluster blue, whose log is in bucket"):
        await make(bucket, name="green")
    with pytest.raises(BucketRefusedError, match="belongs to the cluster blue, whose log is in bucket"):
        await make(bucket, FakeWire({}))


async def test_the_bucket_of_a_single_server_is_refused(bucket: Bucket) -> None:
    await ensure_layout(bucket, PartitionLayout())
    with pytest.raises(BucketRefusedError, match="data of a server that is no cluster"):
        await make(bucket)


async def test_a_manifest_of_another_log_is_refused(bucket: Bucket) -> None:
    made = await make(bucket)
    await bucket.delete([DESCRIPTION])
    other = msgspec.structs.replace(made, lineage="log_other")
    await bucket.create(DESCRIPTION, msgspec.json.encode(other))
    with pytest.raises(BucketRefusedError, match=f"its newest manifest is of another log .{made.lineage}"):
        await make(bucket)


async def test_a_description_that_is_none_is_told(bucket: Bucket) -> None:
    await bucket.create(DESCRIPTION, b"[]")
    with pytest.raises(ObjectDamagedError, match="it describes no cluster"):
        await make(bucket)
