"""``durable-sessions repartition``: divide the data of a stopped server into another number of partitions."""

import asyncio

import click

from durable_sessions.cli.command_errors import CommandError
from durable_sessions.cli.data_target import DataTarget, with_target
from durable_sessions.cli.option_types import WholeNumber
from durable_sessions.clock import SystemClock
from durable_sessions.errors import LogLockedError
from durable_sessions.ids import RandomIds
from durable_sessions.partition_id import PARTITIONS_MAX
from durable_sessions.rendering.text import plural
from durable_sessions.tools.repartition import Repartition, Repartitioned
from durable_sessions.tools.stopped_partition import Stopped


@click.command()
@with_target
@click.option(
    "--partitions",
    type=WholeNumber(min=1, max=PARTITIONS_MAX),
    required=True,
    help="The new number of partitions: the number of workers, or a multiple of it.",
)
def repartition(where: DataTarget, partitions: int) -> None:
    """Divide the data of a stopped server among this many partitions, one or more for each worker.

    No event is copied; sessions keep their URLs, and events their ids and offsets. Until the last step
    nothing has changed; if it is interrupted, run it again.
    """
    where.require_data()
    try:
        done = asyncio.run(_repartition(where, partitions))
    except LogLockedError as error:
        raise CommandError(f"{error} Stop the server first.", error.code) from error
    layout, count = done.layout, done.layout.partitions
    if layout == done.before:
        where.say(f"{where.location} has {count} {plural(count, 'partition')} already")
    else:
        streams = f"{done.streams} {plural(done.streams, 'stream')}"
        where.say(f"{streams} in {count} {plural(count, 'partition')}, generation {layout.generation}")
    where.tell(
        {
            "partitions": count,
            "generation": layout.generation,
            "changed": layout != done.before,
            "streams": done.streams,
        }
    )


async def _repartition(where: DataTarget, partitions: int) -> Repartitioned:
    stopped = Stopped(where.settings, where.settings.limits(), SystemClock(), RandomIds())
    bucket = await where.open_bucket(writable=True)
    return await Repartition(stopped, bucket, where.say).run(partitions)
