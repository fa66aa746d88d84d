"""Brings a catalog from one manifest to a later one by reading only the objects that are new in it."""

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
    """Bring a catalog from ``before`` to ``after``, with the same result as a rebuild at ``after``.

    Names are read only from segments that ``before`` did not have. The segments of streams removed since
    become overdue for a rewrite, as in a rebuild. ValueError if ``after`` does not follow ``before``.
    """
    _require_follower(before, after)
    known = before.checkpoints
    if after.checkpoints[: len(known)] == known:
        await add_checkpoints(catalog, bucket, after.checkpoints[len(known) :])
    else:
        # A full checkpoint has replaced the known ones: streams that it does not list are gone. The old
        # numbers are read first, because a new stream replaces the row of an old one with the same path.
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
    """Refuse a manifest of another bucket, or of a history that a repair has replaced."""
    later = (
        before.number <= after.number
        and before.flushed_through <= after.flushed_through
        and before.next_stream <= after.next_stream
    )
    digests = {info.path: info.sha256 for info in before.segments}
    same = all(digests.get(info.path, info.sha256) == info.sha256 for info in after.segments)
    if not (later and same):
        raise ValueError(f"it is of manifest {before.number}, which manifest {after.number} does not follow")
