"""Opens the local catalog at the newest manifest.

A catalog of another manifest is replaced: by the newest snapshot and the changes since it, or by a rebuild
from everything in the bucket.
"""

from pathlib import Path

from durable_sessions.bucket.cache import BlockCache
from durable_sessions.bucket.manifest import Manifest
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.limits import Limits
from durable_sessions.storage.indexed import IndexOf
from durable_sessions.threads import CPU
from durable_sessions.tier.catalog import Catalog, Change
from durable_sessions.tier.catalog_rebuild import NamesOf, rebuild
from durable_sessions.tier.next_manifest import about
from durable_sessions.tier.snapshot_restore import restore


async def open_catalog(
    path: Path,
    bucket: ObjectStore,
    found: Manifest,
    manifest: Manifest,
    cache: BlockCache,
    names_of: NamesOf,
    index_of: IndexOf,
    limits: Limits,
) -> Catalog:
    """Open the catalog at ``manifest``; ``found`` is the manifest before it, which has the same contents."""
    catalog = Catalog.open(path, limits, index_of)
    try:
        known = catalog.reader.about()
        if known not in (about(manifest), about(found)):
            catalog.close()
            restored = await restore(path, bucket, manifest, cache, names_of, index_of, limits)
            if restored is not None:
                return restored
            # In a thread: it may remove a large file.
            catalog = await CPU.run(Catalog.create, path, limits, index_of)
            await rebuild(catalog, bucket, manifest, cache, names_of)
        elif known != about(manifest):
            await catalog.apply(Change(about(manifest)))
    except BaseException:
        catalog.close()
        raise
    return catalog
