"""Snapshots of the catalog: opening from one gives what a rebuild gives, and no fault of one matters."""

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.bucket.cache import BlockCache
from durable_sessions.bucket.layout import snapshots_prefix
from durable_sessions.bucket.manifest import CheckpointInfo, Manifest, decode_manifest, encode_manifest
from durable_sessions.errors import BucketError, DurableSessionsError
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.retention_policy import RetentionPolicy
from durable_sessions.storage.retention import Retention
from durable_sessions.tier import catalog_opening, snapshot_restore
from durable_sessions.tier.catalog import Catalog
from durable_sessions.tier.catalog_advance import advance
from durable_sessions.tier.catalog_rebuild import no_names, rebuild
from durable_sessions.tier.snapshot_info import SnapshotInfo, is_due, rows_beyond, snapshot_of, with_snapshot
from tests.unit.storage.world import LIMITS, World

EAGER = replace(LIMITS, snapshot_rows_min=1, snapshot_seconds=0.0)
WAIT_SECONDS = 60.0


class Openings:
    """Counts how catalogs are made: of a snapshot, or of everything."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.restored = self.rebuilt = 0

        async def restoring(*arguments: object) -> object:
            found = await restore(*arguments)  # type: ignore[arg-type]
            self.restored += found is not None
            return found

        async def rebuilding(*arguments: object) -> None:
            self.rebuilt += 1
            await rebuild(*arguments)  # type: ignore[arg-type]

        restore = snapshot_restore.restore
        patch.setattr(catalog_opening, "restore", restoring)
        patch.setattr(catalog_opening, "rebuild", rebuilding)


def snapshots(world: World) -> list[str]:
    return [path for path in world.store.objects if path.startswith(snapshots_prefix(ONLY_PARTITION))]


async def filled(folder: Path, limits: object = EAGER) -> World:
    world = await World(folder, limits).open()  # type: ignore[arg-type]
    for number in range(5):
        await world.create(f"s{number}", b"[1,2]", ttl_seconds=1000)
    await world.flush()
    await world.maintain()
    return world


async def changed(world: World) -> None:
    await world.append("s1", b"[3]")
    await world.delete("s2")
    await world.create("s2", b"[9]")
    await world.create("new", b"[7]")
    await world.flush()


def run(body: Callable[[], object]) -> None:
    asyncio.run(body())  # type: ignore[arg-type]


def test_opening_without_a_catalog_takes_the_snapshot_and_what_has_changed_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        world = await filled(tmp_path)
        assert len(snapshots(world)) == 1
        await changed(world)
        known, openings = world.catalog(), Openings(monkeypatch)
        await world.reopen(forget_catalog=True)
        assert (openings.restored, openings.rebuilt) == (1, 0)
        assert world.catalog() == known
        assert await world.read("s1") == b"1,2,3,"
        assert await world.read("s2") == b"9,"
        await world.close()

    run(main)


def test_a_catalog_from_before_the_machine_started_is_replaced_by_the_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        world = await filled(tmp_path)
        known, openings = world.catalog(), Openings(monkeypatch)
        monkeypatch.setattr("durable_sessions.tier.catalog.boot_id", lambda: "another")
        await world.reopen()
        assert (openings.restored, openings.rebuilt) == (1, 0)
        assert world.catalog() == known
        await world.close()

    run(main)


@pytest.mark.parametrize("harm", ["missing", "damaged", "cut", "of another bucket", "of another manifest"])
def test_a_snapshot_that_cannot_be_used_only_makes_opening_slower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    async def main() -> None:
        world = await filled(tmp_path / "one")
        await changed(world)
        known, openings = world.catalog(), Openings(monkeypatch)
        (path,) = snapshots(world)
        data = world.store.objects[path]
        if harm == "missing":
            del world.store.objects[path]
        elif harm == "damaged":
            world.store.objects[path] = data[:50] + b"?" + data[51:]
        elif harm == "cut":
            world.store.objects[path] = data[:-1]
        elif harm == "of another bucket":
            other = await filled(tmp_path / "two")
            (theirs,) = snapshots(other)
            world.store.objects[path] = other.store.objects[theirs]
            await other.close()
        else:
            info = snapshot_of(world.archive.manifest)
            assert info is not None
            wrong = msgspec.structs.replace(info, manifest=info.manifest + 1)
            monkeypatch.setattr("durable_sessions.tier.snapshot_restore.snapshot_of", lambda _: wrong)
        await world.reopen(forget_catalog=True)
        assert (openings.restored, openings.rebuilt) == (0, 1)
        assert world.catalog() == known
        await world.close()

    run(main)


def test_a_snapshot_of_another_history_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        world = await filled(tmp_path)
        manifest = world.archive.manifest
        segment = msgspec.structs.replace(manifest.segments[0], sha256="0" * 64)
        others = [
            msgspec.structs.replace(manifest, number=manifest.number + 1),
            msgspec.structs.replace(manifest, flushed_through=manifest.flushed_through + 1),
            msgspec.structs.replace(manifest, segments=(segment, *manifest.segments[1:])),
        ]
        for other in others:
            with pytest.raises(ValueError, match="does not follow"):
                await advance(
                    world.archive.catalog, world.store, other, manifest, world.archive.cache, no_names
                )
        await world.close()

    run(main)


def test_what_is_deleted_leaves_the_snapshots_in_time(tmp_path: Path) -> None:
    async def main() -> None:
        world = await filled(tmp_path)
        (first,) = snapshots(world)
        await world.delete("s3")
        await world.flush()
        await world.maintain_for(EAGER.delete_within_seconds)
        assert first not in world.store.objects
        (later,) = snapshots(world)
        catalog, _ = Catalog.unpack(tmp_path / "unpacked.sqlite", world.store.objects[later], EAGER)
        assert [stream.key.path for stream in catalog.reader.streams()] == ["s0", "s1", "s2", "s4"]
        catalog.close()
        assert b"s3" not in (tmp_path / "unpacked.sqlite").read_bytes()
        await world.close()

    run(main)


def test_a_replaced_snapshot_is_swept_and_so_is_one_that_nothing_names(tmp_path: Path) -> None:
    async def main() -> None:
        world = await filled(tmp_path)
        (first,) = snapshots(world)
        world.faults.order("fail", "create", path="manifest", times=4)
        await world.create("more", b"[1]")
        with pytest.raises(BucketError):
            await world.flush()
        world.faults.heal()
        await world.flush()
        await world.maintain_for(2 * EAGER.orphan_grace_seconds)
        info = snapshot_of(world.archive.manifest)
        assert info is not None
        assert snapshots(world) == [info.path]
        assert info.path != first
        await world.close()

    run(main)


def test_retention_is_told_anew_after_a_snapshot(tmp_path: Path) -> None:
    async def main() -> None:
        world = World(tmp_path, EAGER, Retention([RetentionPolicy(prefix="s", idle_days=1)]))
        await world.open()
        await world.create("s0", b"[1]")
        await world.flush()
        await world.maintain()
        assert len(snapshots(world)) == 1
        await world.create("s1", b"[1]")
        await world.flush()
        known = world.catalog()
        await world.reopen(forget_catalog=True)
        assert world.catalog() == known
        assert [row[6] for row in known["streams"]] == [row[6] for row in world.catalog()["streams"]]
        assert None not in [row[6] for row in world.catalog()["streams"]]
        await world.close()

    run(main)


def test_a_catalog_beyond_the_limit_has_no_snapshot(tmp_path: Path) -> None:
    async def main() -> None:
        world = await filled(tmp_path, replace(EAGER, snapshot_rows_min=1_000_000))
        manifest, catalog = msgspec.json.encode("manifest"), world.archive.catalog
        packed = catalog.pack(manifest, EAGER.snapshot_bytes_max)
        assert packed is not None
        Catalog.unpack(tmp_path / "copy.sqlite", packed, EAGER)[0].close()
        size = (tmp_path / "copy.sqlite").stat().st_size
        pages = catalog.reader._connection.execute("pragma page_count").fetchone()[0] * 4096
        assert catalog.pack(manifest, pages) is not None
        assert catalog.pack(manifest, pages - 1) is None
        with pytest.raises(ValueError, match="snapshot_bytes_max"):
            Catalog.unpack(tmp_path / "copy.sqlite", packed, replace(EAGER, snapshot_bytes_max=size // 2))
        await world.close()

    run(main)


@pytest.mark.parametrize("error", [OSError(28, "No space left"), sqlite3.OperationalError("disk is full")])
def test_a_disk_without_room_for_a_snapshot_does_not_keep_the_bucket_from_being_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    tries: list[int] = []

    def pack(*_: object) -> bytes:
        tries.append(1)
        raise error

    monkeypatch.setattr(Catalog, "pack", pack)

    async def main() -> None:
        world = await filled(tmp_path, replace(EAGER, snapshot_seconds=600.0))
        assert snapshots(world) == []
        assert world.maintenance._swept_at_ms is not None
        await world.maintain()
        assert len(tries) == 1, "it is tried again only after a while"
        world.clock.advance(600)
        await world.maintain()
        assert len(tries) == 2
        await world.close()

    run(main)


class Uploads:
    """Holds every upload of a snapshot until :meth:`go_on` is called."""

    def __init__(self, world: World) -> None:
        self._create = world.store.create
        self._going_on = asyncio.Event()
        self.begun = asyncio.Event()
        world.store.create = self._held  # type: ignore[method-assign]

    async def _held(self, path: str, data: bytes) -> None:
        if path.endswith(".snapshot"):
            self.begun.set()
            await self._going_on.wait()
        await self._create(path, data)

    def go_on(self) -> None:
        self._going_on.set()


async def until_uploading(world: World) -> tuple[Uploads, "asyncio.Task[int]"]:
    """Let a snapshot become due, and return while it is being uploaded."""
    uploads = Uploads(world)
    await world.create("more", b"[1]")
    await world.flush()
    maintaining = asyncio.create_task(world.maintain())
    await uploads.begun.wait()
    return uploads, maintaining


def test_a_flush_does_not_wait_for_the_upload_of_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        world = await filled(tmp_path)
        (first,) = snapshots(world)
        uploads, maintaining = await until_uploading(world)
        packed = world.archive.manifest.number
        async with asyncio.timeout(WAIT_SECONDS):
            await changed(world)
        assert world.archive.manifest.number == packed + 1, "the flush was committed beside the upload"
        assert not maintaining.done()
        uploads.go_on()
        await maintaining
        info = snapshot_of(world.archive.manifest)
        assert info is not None
        assert info.path != first
        assert first in [one.path for one in world.archive.manifest.garbage]
        known, openings = world.catalog(), Openings(monkeypatch)
        await world.reopen(forget_catalog=True)
        assert (openings.restored, openings.rebuilt) == (1, 0)
        assert world.catalog() == known, "the snapshot is older than the flush, whose changes are added"
        await world.close()

    run(main)


def test_a_snapshot_older_than_a_full_checkpoint_is_not_committed(tmp_path: Path) -> None:
    """The full checkpoint may be there because something was deleted that the snapshot still has."""

    async def main() -> None:
        world = await filled(tmp_path)
        uploads, maintaining = await until_uploading(world)
        await world.delete("s3")
        await world.flush()
        world.clock.advance(EAGER.delete_within_seconds)
        compactor = world.maintenance.compactor
        while not compactor.full_checkpoints:
            assert await compactor.step()
        uploads.go_on()
        await maintaining
        assert snapshot_of(world.archive.manifest) is None
        await world.maintain_for(2 * EAGER.orphan_grace_seconds)
        later = snapshot_of(world.archive.manifest)
        assert later is not None
        assert snapshots(world) == [later.path], "what was uploaded in vain is swept"
        catalog, _ = Catalog.unpack(tmp_path / "unpacked.sqlite", world.store.objects[later.path], EAGER)
        assert [stream.key.path for stream in catalog.reader.streams()] == ["s0", "s1", "s2", "s4", "more"]
        catalog.close()
        await world.close()

    run(main)


def test_a_snapshot_is_not_committed_while_the_outcome_of_a_flush_is_unknown(tmp_path: Path) -> None:
    async def main() -> None:
        world = await filled(tmp_path)
        (first,) = snapshots(world)
        uploads, maintaining = await until_uploading(world)
        await world.append("s1", b"[3]")
        world.faults.order("fail", "create", path="manifest")
        with pytest.raises(BucketError):
            await world.flush()
        uploads.go_on()
        await maintaining
        info = snapshot_of(world.archive.manifest)
        assert info is not None
        assert info.path == first
        assert world.maintenance.snapshots.snapshots == 1
        await world.flush()
        await world.maintain()
        assert world.maintenance.snapshots.snapshots == 2
        await world.close()

    run(main)


def test_a_bucket_that_takes_no_snapshot_is_swept_all_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        limits = replace(EAGER, snapshot_seconds=600.0)
        world = World(tmp_path, limits)
        world.faults.order("fail", "create", path=".snapshot", times=2)
        await world.open()
        writer = world.maintenance.snapshots
        await world.create("s0", b"[1]")
        await world.flush()
        await world.maintain()
        assert snapshots(world) == []
        assert (writer.snapshots, writer.failures, writer.age_seconds) == (0, 1, None)
        assert world.maintenance._swept_at_ms is not None
        await world.maintain()
        assert writer.failures == 1, "it is tried again only after a while"
        world.clock.advance(600)
        await world.maintain()
        assert (writer.snapshots, writer.failures) == (0, 2)
        world.clock.advance(600)
        await world.maintain()
        assert (writer.snapshots, writer.failures, writer.age_seconds) == (1, 2, 0.0)
        world.clock.advance(7)
        assert writer.age_seconds == 7.0
        world.clock.advance(-9)
        assert writer.age_seconds == 0.0, "the clock was set back"
        await world.close()

    run(main)


def test_a_snapshot_is_due_by_what_opening_would_read_and_by_age() -> None:
    checkpoint = CheckpointInfo(path="sessions/00-000000000005.parquet", bytes=1, rows=100, sha256="")
    manifest = Manifest(
        number=5, writer="", flushed_through=1, next_stream=1, created_at_ms=0, checkpoints=(checkpoint,)
    )
    limits = replace(LIMITS, snapshot_rows_min=100, snapshot_seconds=10.0)
    assert rows_beyond(manifest, ONLY_PARTITION, 4) == 100
    assert rows_beyond(manifest, ONLY_PARTITION, 5) == 0
    assert is_due(manifest, ONLY_PARTITION, 0, limits)
    assert not is_due(manifest, ONLY_PARTITION, 0, replace(limits, snapshot_rows_min=101))
    old = SnapshotInfo(path="x", bytes=1, sha256="", manifest=4, rows=800, created_at_ms=1_000)
    known = with_snapshot(manifest, old)
    assert not is_due(known, ONLY_PARTITION, 10_999, limits)
    assert is_due(known, ONLY_PARTITION, 11_000, limits)
    assert is_due(known, ONLY_PARTITION, 999, limits)  # the clock was set back
    larger = with_snapshot(manifest, msgspec.structs.replace(old, rows=801))
    assert not is_due(larger, ONLY_PARTITION, 11_000, limits)


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["create", "append", "delete", "fork", "flush", "flush", "maintain", "pack"]),
        st.integers(0, 3),
    ),
    max_size=30,
)


@settings(max_examples=25, deadline=None)
@given(operations=OPERATIONS)
def test_advancing_gives_what_a_rebuild_gives(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, int]]
) -> None:
    limits = replace(EAGER, compaction_segments_min=2, checkpoints_max=2, snapshot_rows_min=1_000_000)

    async def main() -> None:
        folder = tmp_path_factory.mktemp("advance")
        world = await World(folder, limits).open()
        packed: list[bytes] = []
        for name, number in operations:
            if name == "pack":
                data = world.archive.catalog.pack(encode_manifest(world.archive.manifest), 1 << 30)
                assert data is not None
                packed.append(data)
                continue
            await perform(world, name, f"s{number}")
        await world.flush()
        manifest = world.archive.manifest
        rebuilt = Catalog.create(folder / "rebuilt.sqlite", limits)
        cache = BlockCache(limits.block_cache_bytes_max)
        await rebuild(rebuilt, world.store, manifest, cache, no_names)
        for data in packed:
            catalog, encoded = Catalog.unpack(folder / "advanced.sqlite", data, limits)
            await advance(catalog, world.store, decode_manifest(encoded, ""), manifest, cache, no_names)
            assert tables(catalog) == tables(rebuilt)
            catalog.close()
        rebuilt.close()
        await cache.close()
        await world.close()
        shutil.rmtree(folder)

    asyncio.run(main())


async def perform(world: World, name: str, path: str) -> None:
    try:
        if name == "create":
            await world.create(path, b"[1,2]")
        elif name == "append":
            await world.append(path, b"[3]")
        elif name == "delete":
            await world.delete(path)
        elif name == "fork":
            await world.fork(f"fork-{path}", path)
        elif name == "flush":
            await world.flush()
        else:
            world.clock.advance(60.0)
            await world.maintain()
    except DurableSessionsError:
        pass  # there is no such stream, or it is gone


def tables(catalog: Catalog) -> list[list[tuple[object, ...]]]:
    """Return all that a catalog says, but not since when something is dirty."""
    columns = {"about": "manifest, flushed_through", "dirty": "path", "segments": "*"}
    columns |= {"streams": "*", "extents": "*", "names": "*"}
    return [
        catalog.reader._connection.execute(f"select {what} from {table} order by 1, 2").fetchall()
        if table != "dirty"
        else catalog.reader._connection.execute("select path from dirty order by 1").fetchall()
        for table, what in columns.items()
    ]
