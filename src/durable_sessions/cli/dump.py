"""``durable-sessions dump``: show what is in the log and in the bucket."""

import asyncio
import base64
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import click
import msgspec

from durable_sessions.bucket.fetch import digest
from durable_sessions.bucket.layout import manifests_prefix
from durable_sessions.bucket.manifest import Manifest, Manifests, decode_manifest
from durable_sessions.bucket.numbered import NumberedObjects
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.partition_layout import PartitionLayout, all_layouts
from durable_sessions.cli.command_errors import MissingError
from durable_sessions.cli.data_target import DataTarget, shortened, with_target
from durable_sessions.cli.error_output import warn
from durable_sessions.cli.groups import CommandGroup
from durable_sessions.cli.option_types import WholeNumber
from durable_sessions.errors import (
    DurableSessionsError,
    ObjectDamagedError,
    ObjectNotFoundError,
    StreamNotFoundError,
)
from durable_sessions.partition_id import PartitionId
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.streams.stream import Key
from durable_sessions.tier.snapshot_info import SnapshotInfo, snapshot_of
from durable_sessions.tools.dump.flushed import checkpoint_items, subscription_items
from durable_sessions.tools.dump.log import Plain, StreamPaths, log_items
from durable_sessions.tools.dump.segments import segment_items
from durable_sessions.tools.dump.snapshots import snapshot_items
from durable_sessions.tools.dump.streams import StreamDump, load_names, look_up
from durable_sessions.tools.verify import LOG_NAME


@click.group(cls=CommandGroup)
def dump() -> None:
    """Show what is in the log and in the bucket. Changes nothing; a server may be running."""


_partition_option = click.option(
    "--partition",
    metavar="NAME",
    help="Which one, as it is in the names of objects, such as 1-00; needed if there are several.",
)


async def _partition(where: DataTarget, name: str | None) -> PartitionId:
    """Return the partition of a name, of the generation that holds or of an earlier one."""
    current = (await where.layout()).all
    if name is None:
        if len(current) == 1:
            return current[0]
        names = ", ".join(one.digits for one in current)
        raise click.UsageError(f"There are several partitions: name one of {names} with --partition.")
    # Partitions of an earlier generation have objects until a sweep, and are what an operator may look for
    # after a repartitioning.
    known = current + [one for layout in await all_layouts(await where.open_bucket()) for one in layout.all]
    for one in known:
        if one.digits == name:
            return one
    raise MissingError(f"{where.location} has no partition {name}.")


@dump.command("layout")
@with_target
def dump_layout(where: DataTarget) -> None:
    """Show into which partitions the bucket is divided, and was before, oldest first."""
    for layout in asyncio.run(_layouts(where)):
        where.tell(layout)
        fields = msgspec.structs.asdict(layout)
        where.say(_line(f"layout {fields.pop('number')}", fields))


async def _layouts(where: DataTarget) -> list[PartitionLayout]:
    return await all_layouts(await where.open_bucket())


@dump.command("log")
@with_target
@click.option(
    "--from", "start", type=WholeNumber(min=0), default=0, help="Position of the first batch to show."
)
@click.option("--limit", type=WholeNumber(min=1), default=None, help="How many batches to show.")
@_partition_option
def dump_log(where: DataTarget, start: int, limit: int | None, partition: str | None) -> None:
    """Show the batches of the log, one effect per line."""
    where.require_data()
    one = asyncio.run(_partition(where, partition))
    log = one.directory(where.data) / LOG_NAME
    for item in islice(log_items(log, start, asyncio.run(_names(where, one))), limit):
        where.tell(_for_json(item))
        if "damage" in item:
            where.say(
                f"DAMAGE {item['file']}, byte {item['byte']}: {item['damage']} ({item['length']} bytes)"
            )
            continue
        effects = item.pop("effects")
        assert isinstance(effects, list)
        where.say(f"batch {item['position']}  {item['size']} bytes  {item['file']}, byte {item['byte']}")
        for effect in effects:
            where.say("  " + _line(effect.pop("effect"), effect))


async def _names(where: DataTarget, partition: PartitionId) -> StreamPaths:
    try:
        return await load_names(await where.open_bucket(), partition)
    except DurableSessionsError as error:
        warn(f"names of streams are unknown: {error}")
        return StreamPaths()


@dump.command("manifest")
@with_target
@click.option("--number", type=WholeNumber(min=1), default=None, help="Which one, if not the newest.")
@_partition_option
def dump_manifest(where: DataTarget, number: int | None, partition: str | None) -> None:
    """Show the current manifest, or another one."""
    manifest = asyncio.run(_manifest(where, number, partition))
    where.tell(manifest)
    fields = msgspec.structs.asdict(manifest)
    lists = {name: fields.pop(name) for name in ("segments", "checkpoints", "garbage")}
    extra = fields.pop("extra")
    for name, value in fields.items():
        where.say(f"{name}: {_text(name, value)}")
    for name, value in extra.items():
        where.say(f"extra {name}: {bytes(value).decode()}")
    for name, infos in lists.items():
        where.say(f"{name}: {len(infos)}")
        for info in infos:
            values = msgspec.structs.asdict(info)
            where.say("  " + _line(values.pop("path"), values))


async def _manifest(where: DataTarget, number: int | None, partition: str | None) -> Manifest:
    bucket, one = await where.open_bucket(), await _partition(where, partition)
    if number is None:
        newest = await Manifests(bucket, one).newest()
        if newest is None:
            raise MissingError(f"{where.location} holds no manifest: nothing was flushed there yet.")
        return newest
    objects = NumberedObjects(bucket, manifests_prefix(one), ".json")
    return decode_manifest(await objects.get(number), objects.path(number))


@dump.command("segment")
@click.argument("path")
@with_target
def dump_segment(where: DataTarget, path: str) -> None:
    """Show the row groups, the directory and the rows of the segment at PATH in the bucket."""
    _show(where, segment_items(path, asyncio.run(_object(where, path))))


@dump.command("checkpoint")
@click.argument("path")
@with_target
def dump_checkpoint(where: DataTarget, path: str) -> None:
    """Show the streams in the checkpoint at PATH in the bucket."""
    _show(where, checkpoint_items(path, asyncio.run(_object(where, path))))


@dump.command("subscriptions")
@click.argument("path")
@with_target
def dump_subscriptions(where: DataTarget, path: str) -> None:
    """Show the effects in the object of subscriptions at PATH in the bucket."""
    _show(where, subscription_items(path, asyncio.run(_object(where, path))))


@dump.command("snapshot")
@click.argument("path", required=False)
@with_target
@_partition_option
def dump_snapshot(where: DataTarget, path: str | None, partition: str | None) -> None:
    """Show the catalog in the snapshot at PATH in the bucket, or in the newest one."""
    info = asyncio.run(_newest_snapshot(where, partition)) if path is None else None
    path = path or (info.path if info else "")
    data = asyncio.run(_object(where, path))
    if info is not None and digest(data) != info.sha256:
        raise ObjectDamagedError(path=path, problem="it has not the digest that the manifest names")
    with tempfile.TemporaryDirectory(prefix="durable-sessions-") as folder:
        _show(where, snapshot_items(path, data, Path(folder)))


async def _newest_snapshot(where: DataTarget, partition: str | None) -> SnapshotInfo:
    manifest = await _manifest(where, None, partition)
    info = snapshot_of(manifest)
    if info is None:
        raise MissingError(
            f"Manifest {manifest.number} in {where.location} names no snapshot of the catalog. The server"
            " writes one when opening without it would take long."
        )
    return info


def _show(where: DataTarget, items: Iterable[Plain]) -> None:
    for item in items:
        where.tell(_for_json(item))
        kind, name = next(iter(item.items()))
        shown = {key: value for key, value in item.items() if key != kind and value is not None}
        where.say(_line(f"{kind} {name}", shown))


async def _object(where: DataTarget, path: str) -> bytes:
    # In a bucket that is a directory a path with dots would lead out of it.
    if not path or any(part.startswith(".") or not part for part in path.split("/")):
        raise click.UsageError(f"{path!r} is not the path of an object in the bucket.")
    try:
        return await (await where.open_bucket()).get(path)
    except ObjectNotFoundError as error:
        raise MissingError(f"There is no object {path} in {where.location}.", error.code) from error


@dump.command("stream")
@click.argument("path")
@click.option("--workspace", default="default", show_default=True, help="Where the stream is.")
@with_target
def dump_stream(where: DataTarget, path: str, workspace: str) -> None:
    """Show the state of the stream at PATH, where its records are, and the records."""
    asyncio.run(_dump_stream(where, Key(workspace, path)))


async def _look_up(where: DataTarget, bucket: ObjectStore, key: Key, folder: Path) -> StreamDump:
    """Return a stream from the partition that has it: its home, or for a fork that of its parent."""
    layout = await where.layout()
    home = home_partition(*key, of=layout.partitions)
    missing: StreamNotFoundError | None = None
    # Home first; a fork is with its parent, wherever that is.
    for one in sorted(layout.all, key=lambda one: one.number != home):
        place = folder / one.digits
        place.mkdir()
        try:
            return await look_up(bucket, one.directory(where.data) / LOG_NAME, key, place, one)
        except StreamNotFoundError as error:
            missing = error
    assert missing is not None
    raise missing


async def _dump_stream(where: DataTarget, key: Key) -> None:
    bucket = await where.open_bucket()
    with tempfile.TemporaryDirectory(prefix="durable-sessions-") as folder:
        found = await _look_up(where, bucket, key, Path(folder))
    state = {**found.state(), "flushed": found.flushed}
    where.tell({"stream": _for_json(state)})
    for name, value in state.items():
        if value not in (None, False, {}):
            where.say(f"{name}: {_text(name, value)}")
    if found.stream.parent is not None:
        where.say(f"positions before {found.stream.base} are those of stream {found.stream.parent}")
    where.say(f"places: {len(found.places)}")
    for place in found.places:
        where.tell({"place": place.plain()})
        where.say(f"  {place.tier} {place.where}: {place.first} to {place.next}")
    where.say("records:")
    async for record in found.records():
        where.tell({"record": _for_json(record)})
        where.say("  " + _line(str(record.pop("position")), record))


def _line(first: object, fields: Plain) -> str:
    return " ".join([str(first), *(f"{name}={_text(name, value)}" for name, value in fields.items())])


def _text(name: str, value: object) -> str:
    if isinstance(value, bytes):
        return f"{len(value)}:{shortened(value)}"
    if isinstance(value, datetime):
        return value.isoformat()
    if name.endswith("_ms") and isinstance(value, int):
        return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds")
    if isinstance(value, str) and name in ("body", "data"):
        return f"{len(value)}:{shortened(value.encode())}"
    return str(value)


def _for_json(value: object) -> object:
    """Return the value with bytes as text or, if they are not UTF-8, as base64 in an object."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {str(name): _for_json(one) for name, one in value.items()}
    if isinstance(value, str | int | float | None) or not isinstance(value, Iterable):
        return value
    return [_for_json(one) for one in value]
