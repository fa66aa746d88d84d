"""The bucket's patience: retries, time limits, and creates whose answer was lost."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from durable_sessions.bucket.local import LocalStore
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.remote import RemoteStore
from durable_sessions.bucket.store import TRIES_MAX, Bucket
from durable_sessions.errors import (
    BucketDeniedError,
    BucketError,
    BucketRefusedError,
    ObjectDamagedError,
    ObjectExistsError,
)
from durable_sessions.testing.bucket import FaultyBucket, Kind, MemoryBucket

pytestmark = pytest.mark.anyio


class Patient:
    """A bucket over a faulty store; its pauses take no time but are noted."""

    def __init__(self, call_seconds_max: float = 10.0) -> None:
        self.memory = MemoryBucket()
        self.faulty = FaultyBucket(self.memory)
        self.pauses: list[float] = []
        self.bucket = Bucket(self.faulty, "memory", pause=self._pause, call_seconds_max=call_seconds_max)

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


async def test_a_call_that_fails_is_tried_again_with_growing_pauses() -> None:
    patient = Patient()
    patient.faulty.order("fail", "get", times=TRIES_MAX - 1)
    await patient.bucket.create("a", b"1")
    assert await patient.bucket.get("a") == b"1"
    assert len(patient.pauses) == TRIES_MAX - 1
    assert patient.pauses == sorted(patient.pauses)
    assert 0.1 <= patient.pauses[0] <= 0.2


@pytest.mark.parametrize("store", ["directory", "remote", "memory"])
async def test_a_listing_may_begin_behind_a_path(store: str, tmp_path: Path) -> None:
    stores: dict[str, ObjectStore] = {
        "directory": await LocalStore.open(tmp_path),
        "remote": RemoteStore(MemoryStore()),
        "memory": FaultyBucket(MemoryBucket()),
    }
    bucket = Bucket(stores[store], store)
    for path in ("a/1", "b/1", "b/2", "b/3/x", "c"):
        await bucket.create(path, b"1")

    async def paths(prefix: str, after: str) -> list[str]:
        return [info.path for info in await bucket.list(prefix, after=after)]

    assert await paths("b", "b/1") == ["b/2", "b/3/x"]
    assert await paths("b/", "b/10") == ["b/2", "b/3/x"], "there need be no such object"
    assert await paths("b", "a") == ["b/1", "b/2", "b/3/x"]
    assert await paths("b", "b/3/x") == []
    assert await paths("", "b/2") == ["b/3/x", "c"]


_CALLS: dict[str, Callable[[Bucket], Awaitable[object]]] = {
    "create": lambda bucket: bucket.create("a", b"1"),
    "put": lambda bucket: bucket.put("a", b"1"),
    "get": lambda bucket: bucket.get("a"),
    "get_range": lambda bucket: bucket.get_range("a", 0, 1),
    "delete": lambda bucket: bucket.delete(["a"]),
    "list": lambda bucket: bucket.list(""),
}


@pytest.mark.parametrize("operation", _CALLS)
async def test_a_call_that_keeps_failing_is_told(operation: str) -> None:
    patient = Patient()
    patient.faulty.order("fail", times=100)
    with pytest.raises(BucketError, match="ordered to fail"):
        await _CALLS[operation](patient.bucket)
    assert [call.operation for call in patient.faulty.calls] == [operation] * TRIES_MAX


async def test_a_refusal_of_credentials_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    patient = Patient()

    async def denied(path: str) -> bytes:
        raise BucketDeniedError(reason="no")

    monkeypatch.setattr(patient.faulty, "get", denied)
    with pytest.raises(BucketDeniedError, match="does not let us in: no"):
        await patient.bucket.get("a")
    assert patient.pauses == []


async def test_a_call_that_takes_too_long_is_given_up_and_tried_again() -> None:
    patient = Patient(call_seconds_max=0.05)
    await patient.bucket.create("a", b"1")
    patient.faulty.order("delay", "get", seconds=60)
    assert await patient.bucket.get("a") == b"1"
    patient.faulty.order("delay", "get", seconds=60, times=100)
    with pytest.raises(BucketError, match=r"no answer within 0\.05 seconds"):
        await patient.bucket.get("a")


async def test_a_create_whose_answer_was_lost_finds_its_own_object() -> None:
    patient = Patient()
    patient.faulty.order("lose_answer", "create")
    await patient.bucket.create("a", b"mine")
    assert patient.memory.objects == {"a": b"mine"}


async def test_a_create_that_was_given_up_finds_its_own_object(monkeypatch: pytest.MonkeyPatch) -> None:
    patient = Patient(call_seconds_max=0.05)
    inner = patient.memory.create

    async def slow(path: str, data: bytes) -> None:
        await inner(path, data)
        await asyncio.sleep(60)

    monkeypatch.setattr(patient.memory, "create", slow)
    await patient.bucket.create("a", b"mine")


async def test_a_create_whose_first_try_failed_still_loses_to_a_rival() -> None:
    patient = Patient()
    await patient.memory.create("a", b"the rival's")
    patient.faulty.order("fail", "create")
    with pytest.raises(ObjectExistsError):
        await patient.bucket.create("a", b"mine")
    assert patient.memory.objects == {"a": b"the rival's"}


async def test_the_same_content_is_no_success_if_nothing_had_failed() -> None:
    patient = Patient()
    await patient.bucket.create("a", b"same")
    with pytest.raises(ObjectExistsError):
        await patient.bucket.create("a", b"same")


async def test_a_create_that_stays_unknown_says_so() -> None:
    patient = Patient()
    patient.faulty.order("lose_answer", "create")
    patient.faulty.order("fail", "get", times=100)
    with pytest.raises(BucketError):
        await patient.bucket.create("a", b"mine")


async def test_an_object_said_to_exist_and_not_to_exist_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patient = Patient()
    answers: list[Exception | None] = [BucketError(reason="?"), ObjectExistsError(path="a"), None]

    async def confused(path: str, data: bytes) -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    monkeypatch.setattr(patient.memory, "create", confused)
    await patient.bucket.create("a", b"mine")
    assert answers == []


async def test_a_short_range_is_never_returned() -> None:
    patient = Patient()
    await patient.bucket.create("a", b"0123456789")
    assert await patient.bucket.get_range("a", 8, 2) == b"89"
    patient.faulty.order("truncate", "get_range")
    assert await patient.bucket.get_range("a", 2, 5) == b"23456"
    for start in (8, 10, 50):
        with pytest.raises(ObjectDamagedError, match=f"of 3 bytes came from byte {start}"):
            await patient.bucket.get_range("a", start, 3)


async def test_deleting_nothing_asks_nobody() -> None:
    patient = Patient()
    await patient.bucket.delete([])
    assert patient.faulty.calls == []


@pytest.mark.parametrize("location", ["ftp://x/y", "http://x", "S3://x"])
async def test_an_unknown_scheme_is_refused(location: str) -> None:
    with pytest.raises(BucketRefusedError, match=r"scheme of .* is not known"):
        await Bucket.open(location)


@pytest.mark.parametrize("location", ["s3://", "gs:///x"])
async def test_an_address_without_a_bucket_is_refused(location: str) -> None:
    with pytest.raises(BucketRefusedError, match="cannot be reached"):
        await Bucket.open(location)


async def test_a_directory_is_opened_by_text_or_path(tmp_path: Path) -> None:
    for location in (str(tmp_path / "new" / "bucket"), tmp_path / "new" / "bucket"):
        bucket = await Bucket.open(location)
        await bucket.put("a", b"1")
        assert bucket.location == str(location)
        assert (tmp_path / "new" / "bucket" / "a").read_bytes() == b"1"


@pytest.mark.parametrize("seed", range(20))
async def test_under_seeded_faults_answers_are_right_or_errors(seed: int) -> None:
    memory = MemoryBucket()
    kinds: list[Kind] = ["fail", "lose_answer"]
    faulty = FaultyBucket(memory, seed=seed, rate=0.4, kinds=kinds)

    async def no_pause(seconds: float) -> None: ...

    bucket = Bucket(faulty, "memory", pause=no_pause)
    unknown = 0
    for number in range(50):
        path, data = f"o/{number}", b"%d" % number
        try:
            await bucket.create(path, data)
            assert memory.objects[path] == data
            with pytest.raises(ObjectExistsError):
                await _until_told(lambda path=path: bucket.create(path, b"other"))
            assert await _until_told(lambda path=path: bucket.get(path)) == data
        except BucketError:
            unknown += 1
    assert unknown < 25


async def _until_told(call: object) -> object:
    assert callable(call)
    while True:
        try:
            return await call()
        except BucketError:
            continue
