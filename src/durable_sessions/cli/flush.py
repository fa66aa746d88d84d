"""``durable-sessions flush``: move everything durable to the bucket now."""

import asyncio

import click
import httpcore2
import msgspec

from durable_sessions.bucket.format import ensure_format
from durable_sessions.bucket.manifest import Manifest
from durable_sessions.bucket.probe import probe
from durable_sessions.cli.client import Server, with_server
from durable_sessions.cli.command_errors import CommandError
from durable_sessions.cli.output import IN_USE_ADVICE, Target, with_target
from durable_sessions.clock import SystemClock
from durable_sessions.errors import LogLockedError
from durable_sessions.ids import RandomIds
from durable_sessions.log.file import FileLog
from durable_sessions.storage.flush import Flusher
from durable_sessions.storage.partition import Partition
from durable_sessions.storage.retention import Retention
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.ownership import require_own
from durable_sessions.tools.verify import CATALOG_NAME

ROUTE = "/v1/admin/flush"
FLUSH_SECONDS_MAX = 600.0


class FlushAnswer(msgspec.Struct):
    """The newest manifest, and up to which position the log is in the bucket."""

    manifest: int
    flushed_through: int


@click.command()
@with_target
@with_server
def flush(where: Target, server: Server) -> None:
    """Move everything that is durable to the bucket, and return when it is there.

    The running server is asked to. If none listens, the data directory is opened and flushed.
    """
    try:
        answer = server.ask("POST", ROUTE, FlushAnswer, seconds_max=FLUSH_SECONDS_MAX)
        by = server.url
    except httpcore2.ConnectError as error:
        try:
            where.require_instead_of(server.url, error)
            answer = asyncio.run(_flush(where))
        except LogLockedError as locked:
            raise CommandError(
                f"Nothing listens at {server.url} ({error}), but {locked} {IN_USE_ADVICE}", locked.code
            ) from locked
        by = str(where.data)
    where.say(f"{by}: flushed through {answer.flushed_through}, manifest {answer.manifest}")
    where.tell(answer)


async def _flush(where: Target) -> FlushAnswer:
    """Open the data directory as a server does, up to the partition, and flush it."""
    settings, clock, ids = where.settings, SystemClock(), RandomIds()
    limits = settings.limits()
    log = await FileLog.open(where.log, segment_bytes_max=limits.log_segment_bytes_max)
    try:
        bucket = await where.open_bucket(writable=True)
        await require_own(log, bucket)
        await probe(bucket, ids)
        await ensure_format(bucket)
        archive = await BucketArchive.open(bucket, where.data / CATALOG_NAME, clock, ids, limits, log=log)
        try:
            partition = await Partition.open(log, clock, limits, archive, Retention(settings.retention))
            await Flusher(partition, clock, limits, settings.flush_seconds).flush_all()
            await partition.close()
        finally:
            await archive.close()
    finally:
        await log.close()
    manifest: Manifest = archive.manifest
    return FlushAnswer(manifest.number, manifest.flushed_through)
