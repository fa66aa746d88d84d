"""What a manifest says of the catalog's snapshot, and when a new one is due: plain values."""

import msgspec

from durable_sessions.bucket.layout import FlushedNames
from durable_sessions.bucket.manifest import Manifest
from durable_sessions.limits import Limits
from durable_sessions.partition_id import PartitionId

SNAPSHOT = "catalog_snapshot"
"""The member of a manifest's ``extra`` that says where the newest snapshot of the catalog is."""
_SHARE = 8
"""A snapshot is worth it when this part of the catalog has changed: so opening reads at most that much more,
and writing snapshots costs at most so many times what has changed."""


class SnapshotInfo(msgspec.Struct, frozen=True):
    """A snapshot of the catalog as of a manifest; ``rows`` is how many streams it has."""

    path: str
    bytes: int
    sha256: str
    manifest: int
    rows: int
    created_at_ms: int


def snapshot_of(manifest: Manifest) -> SnapshotInfo | None:
    """Return the snapshot that a manifest names; None if it names none that this program understands."""
    try:
        return msgspec.json.decode(manifest.extra.get(SNAPSHOT, b"null"), type=SnapshotInfo | None)
    except msgspec.MsgspecError:
        return None


def with_snapshot(manifest: Manifest, info: SnapshotInfo | None) -> Manifest:
    """Return a manifest that names this snapshot, or none."""
    extra = {name: value for name, value in manifest.extra.items() if name != SNAPSHOT}
    if info is not None:
        extra[SNAPSHOT] = msgspec.Raw(msgspec.json.encode(info))
    return msgspec.structs.replace(manifest, extra=extra)


def rows_beyond(manifest: Manifest, partition: PartitionId, covered: int) -> int:
    """Return how many rows an opening reads that a catalog as of manifest ``covered`` does not have."""
    names = FlushedNames(partition)
    objects = [(info.path, info.rows) for info in manifest.checkpoints]
    objects += [(info.path, info.streams) for info in manifest.segments]
    named = ((names.parse(path), rows) for path, rows in objects)
    return sum(rows for name, rows in named if name is None or name.number > covered)


def is_due(manifest: Manifest, partition: PartitionId, now_ms: int, limits: Limits) -> bool:
    """Say whether opening at this manifest would read so much that a new snapshot is worth it."""
    info = snapshot_of(manifest)
    rows = rows_beyond(manifest, partition, 0 if info is None else info.manifest)
    if rows < limits.snapshot_rows_min:
        return False
    if info is None:
        return True
    # A clock that was set back does not tell how long it has been: then it is time, too.
    recent = 0 <= now_ms - info.created_at_ms < limits.snapshot_seconds * 1000
    return not recent and rows * _SHARE >= info.rows
