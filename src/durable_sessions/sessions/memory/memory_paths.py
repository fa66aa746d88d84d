"""Paths of memories in a store: which are usable, and how a list of them is cut at a depth."""

import unicodedata

from durable_sessions.errors import InvalidMemoryError
from durable_sessions.limits import Limits

_REFUSED = frozenset(("Cc", "Cf", "Zl", "Zp"))
"""Categories of characters that no path has: controls, formats, separators of lines and paragraphs."""


def checked(path: str, limits: Limits) -> str:
    """Return a path, or refuse it and say how one looks."""
    segments = path.split("/")[1:]
    fits = (
        path.startswith("/")
        and 0 < len(segments) <= limits.memory_path_segments_max
        and not {"", ".", ".."} & set(segments)
        and _size(path) <= limits.memory_path_bytes_max
        and not any(unicodedata.category(character) in _REFUSED for character in path)
        and unicodedata.is_normalized("NFC", path)
    )
    if not fits:
        raise InvalidMemoryError(
            problem=f"The path of a memory is not usable; send one such as /projects/notes.md: 1 to "
            f"{limits.memory_path_segments_max} segments that each begin with /, none of them empty, . or "
            f"..; up to {limits.memory_path_bytes_max} bytes, without control characters, in Unicode's "
            "normalization form C."
        )
    return path


def item_at(path: str, prefix: str, depth: int) -> str | None:
    """Return what a list shows of a path below a prefix: itself, or the folder at the depth it ends at.

    None if it is not below the prefix. A folder ends with ``/``.
    """
    if not path.startswith(prefix):
        return None
    lead = prefix or ("/" if path.startswith("/") else "")  # sessions may use keys that begin with no /
    parts = path[len(lead) :].split("/")
    if depth and len(parts) > depth:
        return f"{lead}{'/'.join(parts[:depth])}/"
    return path


def _size(path: str) -> int:
    return len(path.encode(errors="surrogatepass"))
