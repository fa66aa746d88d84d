"""The partitions of a data directory and its bucket, which must be of the same generation."""

import asyncio
from pathlib import Path

from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.partition_layout import PartitionLayout, read_layout
from durable_sessions.errors import ArchiveMissingError, BucketRefusedError
from durable_sessions.log.generations import logged_generations


async def data_layout(bucket: ObjectStore | None, data: Path, partitions: int = 1) -> PartitionLayout:
    """Return how a bucket is divided; one that is new, or None, gets this many partitions.

    A directory with logs is refused if none of them is of the bucket's generation: what they hold beyond the
    last flush would be left behind unnoticed.
    """
    found = None if bucket is None else await read_layout(bucket)
    layout = found or PartitionLayout(partitions=partitions)
    logged = await asyncio.to_thread(logged_generations, data)
    if logged and layout.generation not in logged:
        if found is None:
            raise ArchiveMissingError(log=data)
        raise BucketRefusedError(
            problem=f"its partitions are of generation {layout.generation}, and the logs in {data} of"
            f" generation {max(logged)}: it was repartitioned with another data directory",
            remedy="Use that directory, or begin with an empty one from what the bucket has.",
        )
    return layout
