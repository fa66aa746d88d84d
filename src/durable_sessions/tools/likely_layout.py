"""How a bucket is divided, as far as can be told if what says so is damaged or missing."""

from durable_sessions.bucket.layout import PARTITIONS, partition_in
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.partition_layout import PartitionLayout, newest_layout, read_layout
from durable_sessions.errors import BucketRefusedError, ObjectDamagedError
from durable_sessions.partition_id import SYSTEM


async def likely_layout(bucket: ObjectStore) -> PartitionLayout:
    """Return the layout that holds; without ``format.json``, the newest one, or what names of objects say."""
    try:
        found = await read_layout(bucket) or await newest_layout(bucket)
    except (BucketRefusedError, ObjectDamagedError):
        found = await _of_intact(bucket)
    return found or await _of_names(bucket)


async def _of_intact(bucket: ObjectStore) -> PartitionLayout | None:
    try:
        return await newest_layout(bucket)
    except (BucketRefusedError, ObjectDamagedError):
        return None


async def _of_names(bucket: ObjectStore) -> PartitionLayout:
    """Return the newest generation that has partitions in the bucket, with as many as there are."""
    found = {partition_in(info.path) for info in await bucket.list(PARTITIONS)} - {None}
    # Objects of an earlier generation lie there until a sweep: only the newest ones count.
    newest = max((generation for generation, _ in filter(None, found)), default=0)
    numbers = [number for generation, number in filter(None, found) if generation == newest]
    count = 1 + max((number for number in numbers if number != SYSTEM), default=0)
    return PartitionLayout(generation=newest, partitions=count)
