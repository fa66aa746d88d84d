"""The bucket's format file: what wrote it, in which version, over how many partitions."""

import msgspec

from durable_sessions.bucket.layout import FORMAT
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.errors import BucketRefusedError, ObjectExistsError, ObjectNotFoundError

NAME = "durable-sessions"
VERSION = 1


class BucketFormat(msgspec.Struct, frozen=True):
    """The content of ``format.json``; it never changes once written."""

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
            pass  # another server initialises the same bucket
        data = await bucket.get(FORMAT)
    return _checked(data, wanted)


def _checked(data: bytes, wanted: BucketFormat) -> BucketFormat:
    found = _decoded(data)
    if found.partitions != wanted.partitions:
        raise _refusal(f"it has {found.partitions} partitions, not {wanted.partitions}")
    return found


def _decoded(data: bytes) -> BucketFormat:
    try:
        found = msgspec.json.decode(data, type=BucketFormat)
    except (msgspec.MsgspecError, ValueError) as error:
        raise _refusal(f"{FORMAT} is not what this program writes ({error})") from error
    if found.format != NAME:
        raise _refusal(f"{FORMAT} says that it belongs to {found.format!r}")
    if found.version != VERSION:
        raise _refusal(f"it has format version {found.version}, this program reads version {VERSION}")
    return found


def _refusal(problem: str) -> BucketRefusedError:
    return BucketRefusedError(
        problem=problem, remedy="Choose another bucket or prefix, or use the program that wrote this one."
    )
