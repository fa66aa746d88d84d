"""``durable-sessions flush``: move everything durable to the bucket now."""

import asyncio

import click
import httpcore2
import msgspec

from durable_sessions.bucket.format import ensure_format
from durable_sessions.bucket.manifest import Manifest
from durable_sessions.bucket.probe import probe
from durable_sessions.cli.output import Target, with_target
from durable_sessions.clock import SystemClock
from durable_sessions.errors import LogLockedError
from durable_sessions.ids import RandomIds
from durable_sessions.log.file import FileLog
from durable_sessions.settings import ENVIRONMENT_PREFIX
from durable_sessions.storage.bucket_archive import BucketArchive
from durable_sessions.storage.flush import Flusher
from durable_sessions.storage.partition import Partition
from durable_sessions.storage.retention import Retention
from durable_sessions.storage.verification import CATALOG_NAME

DEFAULT_URL = "http://127.0.0.1:4437"
ROUTE = "/v1/admin/flush"
CONNECT_SECONDS_MAX = 5.0
FLUSH_SECONDS_MAX = 600.0


class Flushed(msgspec.Struct):
    """Which manifest holds now, and up to where the log is in the bucket."""

    manifest: int
    flushed_through: int


@click.command()
@with_target
@click.option(
    "--url",
    envvar=ENVIRONMENT_PREFIX + "URL",
    default=DEFAULT_URL,
    show_default=True,
    help=f"Where the server is.  [{ENVIRONMENT_PREFIX}URL]",
)
def flush(where: Target, url: str) -> None:
    """Move everything that is durable to the bucket, and return when it is there.

    The running server is asked to. If none listens, the data directory is opened and flushed.
    """
    try:
        answer = _ask(url)
        by = url
    except httpcore2.ConnectError as error:
        try:
            where.require_data()
            answer = asyncio.run(_flush(where))
        except LogLockedError as locked:
            raise click.ClickException(f"Nothing listens at {url} ({error}), but {locked}") from locked
        by = str(where.data)
    where.say(f"{by}: flushed through {answer.flushed_through}, manifest {answer.manifest}")
    where.tell(answer)


def _ask(url: str) -> Flushed:
    timeouts = {"connect": CONNECT_SECONDS_MAX, "read": FLUSH_SECONDS_MAX, "write": CONNECT_SECONDS_MAX}
    try:
        answer = httpcore2.request(
            "POST", url.rstrip("/") + ROUTE, headers={"Content-Length": "0"}, extensions={"timeout": timeouts}
        )
    except httpcore2.ConnectError:
        raise
    except (httpcore2.UnsupportedProtocol, httpcore2.LocalProtocolError, ValueError) as error:
        raise click.UsageError(f"{url} is not the address of a server: {error}") from error
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
        raise click.ClickException(f"{url} did not answer: {error!r}") from error
    if answer.status != 200:
        said = answer.content[:1_000].decode(errors="replace")
        raise click.ClickException(f"{url} answered {answer.status}: {said}")
    try:
        return msgspec.json.decode(answer.content, type=Flushed)
    except (msgspec.MsgspecError, ValueError) as error:
        raise click.ClickException(f"{url} answered something else than a flush: {error}") from error


async def _flush(where: Target) -> Flushed:
    """Open the data directory as a server does, up to the partition, and flush it."""
    settings, clock, ids = where.settings, SystemClock(), RandomIds()
    limits = settings.limits()
    log = await FileLog.open(where.log, segment_bytes_max=limits.log_segment_bytes_max)
    try:
        bucket = await where.open_bucket(writable=True)
        await probe(bucket, ids)
        await ensure_format(bucket)
        archive = await BucketArchive.open(bucket, where.data / CATALOG_NAME, clock, ids, limits)
        try:
            partition = await Partition.open(log, clock, limits, archive, Retention(settings.retention))
            await Flusher(partition, clock, limits, settings.flush_seconds).flush_all()
            await partition.close()
        finally:
            await archive.close()
    finally:
        await log.close()
    manifest: Manifest = archive.manifest
    return Flushed(manifest.number, manifest.flushed_through)
