"""Manifests: verified, versioned, one winner per number."""

import asyncio
import hashlib
import json

import msgspec
import pytest

from durable_sessions.bucket.manifest import (
    NEWEST_VERSION,
    CheckpointInfo,
    GarbageInfo,
    Manifest,
    Manifests,
    SegmentInfo,
    decode_manifest,
    encode_manifest,
)
from durable_sessions.bucket.store import Bucket
from durable_sessions.errors import (
    BucketError,
    BucketRefusedError,
    ObjectDamagedError,
    ObjectExistsError,
)
from durable_sessions.partition_id import ONLY_PARTITION, PartitionId
from durable_sessions.testing.bucket import FaultyBucket, MemoryBucket

pytestmark = pytest.mark.anyio

SEGMENT = SegmentInfo(
    path="events/date=2026-11-15/00-000000000042.parquet",
    bytes=5_000,
    rows=100,
    sha256="ab" * 32,
    footer_offset=4_000,
    footer_sha256="cd" * 32,
    first_at_ms=1,
    last_at_ms=2,
    streams=3,
    stream_min=4,
    stream_max=9,
)


def manifest(number: int = 42, writer: str = "writer_1") -> Manifest:
    return Manifest(
        number=number,
        writer=writer,
        flushed_through=2**50,
        next_stream=10,
        created_at_ms=1_794_744_000_000,
        segments=(SEGMENT,),
        checkpoints=(CheckpointInfo("sessions/00-000000000042.parquet", 10, 1, "ef" * 32),),
        garbage=(GarbageInfo("events/date=2026-11-15/00-000000000041.parquet", 5),),
        extra={"policies": msgspec.Raw(b'{"keep_days":30}')},
    )


def signed(content: dict[str, object]) -> bytes:
    body = json.dumps(content).encode()
    return body[:-1] + b',"sha256":"' + hashlib.sha256(body).hexdigest().encode() + b'"}'


def test_a_manifest_is_json_and_comes_back() -> None:
    data = encode_manifest(manifest())
    assert decode_manifest(data, "m") == manifest()
    content = json.loads(data)
    assert content["segments"][0]["path"] == SEGMENT.path
    assert content["extra"] == {"policies": {"keep_days": 30}}
    assert content["version"] == 1


def test_a_manifest_may_hold_its_own_digest_key_in_its_content() -> None:
    odd = msgspec.structs.replace(
        manifest(), writer='x","sha256":"', extra={"a": msgspec.Raw(b'{"b":1,"sha256":"x"}')}
    )
    assert decode_manifest(encode_manifest(odd), "m") == odd


def test_any_changed_or_missing_byte_is_refused() -> None:
    data = encode_manifest(manifest())
    for at in range(len(data)):
        broken = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(ObjectDamagedError, match="m is damaged"):
            decode_manifest(broken, "m")
    for length in range(len(data)):
        with pytest.raises(ObjectDamagedError):
            decode_manifest(data[:length], "m")


def test_unknown_fields_are_passed_over_and_new_versions_refused() -> None:
    content = {**msgspec.to_builtins(msgspec.structs.replace(manifest(), extra={})), "invented_later": [1]}
    content["segments"][0]["also_later"] = True
    assert decode_manifest(signed(content), "m") == msgspec.structs.replace(manifest(), extra={})
    with pytest.raises(
        BucketRefusedError,
        match=f"m has version {NEWEST_VERSION + 1}, this program reads versions up to {NEWEST_VERSION}",
    ):
        decode_manifest(signed({"version": NEWEST_VERSION + 1, "everything": "else"}), "m")
    wrongs: list[dict[str, object]] = [{"version": 1}, {}, {**content, "number": "42"}]
    for wrong in wrongs:
        with pytest.raises(ObjectDamagedError, match="it is not a manifest"):
            decode_manifest(signed(wrong), "m")


async def test_the_newest_holds() -> None:
    memory = MemoryBucket()
    manifests = Manifests(memory, ONLY_PARTITION)
    assert await manifests.newest() is None
    for number in (1, 2, 3):
        await manifests.create_next(manifest(number))
    assert await manifests.newest() == manifest(3)
    await manifests.delete_before(3)
    assert list(memory.objects) == ["partitions/00/manifest/000000000003.json"]
    assert await Manifests(memory, PartitionId(7, of=8)).newest() is None


async def test_only_one_writer_makes_the_next_one() -> None:
    memory = MemoryBucket()
    outcomes = await asyncio.gather(
        *(Manifests(memory, ONLY_PARTITION).create_next(manifest(1, f"writer_{n}")) for n in range(8)),
        return_exceptions=True,
    )
    assert sum(outcome is None for outcome in outcomes) == 1
    assert sum(isinstance(outcome, ObjectExistsError) for outcome in outcomes) == 7


async def test_a_writer_left_behind_is_refused_even_where_old_manifests_are_gone() -> None:
    memory = MemoryBucket()
    for number in range(1, 10):
        await Manifests(memory, ONLY_PARTITION).create_next(manifest(number))
    await Manifests(memory, ONLY_PARTITION).delete_before(9)
    with pytest.raises(ObjectExistsError):
        await Manifests(memory, ONLY_PARTITION).create_next(manifest(4, "stale"))
    assert await Manifests(memory, ONLY_PARTITION).newest() == manifest(9)


async def test_a_lost_answer_is_found_out() -> None:
    memory = MemoryBucket()
    faulty = FaultyBucket(memory)

    async def no_pause(seconds: float) -> None: ...

    faulty.order("lose_answer", "create")
    await Manifests(Bucket(faulty, "memory", pause=no_pause), ONLY_PARTITION).create_next(manifest(1))
    faulty.order("lose_answer", "create")
    with pytest.raises(BucketError):
        await Manifests(faulty, ONLY_PARTITION).create_next(manifest(2))
    assert await Manifests(faulty, ONLY_PARTITION).newest() == manifest(2)


async def test_a_manifest_under_another_number_is_damage() -> None:
    memory = MemoryBucket()
    memory.objects["partitions/00/manifest/000000000005.json"] = encode_manifest(manifest(4))
    with pytest.raises(ObjectDamagedError, match="it says that it is number 4"):
        await Manifests(memory, ONLY_PARTITION).newest()


async def test_a_damaged_newest_manifest_is_never_passed_over() -> None:
    memory = MemoryBucket()
    await Manifests(memory, ONLY_PARTITION).create_next(manifest(1))
    memory.objects["partitions/00/manifest/000000000002.json"] = b""
    with pytest.raises(ObjectDamagedError, match="000000000002"):
        await Manifests(memory, ONLY_PARTITION).newest()
