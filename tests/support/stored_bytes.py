"""Which files below a directory hold a text, compressed or not."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


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


def _holds(name: str, content: bytes, text: bytes) -> bool:
    if name.endswith(".parquet") and content:
        content += str(pq.read_table(pa.BufferReader(content)).to_pylist()).encode()
    return text in content
