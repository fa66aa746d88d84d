"""How a bucket is divided into partitions: how many there are, and of which generation.

``format.json`` says how many partitions generation 0 has. Each repartitioning adds a numbered object below
``cluster/layout``; the one with the highest number is the current one. Creating it commits a repartitioning.
"""

import hashlib

import msgspec

from durable_sessions.bucket.format import REPARTITIONED, BucketFormat, ensure_format, read_format, refusal
from durable_sessions.bucket.layout import FORMAT, LAYOUTS
from durable_sessions.bucket.numbered import NumberedObjects
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.errors import BucketRefusedError, ObjectDamagedError
from durable_sessions.partition_id import PartitionId

VERSION = 1
_DIGEST_KEY = b',"sha256":"'


class PartitionLayout(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of a bucket; without arguments, those of a bucket with one.

    ``number`` is that of the object that says so, 0 for ``format.json``. ``in_files`` says that the logs are
    files of a single server, also if an older generation belonged to a cluster.
    """

    generation: int = 0
    partitions: int = 1
    number: int = 0
    created_at_ms: int = 0
    in_files: bool = False
    version: int = VERSION

    @classmethod
    def of(cls, partition: PartitionId) -> "PartitionLayout":
        """Return the layout that a partition is part of."""
        return cls(generation=partition.generation, partitions=partition.of)

    @property
    def all(self) -> list[PartitionId]:
        """All partitions, the system partition last."""
        return PartitionId(0, self.partitions, self.generation).all()


async def read_layout(bucket: ObjectStore) -> PartitionLayout | None:
    """Return the current layout, None if the bucket is new; refuse one that this program cannot read."""
    found = await read_format(bucket)
    if found is None:
        return None
    newest = await newest_layout(bucket) if found.version >= REPARTITIONED else None
    return newest or PartitionLayout(partitions=found.partitions)


async def newest_layout(bucket: ObjectStore) -> PartitionLayout | None:
    """Return the layout with the highest number, None if the bucket was never divided anew."""
    newest = await _layouts(bucket).newest()
    return None if newest is None else _decoded(*newest)


async def ensure_layout(bucket: ObjectStore, wanted: PartitionLayout) -> PartitionLayout:
    """Return the bucket's layout; a new bucket gets the wanted one, a bucket with another one is refused."""
    found = await read_layout(bucket)
    if found is None:
        if wanted.generation:
            raise refusal(f"its {FORMAT} is missing, although it was repartitioned before")
        await ensure_format(bucket, BucketFormat(partitions=wanted.partitions))
        return wanted
    if found.partitions != wanted.partitions:
        raise refusal(f"it has {found.partitions} partitions, not {wanted.partitions}")
    if found.generation != wanted.generation:
        raise refusal(f"it was repartitioned: its partitions are of generation {found.generation}")
    return found


async def all_layouts(bucket: ObjectStore) -> list[PartitionLayout]:
    """Return every layout that the bucket has had, oldest first, as far as they can be read."""
    found = await read_format(bucket)
    if found is None:
        return []
    layouts = _layouts(bucket)
    later = [_decoded(number, await layouts.get(number)) for number in await layouts.numbers()]
    return [PartitionLayout(partitions=found.partitions), *later]


async def commit_layout(bucket: ObjectStore, layout: PartitionLayout) -> None:
    """Make a layout the current one, durably; ObjectExistsError if another was first."""
    await _layouts(bucket).create_newest(layout.number, encode_layout(layout))


def encode_layout(layout: PartitionLayout) -> bytes:
    """Return the JSON object of a layout, whose last member is the digest of what precedes it."""
    body = msgspec.json.encode(layout)
    return body[:-1] + _DIGEST_KEY + hashlib.sha256(body).hexdigest().encode() + b'"}'


def _layouts(bucket: ObjectStore) -> NumberedObjects:
    return NumberedObjects(bucket, LAYOUTS, ".json")


def _decoded(number: int, data: bytes) -> PartitionLayout:
    path = f"{LAYOUTS}{number}"
    content, _, digest = data.rpartition(_DIGEST_KEY)
    body = content + b"}"
    if digest != hashlib.sha256(body).hexdigest().encode() + b'"}':
        raise ObjectDamagedError(path=path, problem="its digest is not that of its content")
    try:
        layout = msgspec.json.decode(body, type=PartitionLayout)
    except msgspec.MsgspecError as error:
        raise ObjectDamagedError(path=path, problem=f"it is not a layout: {error}") from error
    if layout.version != VERSION:
        raise BucketRefusedError(
            problem=f"{path} has version {layout.version}, this program reads version {VERSION}",
            remedy="Use the program that wrote it, or a newer one.",
        )
    if layout.number != number:
        raise ObjectDamagedError(path=path, problem=f"it says that it is number {layout.number}")
    return layout
