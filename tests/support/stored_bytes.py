"""Where bytes are still stored: in the files of a directory, and in the objects of a bucket."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from durable_sessions.bucket.store import Bucket
from durable_sessions.errors import ObjectNotFoundError


def files_with(directory: Path, text: bytes) -> list[str]:
    """Return the files below a directory that hold a text, compressed or not."""
    found = []
    for path in directory.rglob("*"):
        try:
            content = path.read_bytes() if path.is_file() else b""
        except OSError:
            continue  # it was removed while we looked
        if _holds(path.name, content, text):
            found.append(str(path.relative_to(directory)))
    return found


async def objects_with(url: str, text: bytes) -> list[str]:
    """Return the objects of a bucket that hold a text, compressed or not."""
    bucket = await Bucket.open(url)
    found = []
    for info in await bucket.list(""):
        try:
            content = await bucket.get(info.path)
        except ObjectNotFoundError:
            continue
        if _holds(info.path, content, text):
            found.append(info.path)
    return found


def _holds(name: str, content: bytes, text: bytes) -> bool:
    if name.endswith(".parquet") and content:
        content += str(pq.read_table(pa.BufferReader(content)).to_pylist()).encode()
    return text in content
