"""``durable-sessions gc``: remove from the bucket what nothing refers to any more."""

import asyncio

import click

from durable_sessions.bucket.manifest import Manifests
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.partition_layout import PartitionLayout
from durable_sessions.cli.data_target import DataTarget, with_target
from durable_sessions.clock import SystemClock
from durable_sessions.ids import RandomIds
from durable_sessions.partition_id import PartitionId
from durable_sessions.rendering.text import plural
from durable_sessions.sessions.event_ids import names_of
from durable_sessions.sessions.indexing import index_of
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.janitor import Janitor
from durable_sessions.tier.sweeper import RELEASED, Removal, Sweeper, plan
from durable_sessions.tools.verify import CATALOG_NAME


@click.command()
@with_target
@click.option("--dry-run", is_flag=True, help="Only say what would be removed; a server may be running.")
def gc(where: DataTarget, dry_run: bool) -> None:
    """Remove replaced objects, old manifests and what crashes left behind, all after their grace time.

    A running server does the same by itself, once an hour.
    """
    where.require_bucket()
    if dry_run:
        removals = asyncio.run(_collect(where, None))
    else:
        with where.locked("Stop the server first, or use --dry-run.") as layout:
            removals = asyncio.run(_collect(where, layout))
    for removal in removals:
        where.say(f"{removal.path}: {removal.reason}")
    were = "can be" if dry_run else "was" if len(removals) == 1 else "were"
    where.say(f"{len(removals)} {plural(len(removals), 'object')} {were} removed")
    where.tell({"removed": not dry_run, "objects": [removal._asdict() for removal in removals]})


async def _collect(where: DataTarget, locked: PartitionLayout | None) -> list[Removal]:
    """Return what can be removed, of all partitions; remove it if their logs are locked."""
    bucket = await where.open_bucket(writable=locked is not None)
    clock, limits = SystemClock(), where.settings.limits()
    layout, listing = locked or await where.layout(), await bucket.list("")
    found: list[Removal] = []
    for one in layout.all:
        manifest = await Manifests(bucket, one).newest()
        if manifest is None:
            continue
        removals = plan(manifest, one, listing, clock.now_ms(), limits)
        if removals and locked is not None:
            await _sweep(where, bucket, one)
        found += [removal for removal in removals if removal.reason != RELEASED]
        if one.is_system:
            janitor = Janitor(bucket, one, clock, limits)
            found += await janitor.plan()
            if locked is not None:
                await janitor.sweep()
    return found


async def _sweep(where: DataTarget, bucket: ObjectStore, partition: PartitionId) -> None:
    """Run the server's own sweep, which checks first that no other process writes to the bucket."""
    clock, limits = SystemClock(), where.settings.limits()
    catalog = partition.directory(where.data) / CATALOG_NAME
    archive = await BucketArchive.open(
        bucket, catalog, clock, RandomIds(), limits, names_of, index_of, log=None, partition=partition
    )
    try:
        await Sweeper(archive, clock, limits).sweep()
    finally:
        await archive.close()
