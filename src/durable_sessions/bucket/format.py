"""The bucket's format file: what wrote it, in which version, over how many partitions.

A bucket that was repartitioned has version 2, so that programs that do not know generations refuse it.
"""

import msgspec

from durable_sessions.bucket.layout import FORMAT
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.errors import BucketRefusedError, ObjectExistsError, ObjectNotFoundError

NAME = "durable-sessions"
VERSION = 1
REPARTITIONED = 2
"""The version of a bucket whose partitions may be of a later generation: ``cluster/layout`` says of which."""


class BucketFormat(msgspec.Struct, frozen=True):
    """The content of ``format.json``; only the first repartitioning changes it, to the next version."""

    format: str = NAME
    version: int = VERSION
    partitions: int = 1


async def read_format(bucket: ObjectStore) -> BucketFormat | None:
    """Return the format of a bucket, None if it is new; refuse one that this program cannot read."""
    try:
        return _decoded(await bucket.get(FORMAT))
    except ObjectNotFoundError:
        return None


async def ensure_format(bucket: ObjectStore, wanted: BucketFormat | None = None) -> BucketFormat:
    """Return the bucket's format, written now if the bucket has none; refuse a bucket with another one."""
    wanted = wanted or BucketFormat()
    try:
        data = await bucket.get(FORMAT)
    except ObjectNotFoundError:
        try:
            await bucket.create(FORMAT, msgspec.json.encode(wanted))
        except ObjectExistsError:
            pass  # another server initialises the same bucket; what it wrote is read and checked below
        data = await bucket.get(FORMAT)
    return _checked(data, wanted)


async def raise_version(bucket: ObjectStore, found: BucketFormat) -> None:
    """Give a bucket the version that programs without generations refuse; nothing else changes."""
    if found.version < REPARTITIONED:
        await bucket.put(FORMAT, msgspec.json.encode(msgspec.structs.replace(found, version=REPARTITIONED)))


def _checked(data: bytes, wanted: BucketFormat) -> BucketFormat:
    found = _decoded(data)
    if found.partitions != wanted.partitions:
        raise refusal(f"it has {found.partitions} partitions, not {wanted.partitions}")
    return found


def _decoded(data: bytes) -> BucketFormat:
    try:
        found = msgspec.json.decode(data, type=BucketFormat)
    except (msgspec.MsgspecError, ValueError) as error:
        raise refusal(f"{FORMAT} is not what this program writes ({error})") from error
    if found.format != NAME:
        raise refusal(f"{FORMAT} says that it belongs to {found.format!r}")
    if found.version not in (VERSION, REPARTITIONED):
        raise refusal(
            f"it has format version {found.version}, this program reads versions {VERSION} and"
            f" {REPARTITIONED}"
        )
    return found


def refusal(problem: str) -> BucketRefusedError:
    """Return the error for a bucket that is not what it must be."""
    return BucketRefusedError(
        problem=problem, remedy="Choose another bucket or prefix, or use the program that wrote this one."
    )
