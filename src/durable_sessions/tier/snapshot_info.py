"""How a manifest refers to the catalog's snapshot, and when a new snapshot is due."""

import msgspec

from durable_sessions.bucket.layout import FlushedNames
from durable_sessions.bucket.manifest import Manifest
from durable_sessions.limits import Limits
from durable_sessions.partition_id import PartitionId

SNAPSHOT = "catalog_snapshot"
"""The member of a manifest's ``extra`` that says where the newest snapshot of the catalog is."""
_SHARE = 8
"""A snapshot is due when one part in this many of the catalog has changed. This bounds both costs: opening
reads about that part besides the snapshot, and snapshots write at most this many times what has changed."""


class SnapshotInfo(msgspec.Struct, frozen=True):
    """A snapshot of the catalog as of a manifest; ``rows`` is the number of streams in it."""

    path: str
    bytes: int
    sha256: str
    manifest: int
    rows: int
    created_at_ms: int


def snapshot_of(manifest: Manifest) -> SnapshotInfo | None:
    """Return the snapshot that a manifest names; None if there is none, or none in a format known here."""
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
    """Return how many rows must be read to open at a manifest, given a catalog as of manifest ``covered``."""
    names = FlushedNames(partition)
    objects = [(info.path, info.rows) for info in manifest.checkpoints]
    objects += [(info.path, info.streams) for info in manifest.segments]
    named = ((names.parse(path), rows) for path, rows in objects)
    # Objects with names of an older generation are there since the first manifest.
    return sum(rows for name, rows in named if (1 if name is None else name.number) > covered)


def is_due(manifest: Manifest, partition: PartitionId, now_ms: int, limits: Limits) -> bool:
    """Return whether opening at this manifest would read so much that a new snapshot is worthwhile."""
    info = snapshot_of(manifest)
    rows = rows_beyond(manifest, partition, 0 if info is None else info.manifest)
    if rows < limits.snapshot_rows_min:
        return False
    if info is None:
        return True
    # If the clock was set back, the snapshot's age is unknown, and it does not count as recent.
    recent = 0 <= now_ms - info.created_at_ms < limits.snapshot_seconds * 1000
    return not recent and rows * _SHARE >= info.rows
