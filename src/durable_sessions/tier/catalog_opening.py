"""Opening the local catalog at the newest manifest: as it is if it is of that manifest, else made anew."""

from pathlib import Path

from durable_sessions.bucket.cache import BlockCache
from durable_sessions.bucket.manifest import Manifest
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.limits import Limits
from durable_sessions.threads import CPU
from durable_sessions.tier.catalog import Catalog, Change
from durable_sessions.tier.catalog_rebuild import NamesOf, rebuild
from durable_sessions.tier.next_manifest import about


async def open_catalog(
    path: Path,
    bucket: ObjectStore,
    found: Manifest,
    manifest: Manifest,
    cache: BlockCache,
    names_of: NamesOf,
    limits: Limits,
) -> Catalog:
    """Open the catalog of a manifest; ``found`` is the one before it, if the claim changed nothing else."""
    catalog = Catalog.open(path, limits)
    try:
        known = catalog.reader.about()
        if known not in (about(manifest), about(found)):
            catalog.close()
            catalog = await CPU.run(Catalog.create, path, limits)  # it removes a large file
            await rebuild(catalog, bucket, manifest, cache, names_of)
        elif known != about(manifest):
            await catalog.apply(Change(about(manifest)))
    except BaseException:
        catalog.close()
        raise
    return catalog
