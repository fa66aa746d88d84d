"""The real disk's lock and directories, and that the simulated disk loses what it says it loses."""

import errno
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from durable_sessions.errors import LogError, LogLockedError
from durable_sessions.log.disk import LOCK_NAME, REAL_DISK, Disk, write_all
from durable_sessions.log.file import FileLog
from durable_sessions.testing.disk import SECTOR_BYTES, FaultyDisk
from tests.unit.log.support import FOLDER, opened, replayed, stored, written

HOLDER = """
import asyncio, pathlib, sys
from durable_sessions.log.file import FileLog

async def main():
    log = await FileLog.open(pathlib.Path(sys.argv[1]))
    await log.append(b"from the other process")
    print("ready", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@contextmanager
def another_process(directory: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", HOLDER, str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.anyio
async def test_a_second_process_is_locked_out_until_the_first_is_gone(tmp_path: Path) -> None:
    with another_process(tmp_path) as process:
        for _ in range(2):
            with pytest.raises(LogLockedError, match=f"in use by another process \\(pid {process.pid}\\)"):
                await FileLog.open(tmp_path)
    assert [payload for _, payload in await stored(tmp_path)] == [b"from the other process"]


def test_a_released_claim_names_nobody_and_leaves_a_successors_alone(tmp_path: Path) -> None:
    release = REAL_DISK.claim(tmp_path)
    lock = tmp_path / LOCK_NAME
    assert lock.read_text() == f"{os.getpid()}\n"
    release()
    assert lock.read_text() == ""
    successor = REAL_DISK.claim(tmp_path)
    release()
    assert lock.read_text() == f"{os.getpid()}\n"
    successor()


@pytest.mark.anyio
@pytest.mark.parametrize("disk", [REAL_DISK, FaultyDisk()], ids=["real", "simulated"])
async def test_one_process_opens_a_log_only_once(tmp_path: Path, disk: Disk) -> None:
    async with opened(tmp_path, disk) as log:
        await log.append(b"first")
        with pytest.raises(LogLockedError, match=f"pid {os.getpid()}"):
            await FileLog.open(tmp_path, disk=disk)
        assert len(await replayed(log)) == 1
    assert len(await stored(tmp_path, disk)) == 1


@pytest.mark.anyio
async def test_a_log_that_cannot_be_opened_is_not_left_locked(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").mkdir()
    (tmp_path / f"{1:020d}.log").write_bytes(b"rubbish" * 10)
    for _ in range(2):
        with pytest.raises(LogError, match="segment header is broken"):
            await FileLog.open(tmp_path)


@pytest.mark.anyio
async def test_new_directories_are_synced_into_their_parents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    folder = tmp_path / "a" / "b" / "log"
    await stored(folder)
    for parent in (tmp_path, tmp_path / "a", tmp_path / "a" / "b"):
        assert parent.stat().st_ino in synced
    synced.clear()
    await stored(folder)
    assert folder.parent.stat().st_ino in synced


@pytest.mark.anyio
async def test_each_new_directory_is_synced_before_the_next_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after any step, and then without power, the next process loses no directory that it used."""
    folder, durable = tmp_path / "a" / "b" / "log", {tmp_path}
    monkeypatch.setattr(os, "fsync", lambda fd: _note_synced(os.readlink(f"/proc/self/fd/{fd}"), durable))
    mkdir, left = Path.mkdir, 0

    def limited(path: Path, *arguments: Any, **options: Any) -> None:
        nonlocal left
        assert path.parent in durable, "a directory is made in one whose own entry may be lost"
        mkdir(path, *arguments, **options)
        left -= 1
        if left < 0:
            raise KilledError  # after the directory was made, before its entry is synced

    monkeypatch.setattr(Path, "mkdir", limited)
    for steps in range(3):
        left = steps
        with pytest.raises(KilledError):
            await stored(folder)
        left = 3
        await stored(folder)
        assert {tmp_path / "a", tmp_path / "a" / "b", folder} <= durable
        shutil.rmtree(tmp_path / "a")
        durable.intersection_update({tmp_path})


class KilledError(BaseException):
    pass


def _note_synced(directory: str, durable: set[Path]) -> None:
    durable.update(path for path in Path(directory).iterdir() if path.is_dir())


@pytest.mark.anyio
async def test_files_are_private(tmp_path: Path) -> None:
    await written(tmp_path / "log", [b"secret"])
    for path in (tmp_path / "log").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.anyio
async def test_a_directory_that_cannot_be_made_is_a_log_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LogError, match="cannot be opened"):
        await FileLog.open(tmp_path / "file" / "log")


@pytest.fixture(params=[False, True], ids=["real", "simulated"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return FaultyDisk() if request.param else REAL_DISK


def test_both_disks_do_the_same(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "file"
    file = disk.create(path)
    with pytest.raises(FileExistsError):
        disk.create(path)
    write_all(file, b"0123456789", 0)
    write_all(file, b"ab", 12)
    assert file.read(100, 0) == b"0123456789\0\0ab"
    assert file.read(3, 9) == b"9\0\0"
    assert file.read(3, 100) == b""
    file.truncate(4)
    file.sync()
    disk.sync_directory(tmp_path)
    file.close()
    assert disk.sizes(tmp_path) == {"file": 4}
    reader = disk.open(path)
    disk.unlink(path)
    assert reader.read(4, 0) == b"0123"
    for forbidden in (lambda: reader.write(b"x", 0), lambda: reader.truncate(0)):
        with pytest.raises(OSError, match=r"Bad file descriptor|Invalid argument"):
            forbidden()
    reader.close()
    with pytest.raises(FileNotFoundError):
        disk.open(path)
    with pytest.raises(FileNotFoundError):
        disk.unlink(path)
    assert disk.sizes(tmp_path) == {}


PATH = FOLDER / "file"


def prepared(seed: int, durable: bytes = b"durable") -> FaultyDisk:
    disk = FaultyDisk(seed)
    file = disk.create(PATH)
    write_all(file, durable, 0)
    file.sync()
    disk.sync_directory(FOLDER)
    return disk


def fates(write: bytes, at: int, *, fail_sync: bool = False) -> set[bytes]:
    """Return what may be left of a file after an unsynced write and a crash."""
    found = set()
    for seed in range(200):
        disk = prepared(seed)
        file = disk.open(PATH, writable=True)
        write_all(file, write, at)
        if fail_sync:
            disk.fail("sync")
            with pytest.raises(OSError, match="Input/output"):
                file.sync()
            assert file.read(len(write), at) == write
            file.sync()
        disk.crash()
        found.add(disk.contents()[PATH])
    return found


@pytest.mark.parametrize("fail_sync", [False, True])
def test_a_crash_tears_what_was_not_synced(fail_sync: bool) -> None:
    assert fates(b"WRITE", 7, fail_sync=fail_sync) == {b"durable" + b"WRITE"[:n] for n in range(6)}
    assert fates(b"W", 20, fail_sync=fail_sync) == {
        b"durable",
        b"durable" + bytes(13),
        b"durable" + bytes(13) + b"W",
    }
    edge = SECTOR_BYTES - 7
    assert b"durable" + bytes(edge) + b"b" * 9 in fates(b"a" * edge + b"b" * 9, 7, fail_sync=fail_sync)
    assert all(left.startswith(b"durable") for left in fates(b"x" * 2_000, 7, fail_sync=fail_sync))


def test_a_crash_may_undo_unsynced_creations_removals_and_cuts() -> None:
    found = set()
    for seed in range(50):
        disk = prepared(seed)
        disk.open(PATH, writable=True).truncate(3)
        disk.create(FOLDER / "new")
        disk.unlink(PATH)
        disk.crash()
        found.add(tuple((path.name, content) for path, content in disk.contents().items()))
    files = [(), (("file", b"durable"),), (("file", b"dur"),)]
    assert found == {(*file, *new) for file in files for new in ((), (("new", b""),))}


def test_open_files_and_claims_end_with_a_crash() -> None:
    disk = prepared(0)
    file = disk.open(PATH, writable=True)
    release = disk.claim(FOLDER)
    disk.crash()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.read(1, 0)
    disk.claim(FOLDER)
    release()
    with pytest.raises(LogLockedError):
        disk.claim(FOLDER)


def test_faults_come_when_they_were_ordered() -> None:
    disk = prepared(0)
    file = disk.open(PATH, writable=True)
    disk.fail("write", errno.ENOSPC, skip=1)
    disk.write_short(2, skip=1)
    assert file.write(b"abc", 0) == 3
    with pytest.raises(OSError, match="No space left"):
        file.write(b"def", 3)
    assert file.write(b"ghi", 3) == 2
    assert file.write(b"jkl", 5) == 3
    assert disk.contents()[PATH] == b"abcghjkl"
    disk.cut_power(after=1)
    file.sync()
    for dead in (file.sync, lambda: file.read(1, 0), lambda: disk.create(FOLDER / "x")):
        with pytest.raises(OSError, match="power is off"):
            dead()
    disk.crash()
    assert disk.contents()[PATH] == b"abcghjkl"
    assert disk.operations[-1] == "sync"
