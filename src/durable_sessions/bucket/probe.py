"""The start-up probe: does the store keep the promises that correctness rests on?"""

from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.errors import (
    BucketError,
    BucketRefusedError,
    DurableSessionsError,
    ObjectDamagedError,
    ObjectExistsError,
    ObjectNotFoundError,
)
from durable_sessions.ids import Ids, RandomIds

PREFIX = "probe"
_CONTENT = bytes(range(256)) * 16
_OTHER = b"this must never be seen"
_START, _LENGTH = 1_000, 500

_Answer = TypeVar("_Answer")


async def probe(bucket: ObjectStore, ids: Ids | None = None) -> None:
    """Return if the store can be trusted, else raise BucketRefusedError; leaves nothing behind."""
    path = f"{PREFIX}/{(ids or RandomIds()).token('probe-')}"
    await _tried("create an object", bucket.create(path, _CONTENT))
    try:
        await _check_create(bucket, path)
        await _check_range(bucket, path)
        await _check_list(bucket, path)
    except BucketRefusedError:
        with suppress(DurableSessionsError):
            await bucket.delete([path])
        raise
    await _tried("delete an object", bucket.delete([path]))
    await _check_gone(bucket, path)


def _refusal(problem: str) -> BucketRefusedError:
    return BucketRefusedError(
        problem=problem,
        remedy="Use a directory, Amazon S3, Google Cloud Storage, Azure or a store that does what they do.",
    )


async def _tried(what: str, call: Awaitable[_Answer]) -> _Answer:
    """Return the call's answer; its failure becomes a refusal that says what was tried."""
    try:
        return await call
    except (BucketError, ObjectDamagedError, ObjectNotFoundError, ObjectExistsError) as error:
        raise _refusal(f"it failed to {what} ({error})") from error


async def _check_create(bucket: ObjectStore, path: str) -> None:
    try:
        await _tried("refuse to create an object twice", _refused(bucket, path))
    except _NotRefusedError:
        raise _refusal(
            "it accepted a conditional create twice, so two servers could overwrite each other's manifest"
        ) from None
    if await _tried("read an object back", bucket.get(path)) != _CONTENT:
        raise _refusal("an object is not what was written, or it changed when its creation was refused")


class _NotRefusedError(Exception):
    """The second create of the same object succeeded."""


async def _refused(bucket: ObjectStore, path: str) -> None:
    try:
        await bucket.create(path, _OTHER)
    except ObjectExistsError:
        return
    raise _NotRefusedError


async def _check_range(bucket: ObjectStore, path: str) -> None:
    part = await _tried("read a part of an object", bucket.get_range(path, _START, _LENGTH))
    if part != _CONTENT[_START : _START + _LENGTH]:
        raise _refusal("it answered a ranged read with other bytes than were asked for")


async def _check_list(bucket: ObjectStore, path: str) -> None:
    listing = await _tried("list objects", bucket.list(PREFIX))
    if (path, len(_CONTENT)) not in [(info.path, info.size) for info in listing]:
        raise _refusal("a listing does not show an object that was just created")


async def _check_gone(bucket: ObjectStore, path: str) -> None:
    if path in [info.path for info in await _tried("list objects", bucket.list(PREFIX))]:
        raise _refusal("a listing still shows an object that was deleted")
