"""``durable-sessions gc``: remove from the bucket what nothing refers to any more."""

import asyncio
from contextlib import nullcontext

import click

from durable_sessions.bucket.manifest import Manifests
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.cli.output import Target, with_target
from durable_sessions.clock import SystemClock
from durable_sessions.ids import RandomIds
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.rendering.text import plural
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.sweeper import Removal, Sweeper, plan
from durable_sessions.tools.verify import CATALOG_NAME


@click.command()
@with_target
@click.option("--dry-run", is_flag=True, help="Only say what would be removed; a server may be running.")
def gc(where: Target, dry_run: bool) -> None:
    """Remove replaced objects, old manifests and what crashes left behind, all after their grace time.

    A running server does the same by itself, once an hour.
    """
    where.require_bucket()
    with nullcontext() if dry_run else where.locked("Stop the server first, or use --dry-run."):
        removals = asyncio.run(_collect(where, dry_run=dry_run))
    for removal in removals:
        where.say(f"{removal.path}: {removal.reason}")
    were = "can be" if dry_run else "was" if len(removals) == 1 else "were"
    where.say(f"{len(removals)} {plural(len(removals), 'object')} {were} removed")
    where.tell({"removed": not dry_run, "objects": [removal._asdict() for removal in removals]})


async def _collect(where: Target, *, dry_run: bool) -> list[Removal]:
    bucket = await where.open_bucket(writable=not dry_run)
    clock, limits = SystemClock(), where.settings.limits()
    manifest = await Manifests(bucket).newest()
    if manifest is None:
        return []
    removals = plan(manifest, ONLY_PARTITION, await bucket.list(""), clock.now_ms(), limits)
    if removals and not dry_run:
        await _sweep(where, bucket)
    return removals


async def _sweep(where: Target, bucket: ObjectStore) -> None:
    """Run the server's own sweep, which checks first that no other process writes to the bucket."""
    clock, limits = SystemClock(), where.settings.limits()
    catalog = where.data / CATALOG_NAME
    archive = await BucketArchive.open(bucket, catalog, clock, RandomIds(), limits, log=None)
    try:
        await Sweeper(archive, clock, limits).sweep()
    finally:
        await archive.close()
