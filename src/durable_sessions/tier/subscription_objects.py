"""Subscriptions and outbox in the bucket: all of them as of one flush, and the changes of later flushes.

Both are batches of effects; read one after the other they form a single batch. A flush usually writes only
its changes. When the changes have become many or large, they are merged into a new complete object.
"""

from collections.abc import Sequence

import msgspec

from durable_sessions.bucket.fetch import digest, fetch_object
from durable_sessions.bucket.layout import subscriptions_path
from durable_sessions.bucket.manifest import CheckpointInfo, Manifest
from durable_sessions.bucket.numbered import create_beside
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.errors import BucketError, ObjectDamagedError
from durable_sessions.limits import Limits
from durable_sessions.partition_id import PartitionId
from durable_sessions.storage import batch
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.state import State
from durable_sessions.threads import CPU

SUBSCRIPTIONS = "subscriptions"
"""The member of a manifest's ``extra`` that refers to all subscriptions as of one flush."""
CHANGES = "subscription_changes"
"""The member that refers to the changes of later flushes, oldest first."""


class Written(msgspec.Struct, frozen=True):
    """The ``extra`` of the next manifest, and the objects that it no longer needs."""

    extra: dict[str, msgspec.Raw]
    replaced: Sequence[str] = ()


def objects(manifest: Manifest) -> list[CheckpointInfo]:
    """Return the objects that together hold the subscriptions, in the order to read them."""
    whole, changes = manifest.extra.get(SUBSCRIPTIONS), manifest.extra.get(CHANGES)
    found = [] if whole is None else [msgspec.json.decode(whole, type=CheckpointInfo)]
    return found + ([] if changes is None else msgspec.json.decode(changes, type=list[CheckpointInfo]))


async def load(bucket: ObjectStore, manifest: Manifest) -> list[Effect]:
    """Return effects that rebuild the subscriptions and the outbox as of a manifest."""
    found: list[Effect] = []
    for info in objects(manifest):
        data = await fetch_object(bucket, info.path, info.bytes, info.sha256)
        found += await CPU.run(decoded, data)
    return found


async def write(
    bucket: ObjectStore,
    partition: PartitionId,
    manifest: Manifest,
    number: int,
    effects: Sequence[Effect],
    limits: Limits,
) -> Written:
    """Write the changes of a flush, or all subscriptions if earlier changes have become many or large."""
    if not effects:
        return Written(manifest.extra)
    known = objects(manifest)
    if _is_due(manifest, known, limits):
        try:
            return await _write_whole(bucket, partition, manifest, number, effects)
        except (BucketError, ObjectDamagedError):
            pass  # the known objects could not be read; write the changes only, and let the next flush retry
    data = await CPU.run(_encoded, effects)
    changes = [info for info in known if not _is_whole(manifest, info)]
    changes.append(await create(bucket, partition, number, "changes", data, len(effects)))
    return Written({**manifest.extra, CHANGES: msgspec.Raw(msgspec.json.encode(changes))})


async def _write_whole(
    bucket: ObjectStore, partition: PartitionId, manifest: Manifest, number: int, effects: Sequence[Effect]
) -> Written:
    whole = await CPU.run(_merged, [*await load(bucket, manifest), *effects])
    data = await CPU.run(_encoded, whole)
    info = await create(bucket, partition, number, "batch", data, len(whole))
    extra = {name: value for name, value in manifest.extra.items() if name != CHANGES}
    extra[SUBSCRIPTIONS] = msgspec.Raw(msgspec.json.encode(info))
    return Written(extra, [known.path for known in objects(manifest)])


def _is_due(manifest: Manifest, known: Sequence[CheckpointInfo], limits: Limits) -> bool:
    changes = [info for info in known if not _is_whole(manifest, info)]
    whole_bytes = sum(info.bytes for info in known) - sum(info.bytes for info in changes)
    many = len(changes) >= limits.subscription_changes_max or SUBSCRIPTIONS not in manifest.extra
    changed_bytes = sum(info.bytes for info in changes)
    return many or changed_bytes > max(whole_bytes, limits.subscription_changes_bytes_min)


def _is_whole(manifest: Manifest, info: CheckpointInfo) -> bool:
    whole = manifest.extra.get(SUBSCRIPTIONS)
    return whole is not None and msgspec.json.decode(whole, type=CheckpointInfo).path == info.path


async def create(
    bucket: ObjectStore, partition: PartitionId, number: int, kind: str, data: bytes, rows: int
) -> CheckpointInfo:
    """Write one object of encoded effects, and return the manifest's entry for it."""
    path = await create_beside(bucket, subscriptions_path(partition, number, kind), data)
    return CheckpointInfo(path=path, bytes=len(data), rows=rows, sha256=digest(data))


def _merged(effects: Sequence[Effect]) -> Sequence[Effect]:
    state = State()
    for effect in effects:
        state.apply(effect)
    return [*state.subscriptions.snapshot(), *state.outbox.snapshot()]


def decoded(data: bytes) -> list[Effect]:
    """Return the effects of a batch; slow for many, so not for the event loop."""
    return list(batch.effects_of(data))


def _encoded(effects: Sequence[Effect]) -> bytes:
    return b"".join(map(batch.encode, effects))
