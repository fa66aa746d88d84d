"""Checks whether the files of an index are still as they were written.

Tantivy ends every file of a segment with a checksum (``content, {"crc":…}, length of that, 1337``) but does
not verify it when it opens one. A flipped bit would make searches return wrong events, or none.
"""

import os
import re
import struct
import zlib
from pathlib import Path

import msgspec

_NAME = re.compile(r"[0-9a-f]{32}\.[a-z0-9.]+")
_END = struct.Struct("<II")
_MAGIC = 1337
_FOOTER_BYTES_MAX = 4096
_CHUNK_BYTES = 1024 * 1024


class _Footer(msgspec.Struct):
    crc: int


_FOOTER = msgspec.json.Decoder(_Footer)


def files(index: Path) -> list[Path]:
    """Return the files of an index that have a checksum."""
    return sorted(path for path in index.iterdir() if _NAME.fullmatch(path.name))


def is_whole(path: Path) -> bool:
    """Say whether a file matches its checksum; a file that was removed meanwhile counts as whole."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _END.size - _FOOTER_BYTES_MAX))
            end = file.read()
            length, magic = _END.unpack(end[-_END.size :])
            if magic != _MAGIC or length > len(end) - _END.size:
                return False
            expected = _FOOTER.decode(end[-_END.size - length : -_END.size]).crc
            file.seek(0)
            left, found = size - _END.size - length, 0
            while left:
                chunk = file.read(min(_CHUNK_BYTES, left))
                if not chunk:
                    return False
                found = zlib.crc32(chunk, found)
                left -= len(chunk)
            return found == expected
    except FileNotFoundError:
        return True
    except (OSError, struct.error, msgspec.MsgspecError):
        return False
