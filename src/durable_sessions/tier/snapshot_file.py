"""Packs a catalog into one object and back: SQLite's file without free pages, compressed by zstd."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from durable_sessions.storage import file_permissions

_CHUNK_BYTES = 1024 * 1024


def pack(copy: Callable[[Path], None], path: Path) -> bytes:
    """Let ``copy`` write a file at ``path`` and return it compressed; slow, so not for the event loop."""
    packed = path.with_name(path.name + ".zst")
    try:
        for one in (path, packed):
            one.unlink(missing_ok=True)
            file_permissions.make_file(one)
        copy(path)
        # Through a file, which is read without holding the interpreter's lock. Copying a large buffer would
        # hold it, and block the event loop.
        with path.open("rb") as file, pa.CompressedOutputStream(str(packed), "zstd") as sink:
            while chunk := file.read(_CHUNK_BYTES):
                sink.write(chunk)
        return packed.read_bytes()
    finally:
        path.unlink(missing_ok=True)
        packed.unlink(missing_ok=True)


def unpack(data: bytes, path: Path, bytes_max: int) -> None:
    """Write the file that :func:`pack` compressed to ``path``; ValueError if it exceeds ``bytes_max``."""
    file_permissions.make_file(path)
    size = 0  # counted while decompressing: a small object may expand to any size
    with path.open("wb") as file, pa.CompressedInputStream(pa.BufferReader(data), "zstd") as packed:
        while chunk := packed.read(_CHUNK_BYTES):
            size += len(chunk)
            if size > bytes_max:
                raise ValueError(f"it has more than {bytes_max} bytes (snapshot_bytes_max)")
            file.write(chunk)
