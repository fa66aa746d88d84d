"""A directory as bucket: durable before visible, one winner, nothing half."""

import asyncio
import os
import stat
import threading
from pathlib import Path

import pytest

from durable_sessions.bucket.local import STAGED_MS_MAX, STAGING, LocalStore
from durable_sessions.clock import SystemClock
from durable_sessions.errors import (
    BucketDeniedError,
    BucketError,
    BucketRefusedError,
    ObjectExistsError,
    ObjectNotFoundError,
)

pytestmark = pytest.mark.anyio


class Recorder:
    """Notes, in order, what reaches the disk: syncs (by inode) and names given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[tuple[str, int]] = []
        self.fail: str | None = None
        real_fsync, real_link, real_replace = os.fsync, os.link, os.replace

        def fsync(descriptor: int) -> None:
            self._step("sync", os.fstat(descriptor).st_ino)
            real_fsync(descriptor)

        def link(source: Path, target: Path) -> None:
            self._step("name", source.stat().st_ino)
            real_link(source, target)

        def replace(source: Path, target: Path) -> None:
            self._step("name", source.stat().st_ino)
            real_replace(source, target)

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(os, "link", link)
        monkeypatch.setattr(os, "replace", replace)

    def _step(self, what: str, inode: int) -> None:
        if self.fail == what:
            raise OSError(5, "Input/output error")
        self.steps.append((what, inode))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "outer" / "bucket"


def inode(path: Path) -> int:
    return path.stat().st_ino


async def test_content_is_synced_before_it_gets_its_name_and_the_name_before_the_answer(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await LocalStore.open(root)
    for write in (store.create, store.put):
        recorder = Recorder(monkeypatch)
        path = f"events/{write.__name__}/file"
        await write(path, b"content")
        file = inode(root / path)
        steps = recorder.steps
        assert steps.index(("sync", file)) < steps.index(("name", file))
        assert steps.index(("name", file)) < len(steps) - 1
        assert steps[-1] == ("sync", inode((root / path).parent))
        # New directories are synced into their parents before anything is put into them.
        assert steps.index(("sync", inode(root / "events"))) < steps.index(("name", file))


async def test_every_directory_on_the_way_is_synced_even_if_another_process_made_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await LocalStore.open(root)
    (root / "a" / "b" / "c").mkdir(parents=True)
    recorder = Recorder(monkeypatch)
    await store.create("a/b/c/file", b"")
    for directory in (root, root / "a", root / "a" / "b", root / "a" / "b" / "c"):
        assert ("sync", inode(directory)) in recorder.steps
    recorder.steps.clear()
    await store.create("a/b/c/second", b"")
    assert len(recorder.steps) == 3


async def test_opening_makes_every_name_durable_that_a_crash_may_have_left_unsynced(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await LocalStore.open(root)
    await store.create("a/b/file", b"x")
    recorder = Recorder(monkeypatch)
    await LocalStore.open(root)
    for directory in (root.parent, root, root / "a", root / "a" / "b"):
        assert ("sync", inode(directory)) in recorder.steps


async def test_new_directories_are_synced_into_their_parents(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(monkeypatch)
    await LocalStore.open(root)
    for directory in (tmp_path, tmp_path / "outer", root):
        assert ("sync", inode(directory)) in recorder.steps


@pytest.mark.parametrize("step", ["sync", "name"])
@pytest.mark.parametrize("operation", ["create", "put"])
async def test_a_write_that_fails_shows_nothing_and_leaves_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str, operation: str
) -> None:
    store = await LocalStore.open(root)
    await store.create("a/other", b"x")
    recorder = Recorder(monkeypatch)
    recorder.fail = step
    with pytest.raises(BucketError, match="Input/output error"):
        await getattr(store, operation)("a/file", b"content")
    assert [info.path for info in await store.list("")] == ["a/other"]
    assert list((root / STAGING).iterdir()) == []
    recorder.fail = None
    await getattr(store, operation)("a/file", b"content")
    assert await store.get("a/file") == b"content"


async def test_a_refused_create_has_made_the_winner_durable(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await LocalStore.open(root)
    await store.create("a/file", b"first")
    recorder = Recorder(monkeypatch)
    with pytest.raises(ObjectExistsError):
        await store.create("a/file", b"second")
    assert recorder.steps[-1] == ("sync", inode(root / "a"))
    assert await store.get("a/file") == b"first"
    assert list((root / STAGING).iterdir()) == []


async def test_of_sixteen_rivals_one_wins_and_nobody_sees_a_part(root: Path) -> None:
    stores = [await LocalStore.open(root) for _ in range(16)]
    contents = [bytes([n]) * 100_000 for n in range(16)]
    stop = threading.Event()
    seen: set[bytes] = set()

    def look() -> None:
        while not stop.is_set():
            try:
                seen.add((root / "race" / "file").read_bytes())
            except FileNotFoundError:
                continue

    looker = threading.Thread(target=look)
    looker.start()
    outcomes = await asyncio.gather(
        *(store.create("race/file", data) for store, data in zip(stores, contents, strict=True)),
        return_exceptions=True,
    )
    stop.set()
    looker.join()
    winners = [n for n, outcome in enumerate(outcomes) if outcome is None]
    assert len(winners) == 1
    assert all(isinstance(outcome, ObjectExistsError) for outcome in outcomes if outcome is not None)
    assert seen <= {contents[winners[0]]}
    assert await stores[0].get("race/file") == contents[winners[0]]


async def test_ranges_end_where_the_object_ends(root: Path) -> None:
    store = await LocalStore.open(root)
    await store.create("a", b"0123456789")
    assert await store.get_range("a", 3, 4) == b"3456"
    assert await store.get_range("a", 8, 4) == b"89"
    assert await store.get_range("a", 20, 4) == b""
    assert await store.get_range("a", 3, 0) == b""
    await store.create("empty", b"")
    assert await store.get("empty") == b""


async def test_missing_objects_and_directories_are_not_found(root: Path) -> None:
    store = await LocalStore.open(root)
    await store.create("a/b", b"x")
    for path in ("nothing", "a", "a/b/c", "x/y/z"):
        with pytest.raises(ObjectNotFoundError, match=path):
            await store.get(path)
    await store.delete(["nothing", "a/b/c", "x/y/z", "a/b"])
    assert await store.list("") == []


async def test_listings_are_sorted_by_whole_segments_and_show_objects_only(root: Path) -> None:
    store = await LocalStore.open(root)
    for path in ("b/2", "b/1", "a", "bb/1", "b/c/d"):
        await store.create(path, path.encode())
    (root / STAGING / "object-left").write_bytes(b"half")
    (root / ".DS_Store").write_bytes(b"")
    listing = await store.list("")
    assert [info.path for info in listing] == ["a", "b/1", "b/2", "b/c/d", "bb/1"]
    assert [info.size for info in listing] == [1, 3, 3, 5, 4]
    assert all(abs(info.modified_at_ms - SystemClock().now_ms()) < 60_000 for info in listing)
    assert [info.path for info in await store.list("b")] == ["b/1", "b/2", "b/c/d"]
    assert [info.path for info in await store.list("b/")] == ["b/1", "b/2", "b/c/d"]
    assert await store.list("a") == []
    assert await store.list("nothing") == []


async def test_what_a_crash_left_in_staging_is_removed_after_a_day(root: Path) -> None:
    await LocalStore.open(root)
    old, new = root / STAGING / "object-old", root / STAGING / "object-new"
    for path in (old, new):
        path.write_bytes(b"half")
    seconds = SystemClock().now_ms() / 1000 - STAGED_MS_MAX / 1000 - 60
    os.utime(old, (seconds, seconds))
    await LocalStore.open(root)
    assert (old.exists(), new.exists()) == (False, True)


async def test_a_directory_that_somebody_removed_is_made_again(root: Path) -> None:
    store = await LocalStore.open(root)
    await store.create("a/b/file", b"x")
    await store.delete(["a/b/file"])
    (root / "a" / "b").rmdir()
    with pytest.raises(BucketError, match="No such file"):
        await store.create("a/b/file", b"x")
    await store.create("a/b/file", b"x")


async def test_files_are_private(root: Path) -> None:
    store = await LocalStore.open(root)
    await store.create("a/file", b"secret")
    assert stat.S_IMODE((root / "a" / "file").stat().st_mode) == 0o600
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o700


async def test_a_place_that_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BucketRefusedError, match="cannot be opened"):
        await LocalStore.open(tmp_path / "file" / "bucket")


async def test_permission_is_its_own_failure(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await LocalStore.open(root)

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "link", refused)
    with pytest.raises(BucketDeniedError, match="Permission denied"):
        await store.create("a", b"x")


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", ".hidden", ""])
async def test_paths_stay_inside(root: Path, path: str) -> None:
    store = await LocalStore.open(root)
    with pytest.raises(AssertionError):
        await store.get(path)
