"""Bringing a catalog from one manifest to a later one, by what only the later one refers to."""

from durable_sessions.bucket.cache import BlockCache
from durable_sessions.bucket.manifest import Manifest
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.tier.catalog import Catalog, Change
from durable_sessions.tier.catalog_rebuild import UNFINISHED, NamesOf, add_checkpoints, add_segments
from durable_sessions.tier.next_manifest import about


async def advance(
    catalog: Catalog,
    bucket: ObjectStore,
    before: Manifest,
    after: Manifest,
    cache: BlockCache,
    names_of: NamesOf,
) -> None:
    """Make a catalog as of ``before`` the same that a rebuild at ``after`` would make.

    Names are told only from segments that ``before`` did not have. A stream that went meanwhile makes its
    segments dirty at once, as in a rebuild. ValueError if the one manifest does not follow the other.
    """
    _require_follower(before, after)
    known = before.checkpoints
    if after.checkpoints[: len(known)] == known:
        await add_checkpoints(catalog, bucket, after.checkpoints[len(known) :])
    else:
        # A full checkpoint has replaced those that we know: what it does not mention is gone. The numbers are
        # asked for first, because a new stream takes the row of an old one that had the same path.
        numbers = await catalog.run(catalog.writer.all_numbers)
        there = await add_checkpoints(catalog, bucket, after.checkpoints)
        await catalog.run(_remove, catalog, numbers, there)
    replaced = _paths(before) - _paths(after)
    await catalog.apply(Change(UNFINISHED, replaced=sorted(replaced)))
    old = {info.path for info in before.segments}
    added = [info for info in after.segments if info.path not in old]
    await add_segments(catalog, bucket, added, cache, names_of)
    await catalog.apply(Change(about(after)))


def _remove(catalog: Catalog, numbers: set[int], there: set[int]) -> None:
    catalog.apply_here(Change(UNFINISHED, removed=sorted(numbers - there)))


def _paths(manifest: Manifest) -> set[str]:
    return {info.path for info in manifest.segments} | {info.path for info in manifest.checkpoints}


def _require_follower(before: Manifest, after: Manifest) -> None:
    """Refuse a manifest of another bucket, or of a history that a repair has ended."""
    later = (
        before.number <= after.number
        and before.flushed_through <= after.flushed_through
        and before.next_stream <= after.next_stream
    )
    digests = {info.path: info.sha256 for info in before.segments}
    same = all(digests.get(info.path, info.sha256) == info.sha256 for info in after.segments)
    if not (later and same):
        raise ValueError(f"it is of manifest {before.number}, which manifest {after.number} does not follow")
