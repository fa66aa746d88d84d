"""The next manifest as a plain value, made from the previous one and the objects written for it."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

import msgspec

from durable_sessions.bucket.manifest import CheckpointInfo, GarbageInfo, Manifest, SegmentInfo
from durable_sessions.storage.archive import Flushed
from durable_sessions.tier import packed_rows, subscription_objects
from durable_sessions.tier.catalog import Change
from durable_sessions.tier.catalog_view import About
from durable_sessions.tier.flush_contents import FlushContents
from durable_sessions.tier.flush_objects import FlushObjects
from durable_sessions.tier.packed_rows import PackedRows
from durable_sessions.tier.snapshot_info import snapshot_of


class Replacement(NamedTuple):
    """A manifest to commit, and the change of the catalog that follows; ``flushed`` is set for a flush."""

    manifest: Manifest
    change: Change
    flushed: Flushed | None = None


class FlushPoint(NamedTuple):
    """The position up to which a flush archives the log, and the checksum of the frame there."""

    through: int
    frame: int | None


def about(manifest: Manifest) -> About:
    """Return how a catalog of this manifest identifies itself."""
    return About(manifest.number, manifest.flushed_through)


def successor(
    manifest: Manifest,
    now_ms: int,
    *,
    segments: Iterable[SegmentInfo] | None = None,
    checkpoints: Iterable[CheckpointInfo] | None = None,
    replaced: Iterable[str] = (),
) -> Manifest:
    """Return the manifest that follows this one; replaced objects become garbage as of ``now_ms``."""
    garbage = [GarbageInfo(path=path, since_ms=now_ms) for path in replaced]
    return msgspec.structs.replace(
        manifest,
        number=manifest.number + 1,
        created_at_ms=now_ms,
        segments=manifest.segments if segments is None else tuple(segments),
        checkpoints=manifest.checkpoints if checkpoints is None else tuple(checkpoints),
        garbage=(*manifest.garbage, *garbage),
    )


def unchanged(manifest: Manifest, now_ms: int) -> Replacement:
    """Return a replacement with the same contents under the next number."""
    following = successor(manifest, now_ms)
    return Replacement(following, Change(about(following)))


def skipped(manifest: Manifest, point: FlushPoint, now_ms: int) -> Replacement:
    """Return a replacement with the same contents, which reaches further because nothing lies between."""
    following = msgspec.structs.replace(
        successor(manifest, now_ms), flushed_through=point.through, frame=point.frame
    )
    return Replacement(following, Change(about(following)))


def after_flush(
    manifest: Manifest, contents: FlushContents, written: FlushObjects, point: FlushPoint, now_ms: int
) -> Replacement:
    """Return the replacement that a flush makes; slow for many streams, so not for the event loop."""
    following = msgspec.structs.replace(
        successor(
            manifest,
            now_ms,
            segments=(*manifest.segments, *written.segments),
            checkpoints=(*manifest.checkpoints, written.checkpoint),
            replaced=written.subscriptions.replaced,
        ),
        flushed_through=point.through,
        frame=point.frame,
        next_stream=contents.next_stream,
        version=max(manifest.version, contents.version),
        extra=written.subscriptions.extra,
    )
    change = Change(
        about(following),
        at_ms=now_ms,
        states=contents.states,
        removed=contents.removed,
        segments=[one.size for one in written.held],
        placed=[one.places for one in written.held],
        # Checkpoints before this one have the attributes of removed streams, and what attributes were before
        # an erasure; all of them are replaced when one is dirty.
        dirty=[written.checkpoint.path] if contents.removed or contents.erased else [],
        names=PackedRows(contents.names, packed_rows.named),
        erased=PackedRows(contents.erased, packed_rows.positions),
        slots=PackedRows(contents.slots, packed_rows.slot_changes),
    )
    return Replacement(following, change, Flushed(contents.tails, contents.removed, point.through))


def referred(manifest: Manifest) -> set[str]:
    """Return the paths of the objects that a manifest refers to, without garbage."""
    paths = {info.path for info in manifest.segments}
    paths.update(info.path for info in manifest.checkpoints)
    paths.update(info.path for info in subscription_objects.objects(manifest))
    snapshot = snapshot_of(manifest)
    if snapshot is not None:
        paths.add(snapshot.path)
    return paths


def without_garbage(manifest: Manifest, gone: Collection[str], now_ms: int) -> Replacement:
    """Return a replacement that no longer lists the garbage that has been removed."""
    garbage = tuple(one for one in manifest.garbage if one.path not in gone)
    following = msgspec.structs.replace(successor(manifest, now_ms), garbage=garbage)
    return Replacement(following, Change(about(following)))
