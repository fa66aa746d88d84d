"""``ds cluster``: make a cluster, check what it rests on, and see how it is."""

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import click
import msgspec

from durable_sessions.bucket.cluster_description import NATS_LOG, ClusterDescription, current_cluster
from durable_sessions.bucket.partition_layout import PartitionLayout, read_layout
from durable_sessions.bucket.store import Bucket
from durable_sessions.cli.command_errors import CommandError
from durable_sessions.cli.groups import CommandGroup
from durable_sessions.cli.option_types import WholeNumber
from durable_sessions.clock import SystemClock
from durable_sessions.cluster.placement import ClusterPlacement, Placements
from durable_sessions.errors import DurableSessionsError, LogLockedError, SettingsError
from durable_sessions.ids import RandomIds
from durable_sessions.log.nats.wire import NatsWire
from durable_sessions.node.cluster_logs import ClusterLogs, nats_servers
from durable_sessions.node.cluster_secrets import ClusterSecrets
from durable_sessions.node.link_address import link_address
from durable_sessions.partition_id import PARTITIONS_MAX
from durable_sessions.rendering.text import plural
from durable_sessions.settings import ENVIRONMENT_PREFIX, Settings, load
from durable_sessions.times import rfc3339
from durable_sessions.tools.cluster.migration import to_cluster, to_single_server
from durable_sessions.tools.cluster.renewal import RenewedLog, renew_logs
from durable_sessions.tools.cluster.servers import server_problems
from durable_sessions.tools.cluster.setup import ClusterSetup
from durable_sessions.tools.cluster.status import ClusterStatus, cluster_status, live_nodes
from durable_sessions.tools.cluster.upgrade import UpgradeState, finalize_upgrade, upgrade_state
from durable_sessions.tools.repartition import Repartitioned
from durable_sessions.tools.stopped_partition import Stopped

NATS_PARTITIONS, BUCKET_PARTITIONS = 8, 2
"""How many partitions a new cluster gets by default; fewer where each frame of each log is a PUT."""
_NAMES = ("bucket", "nats", "nats_ca", "nats_certificate", "nats_key", "nats_credentials", "nats_nkey")
_HELP = {
    "bucket": "Bucket of the cluster: s3://name/prefix, gs://… or az://….",
    "nats": "Addresses of the NATS servers, separated by commas.",
    "nats_ca": "File with the certificate authority of the NATS servers.",
    "nats_certificate": "File with the certificate to show to NATS.",
    "nats_key": "File with the key of that certificate.",
    "nats_credentials": "File with the credentials to show to NATS.",
    "nats_nkey": "File with the seed of an nkey, to sign in to NATS.",
}


def _with_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say where a cluster is, and pass the settings."""

    @functools.wraps(command)
    def wrapped(config: Path | None, **options: object) -> None:
        given = {name: options.pop(name) for name in _NAMES}
        try:
            settings = load(given, os.environ, config)
        except SettingsError as error:
            raise click.UsageError(str(error)) from error
        if not settings.bucket:
            raise click.UsageError("Name the bucket of the cluster with --bucket.")
        command(settings, **options)

    answered: Callable[..., None] = wrapped
    answered = click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar=ENVIRONMENT_PREFIX + "CONFIG",
        help=f"TOML file with settings, as for serve.  [{ENVIRONMENT_PREFIX}CONFIG]",
    )(answered)
    for name in reversed(_NAMES):
        text = f"{_HELP[name]}  [{ENVIRONMENT_PREFIX}{name.upper()}]"
        flag = "--" + name.replace("_", "-")
        answered = click.option(flag, name, default=None, metavar="VALUE", help=text)(answered)
    return answered


_as_json = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Make a cluster of several machines, check what it rests on, and see how it is."""


@cluster.command()
@_with_cluster
@click.option("--name", required=True, metavar="NAME", help="What the cluster is called, such as prod.")
@click.option(
    "--replicas",
    type=WholeNumber(min=1, max=5),
    default=3,
    show_default=True,
    help="How many NATS servers keep the log; fewer than 3 lose data with a server.",
)
@click.option(
    "--partitions",
    type=WholeNumber(min=1, max=PARTITIONS_MAX),
    default=None,
    help="Into how many partitions its data is divided: as many as you expect nodes, at most twice as many."
    "  [default: 8, or 2 without --nats]",
)
@click.option(
    "--from-data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=None,
    metavar="DIR",
    help="Data directory of a stopped server, whose bucket this is: its sessions go on in the cluster.",
)
@click.option(
    "--from-bucket",
    is_flag=True,
    help="NATS has lost the logs of this cluster: make them anew. What was not flushed is lost.",
)
@_as_json
def init(
    settings: Settings,
    name: str,
    replicas: int,
    partitions: int | None,
    from_data: Path | None,
    from_bucket: bool,
    as_json: bool,
) -> None:
    """Make a cluster on an empty bucket; its logs are in NATS, or without --nats in the bucket itself.

    Run it once. If it is interrupted, run it again.
    """
    if from_data is not None and from_bucket:
        raise click.UsageError("Give --from-data or --from-bucket, not both.")
    if from_bucket:
        _renew(settings, name, as_json)
        return
    wanted = partitions or (NATS_PARTITIONS if settings.nats else BUCKET_PARTITIONS)
    if from_data is not None:
        say = _silent if as_json else click.echo
        asyncio.run(_from_data(replace(settings, data=from_data), name, replicas, wanted, say))
        made = asyncio.run(_described(settings))
    else:
        made = asyncio.run(_init(settings, name, replicas, wanted))
    if as_json:
        click.echo(msgspec.json.encode(made))
        return
    where = f"NATS, on {made.replicas} servers" if made.log == NATS_LOG else "the bucket"
    nats = f" --nats {','.join(settings.nats)}" if made.log == NATS_LOG else ""
    click.echo(f"The cluster {made.name} is made; its log is in {where}.")
    click.echo("Start a node on each machine, all with the same DURABLE_SESSIONS_CLUSTER_SECRET:")
    click.echo(f"  ds serve --cluster {made.name} --bucket {settings.bucket}{nats} --link HOST:4440")
    if from_data is not None:
        click.echo(f"Start the first one with --data {from_data}: its signing keys become the cluster's.")


def _silent(step: str) -> None:
    """Print nothing."""


async def _init(settings: Settings, name: str, replicas: int, partitions: int) -> ClusterDescription:
    async with _connected(settings) as (bucket, wire):
        setup = ClusterSetup(bucket, wire, SystemClock(), RandomIds())
        return await setup.run(name, settings.unflushed_bytes, replicas, partitions)


async def _from_data(
    settings: Settings, name: str, replicas: int, partitions: int, say: Callable[[str], None]
) -> None:
    stopped = Stopped(settings, settings.limits(), SystemClock(), RandomIds())
    try:
        async with _connected(settings) as (bucket, wire):
            await to_cluster(stopped, bucket, wire, name, replicas, partitions, say)
    except LogLockedError as error:
        raise CommandError(f"{error} Stop the server first.", error.code) from error


async def _described(settings: Settings) -> ClusterDescription:
    found = await current_cluster(await Bucket.open(settings.bucket))
    assert found is not None, "it was just made"
    return found


@asynccontextmanager
async def _connected(settings: Settings) -> AsyncIterator[tuple[Bucket, NatsWire | None]]:
    """Open the bucket, and connect to NATS if its servers are given."""
    bucket = await Bucket.open(settings.bucket)
    wire = await NatsWire.connect(nats_servers(settings)) if settings.nats else None
    try:
        yield bucket, wire
    finally:
        if wire is not None:
            await wire.close()


def _renew(settings: Settings, name: str, as_json: bool) -> None:
    """Make the logs that NATS has lost, and say what is left."""
    renewed = asyncio.run(_renewed(replace(settings, cluster=name)))
    if as_json:
        click.echo(msgspec.json.encode({"renewed": renewed}))
        return
    for one in renewed:
        click.echo(
            f"Partition {one.partition} goes on from its bucket. What was acknowledged after"
            f" {rfc3339(one.flushed_at_ms)}, when it was last flushed, may be lost."
        )
    if not renewed:
        click.echo("Every partition has its log; nothing was changed.")


async def _renewed(settings: Settings) -> list[RenewedLog]:
    logs = await _opened(settings)
    try:
        return await renew_logs(logs, SystemClock())
    finally:
        await logs.close()


@cluster.command()
@_with_cluster
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    help="Data directory of the single server; made if it does not exist, and without logs if it does.",
)
@click.option(
    "--partitions",
    type=WholeNumber(min=1, max=PARTITIONS_MAX),
    default=1,
    show_default=True,
    help="Into how many partitions the data is divided then: as many as the server has workers.",
)
@_as_json
def dissolve(settings: Settings, data: Path, partitions: int, as_json: bool) -> None:
    """Turn a cluster whose nodes are stopped into a single server, which keeps the bucket.

    No event is copied; sessions keep their URLs, and events their ids and offsets.
    """
    done = asyncio.run(
        _dissolve(replace(settings, data=data), partitions, _silent if as_json else click.echo)
    )
    streams = done.streams
    if as_json:
        click.echo(msgspec.json.encode({"partitions": done.layout.partitions, "streams": streams}))
        return
    click.echo(f"{streams} {plural(streams, 'stream')} in {data}. Start the server:")
    click.echo(f"  ds serve --data {data} --bucket {settings.bucket}")


async def _dissolve(settings: Settings, partitions: int, say: Callable[[str], None]) -> Repartitioned:
    await asyncio.to_thread(settings.data.mkdir, mode=0o700, parents=True, exist_ok=True)
    stopped = Stopped(settings, settings.limits(), SystemClock(), RandomIds())
    logs = await _opened(settings)
    try:
        return await to_single_server(stopped, logs, partitions, say)
    finally:
        await logs.close()


@cluster.command()
@_with_cluster
@_as_json
def status(settings: Settings, as_json: bool) -> None:
    """Show the nodes, who owns each partition, and how far logs and bucket are; no node need be running."""
    found = asyncio.run(_status(settings))
    if as_json:
        click.echo(msgspec.json.encode(found))
        return
    click.echo(f"cluster {found.name}, log in {found.log}, {len(found.partitions)} partitions")
    for beat in found.nodes:
        role = f"owns {len(beat.owned)}"
        if beat.draining:
            role = "leaving"
        elif beat.name in found.placement.drained:
            role += ", drained"
        problem = f"  {beat.problem}" if beat.problem else ""
        click.echo(f"  {beat.name:24} {beat.url:28} {beat.version:10} {role}{problem}")
    if not found.nodes:
        click.echo("  no node tells of itself")
    if found.level < found.newest_level:
        click.echo(f"format level {found.level} of {found.newest_level}; see ds cluster upgrade")
    for one in found.partitions:
        owner = "no owner" if one.owner is None else f"{one.owner} since {one.epoch}"
        if one.moving_to:
            owner += f", moving to {one.moving_to}"
        if one.shadows:
            owner += f", next {' '.join(one.shadows)}"
        if one.log_problem is not None:
            log = one.log_problem
        else:
            unflushed = max(0, (one.log_ends_at or 0) - one.flushed_through)
            log = f"log ends at {one.log_ends_at}, {unflushed} frames after manifest {one.manifest}"
        click.echo(f"partition {one.partition}: {owner}; {log}")


async def _status(settings: Settings) -> ClusterStatus:
    logs = await _opened(settings)
    try:
        return await cluster_status(logs, SystemClock().now_ms())
    finally:
        await logs.close()


@cluster.command()
@_with_cluster
@click.option("--finalize", is_flag=True, help="Raise the level; older versions refuse the cluster then.")
@_as_json
def upgrade(settings: Settings, finalize: bool, as_json: bool) -> None:
    """Show at which format level the cluster writes, and which nodes do not read the newest one.

    A new version writes what older ones cannot read only once all nodes have it, and --finalize says so.
    """
    found = asyncio.run(_upgraded(settings, finalize))
    if as_json:
        click.echo(msgspec.json.encode(found))
        return
    click.echo(f"The cluster writes at format level {found.level}; the newest is {found.newest}.")
    if found.older:
        click.echo(f"Upgrade these nodes first, which do not read it: {', '.join(found.older)}.")
    elif found.level < found.newest:
        click.echo("All nodes that run read it: ds cluster upgrade --finalize raises the level, for good.")


async def _upgraded(settings: Settings, finally_: bool) -> UpgradeState:
    logs = await _opened(settings)
    try:
        now_ms = SystemClock().now_ms()
        return await (finalize_upgrade(logs, now_ms) if finally_ else upgrade_state(logs, now_ms))
    finally:
        await logs.close()


@cluster.command()
@_with_cluster
@click.argument("partition")
@click.argument("node", required=False, default="")
def move(settings: Settings, partition: str, node: str) -> None:
    """Let NODE own PARTITION, as ds cluster status shows them; without NODE, whichever node should.

    The owner hands it over as soon as that node is ready; its clients wait for a moment.
    """

    def moved(found: ClusterPlacement, layout: PartitionLayout) -> ClusterPlacement:
        numbers = {one.digits: one.number for one in layout.all}
        if partition not in numbers:
            raise CommandError(f"There is no partition {partition}: there are {', '.join(numbers)}.")
        return found.moved(numbers[partition], node)

    asyncio.run(_place(settings, node, moved))
    click.echo(f"Partition {partition} goes to {node or 'the node that should own it'}.")


@cluster.command()
@_with_cluster
@click.argument("node")
def drain(settings: Settings, node: str) -> None:
    """Let NODE own nothing, so that it can be stopped; it still takes requests and passes them on."""
    asyncio.run(_place(settings, node, lambda found, _: found.drain(node)))
    click.echo(f"{node} gives its partitions to other nodes; ds cluster status shows when it owns none.")


@cluster.command()
@_with_cluster
@click.argument("node")
def undrain(settings: Settings, node: str) -> None:
    """Let NODE own its share of the partitions again."""
    asyncio.run(_place(settings, "", lambda found, _: found.undrain(node)))
    click.echo(f"{node} gets its share of the partitions again.")


async def _place(
    settings: Settings, node: str, change: Callable[[ClusterPlacement, PartitionLayout], ClusterPlacement]
) -> None:
    """Change what the nodes are to do; ``node`` must be one that runs, if it is given."""
    logs = await _opened(settings)
    try:
        now_ms = SystemClock().now_ms()
        if node:
            names = sorted(beat.name for beat in await live_nodes(logs, now_ms))
            if node not in names:
                running = f"there are {', '.join(names)}" if names else "no node tells of itself"
                raise CommandError(f"There is no node {node}: {running}.")
        placements = Placements(logs.bucket)
        layout = await read_layout(logs.bucket) or PartitionLayout()
        while True:  # somebody else may be doing the same
            wanted = change(await placements.newest(), layout)
            if await placements.replace(msgspec.structs.replace(wanted, created_at_ms=now_ms)):
                return
    finally:
        await logs.close()


@cluster.command()
@_with_cluster
@click.option(
    "--monitoring",
    metavar="URLS",
    default="",
    help="Monitoring addresses of all NATS servers, such as http://10.0.0.1:8222, separated by commas.",
)
@_as_json
def check(settings: Settings, monitoring: str, as_json: bool) -> None:
    """Check what the cluster rests on: bucket, stream, each NATS server, and secret and TLS of links, if set.

    Fails if data could be lost, or if nodes could not reach each other.
    """
    problems = asyncio.run(_problems(settings)) + _link_problems(settings)
    servers = [one.strip() for one in monitoring.split(",") if one.strip()]
    for server in servers:
        problems += [f"{server}: {problem}" for problem in server_problems(server)]
    if as_json:
        click.echo(msgspec.json.encode({"problems": problems, "servers": servers}))
    else:
        for problem in problems:
            click.echo(problem)
        if not problems:
            click.echo("Bucket and log are as they must be.")
        if settings.nats and not servers:
            click.echo(
                "Whether the NATS servers sync before they acknowledge was not checked: give --monitoring."
            )
    if problems:
        raise CommandError(f"{len(problems)} of what was checked is not as it must be.")


def _link_problems(settings: Settings) -> list[str]:
    """Say what would keep a node with these settings from its links to the other nodes."""
    names = ("cluster_secret", "cluster_secret_previous")
    try:
        link_address(settings)
        if any(getattr(settings, name) or getattr(settings, f"{name}_file") for name in names):
            ClusterSecrets.open(settings)
    except SettingsError as error:
        return [str(error)]
    return []


async def _problems(settings: Settings) -> list[str]:
    try:
        logs = await _opened(settings)
    except SettingsError:
        raise
    except DurableSessionsError as error:
        return [str(error)]
    problems = []
    try:
        for partition in (await read_layout(logs.bucket) or PartitionLayout()).all:
            try:
                log = await logs.log(partition)
                await log.require_safe()
            except DurableSessionsError as error:
                problems.append(str(error))
    finally:
        await logs.close()
    return problems


async def _opened(settings: Settings) -> ClusterLogs:
    return await ClusterLogs.open(settings, RandomIds())
