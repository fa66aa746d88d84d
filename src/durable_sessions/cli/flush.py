"""``durable-sessions flush``: move everything durable to the bucket now."""

import asyncio

import click
import httpcore2
import msgspec

from durable_sessions.cli.client import Server, with_server
from durable_sessions.cli.command_errors import CommandError
from durable_sessions.cli.data_target import IN_USE_ADVICE, DataTarget, with_target
from durable_sessions.clock import SystemClock
from durable_sessions.errors import LogLockedError
from durable_sessions.ids import RandomIds
from durable_sessions.node.data_layout import data_layout
from durable_sessions.tools.stopped_partition import Stopped, opened

ROUTE = "/v1/admin/flush"
FLUSH_SECONDS_MAX = 600.0


class FlushAnswer(msgspec.Struct):
    """The newest manifest, and up to which position the log is in the bucket."""

    manifest: int
    flushed_through: int


@click.command()
@with_target
@with_server
def flush(where: DataTarget, server: Server) -> None:
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


async def _flush(where: DataTarget) -> FlushAnswer:
    """Open the data directory as a server does, up to its partitions, and flush them."""
    bucket = await where.open_bucket(writable=True)
    stopped = Stopped(where.settings, where.settings.limits(), SystemClock(), RandomIds())
    async with opened(stopped, bucket, await data_layout(bucket, where.data)) as partitions:
        for one in partitions:
            await one.flush()
        manifest = partitions[0].archive.manifest
    return FlushAnswer(manifest.number, manifest.flushed_through)
