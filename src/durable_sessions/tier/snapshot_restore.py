"""Restores the local catalog from a snapshot in the bucket."""

import sqlite3
from pathlib import Path

import msgspec
import pyarrow as pa
import structlog

from durable_sessions.bucket.cache import BlockCache
from durable_sessions.bucket.fetch import fetch_object
from durable_sessions.bucket.manifest import Manifest, decode_manifest
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.errors import DurableSessionsError, ObjectDamagedError
from durable_sessions.limits import Limits
from durable_sessions.storage.indexed import IndexOf, nothing_indexed
from durable_sessions.threads import CPU
from durable_sessions.tier.catalog import Catalog
from durable_sessions.tier.catalog_advance import advance
from durable_sessions.tier.catalog_rebuild import NamesOf
from durable_sessions.tier.snapshot_info import SnapshotInfo, snapshot_of

logger = structlog.get_logger(__name__)

UNUSABLE = (DurableSessionsError, sqlite3.Error, msgspec.MsgspecError, pa.ArrowException, ValueError, OSError)
"""What reading an unusable snapshot may raise."""


async def restore(
    path: Path,
    bucket: ObjectStore,
    manifest: Manifest,
    cache: BlockCache,
    names_of: NamesOf,
    index_of: IndexOf,
    limits: Limits,
) -> Catalog | None:
    """Restore the catalog of a manifest from the snapshot that it names; None if that cannot be used.

    An unusable snapshot is logged and not raised: a rebuild gives the same catalog.
    """
    info, catalog = snapshot_of(manifest), None
    if info is None:
        return None
    try:
        data = await fetch_snapshot(bucket, info, limits)
        catalog, before = await CPU.run(unpacked, path, data, info, limits, index_of)
        await advance(catalog, bucket, before, manifest, cache, names_of)
    except UNUSABLE as error:
        logger.warning("catalog_snapshot_not_used", path=info.path, reason=str(error) or repr(error))
        if catalog is not None:
            catalog.close()
        return None
    except BaseException:
        if catalog is not None:
            catalog.close()
        raise
    return catalog


async def fetch_snapshot(bucket: ObjectStore, info: SnapshotInfo, limits: Limits) -> bytes:
    """Return the snapshot's bytes, verified; ValueError if they are too many."""
    if info.bytes > limits.snapshot_bytes_max:
        raise ValueError(f"it has {info.bytes} bytes, more than snapshot_bytes_max")
    return await fetch_object(bucket, info.path, info.bytes, info.sha256)


def unpacked(
    path: Path, data: bytes, info: SnapshotInfo, limits: Limits, index_of: IndexOf = nothing_indexed
) -> tuple[Catalog, Manifest]:
    """Unpack a snapshot to a file at ``path``; return the catalog and the manifest that it belongs to."""
    catalog, encoded = Catalog.unpack(path, data, limits, index_of)
    try:
        manifest = decode_manifest(encoded, info.path)
        if manifest.number != info.manifest:
            raise ObjectDamagedError(path=info.path, problem=f"it is of manifest {manifest.number}")
    except BaseException:
        catalog.close()
        raise
    return catalog, manifest
