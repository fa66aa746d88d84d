"""A directory as object store: an object is durable before it gets its name."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TypeVar

from durable_sessions.bucket.objects import Listing, ObjectInfo
from durable_sessions.clock import Clock, SystemClock
from durable_sessions.directories import make_directory, sync_directory
from durable_sessions.errors import (
    BucketDeniedError,
    BucketError,
    BucketRefusedError,
    ObjectExistsError,
    ObjectNotFoundError,
)
from durable_sessions.ids import Ids, RandomIds
from durable_sessions.threads import BUCKET_READS, BUCKET_WRITES, Pool

STAGING = ".staging"
"""Where objects are written before they get their name; no object's name begins with a dot."""
STAGED_MS_MAX = 24 * 3600 * 1000
"""What has lain in the staging directory for longer was left behind by a crash."""

_Answer = TypeVar("_Answer")


class LocalStore:
    """Objects as files. Content is written elsewhere, synced, and then linked under its name."""

    def __init__(self, root: Path, ids: Ids) -> None:
        self._root = root.absolute()
        self._ids = ids
        self._made: set[Path] = set()

    @classmethod
    async def open(cls, root: Path, *, ids: Ids | None = None, clock: Clock | None = None) -> "LocalStore":
        """Open a directory, which is created if it is missing; every entry in it is durable afterwards."""
        store = cls(root, ids or RandomIds())
        try:
            await store._in_thread(BUCKET_WRITES, store._prepare, (clock or SystemClock()).now_ms())
        except (BucketError, ObjectNotFoundError) as error:
            raise BucketRefusedError(
                problem=f"{root} cannot be opened ({error})",
                remedy="Choose a directory that can be written to.",
            ) from error
        return store

    async def create(self, path: str, data: bytes) -> None:
        """Create an object durably, or raise ObjectExistsError; of concurrent callers exactly one wins."""
        await self._in_thread(BUCKET_WRITES, self._write, path, data, os.link)

    async def put(self, path: str, data: bytes) -> None:
        """Write an object durably, whether it exists or not."""
        await self._in_thread(BUCKET_WRITES, self._write, path, data, os.replace)

    async def get(self, path: str) -> bytes:
        """Return an object's content, or raise ObjectNotFoundError."""
        return await self._in_thread(BUCKET_READS, self._read, path, 0, None)

    async def get_range(self, path: str, start: int, length: int) -> bytes:
        """Return ``length`` bytes from ``start``, or fewer only where the object ends."""
        return await self._in_thread(BUCKET_READS, self._read, path, start, length)

    async def delete(self, paths: Sequence[str]) -> None:
        """Remove objects; missing ones are ignored."""
        await self._in_thread(BUCKET_WRITES, self._delete, paths)

    async def list(self, prefix: str, *, after: str = "") -> Listing:
        """Return all objects under the path ``prefix`` whose path sorts behind ``after``, sorted by path."""
        return await self._in_thread(BUCKET_READS, self._list, prefix, after)

    # In a worker thread -----------------------------------------------------------------

    async def _in_thread(self, pool: Pool, work: Callable[..., _Answer], *arguments: object) -> _Answer:
        with _mapped():
            return await pool.run(work, *arguments)

    def _prepare(self, now_ms: int) -> None:
        make_directory(self._root)
        if os.access(self._root.parent, os.R_OK):
            sync_directory(self._root.parent)
        staging = self._root / STAGING
        staging.mkdir(mode=0o700, exist_ok=True)
        for entry in os.scandir(staging):
            if entry.stat().st_mtime_ns // 1_000_000 < now_ms - STAGED_MS_MAX:
                _unlink(Path(entry.path))
        # A process may have ended between naming an object and syncing its directory. What is
        # read from now on may be acted upon, so that it must not vanish with the power.
        for directory, _, _ in os.walk(self._root):
            sync_directory(Path(directory))

    def _write(self, path: str, data: bytes, give_name: Callable[[Path, Path], None]) -> None:
        target = self._file(path)
        self._make(target.parent)
        # Content first, then the name: a crash in between leaves an object that nobody can see, never half of
        # one. A link, unlike a rename, fails if the name is taken, and so exactly one creator wins.
        staged = self._root / STAGING / self._ids.token("object-")
        try:
            _write_synced(staged, data)
            give_name(staged, target)
        except FileExistsError:
            # The winner may not have synced the directory yet. We report that it won, so it must stay so.
            sync_directory(target.parent)
            raise ObjectExistsError(path=path) from None
        except FileNotFoundError:
            self._made.clear()  # empty directories were removed meanwhile; the next try makes them again
            raise
        finally:
            _unlink(staged)
        sync_directory(target.parent)

    def _make(self, directory: Path) -> None:
        """Make directories durably; another process may have made but not yet synced them."""
        if directory == self._root or directory in self._made:
            return
        self._make(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
        sync_directory(directory.parent)
        self._made.add(directory)

    def _read(self, path: str, start: int, length: int | None) -> bytes:
        try:
            with self._file(path).open("rb", buffering=0) as file:
                left = os.fstat(file.fileno()).st_size - start if length is None else length
                pieces = []
                while left > 0 and (piece := os.pread(file.fileno(), left, start)):
                    pieces.append(piece)
                    start += len(piece)
                    left -= len(piece)
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise ObjectNotFoundError(path=path) from None

    def _delete(self, paths: Sequence[str]) -> None:
        files = [self._file(path) for path in paths]
        for file in files:
            _unlink(file)
        for directory in {file.parent for file in files}:
            if directory.is_dir():
                sync_directory(directory)

    def _list(self, prefix: str, after: str) -> Listing:
        found = self._walk(self._file(prefix) if prefix else self._root)
        return sorted(info for info in found if info.path > after)

    def _walk(self, directory: Path) -> Iterator[ObjectInfo]:
        try:
            entries = list(os.scandir(directory))
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                yield from self._walk(Path(entry.path))
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue
            path = Path(entry.path).relative_to(self._root).as_posix()
            yield ObjectInfo(path, status.st_size, status.st_mtime_ns // 1_000_000)

    def _file(self, path: str) -> Path:
        parts = PurePosixPath(path).parts
        assert parts, "a path has at least one segment"
        assert not any(part.startswith(("/", ".")) for part in parts), f"{path} leaves the bucket"
        return self._root.joinpath(*parts)


@contextmanager
def _mapped() -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise BucketDeniedError(reason=str(error)) from error
    except OSError as error:
        raise BucketError(reason=str(error)) from error


def _write_synced(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unlink(path: Path) -> None:
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        pass
