"""Stream paths in URLs: percent-decoded, checked, and given a workspace."""

from functools import lru_cache
from urllib.parse import unquote_to_bytes

from durable_sessions.errors import InvalidPathError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.streams.stream import Key

STREAM_ROOT = b"/v1/stream/"
DEFAULT_WORKSPACE = "default"
_PATH_BYTES_MAX = DEFAULT_LIMITS.path_bytes_max


@lru_cache(maxsize=4096)
def stream_key(path: bytes) -> Key:
    """Return the stream that a URL path below the stream root names, or refuse it."""
    return Key(DEFAULT_WORKSPACE, stream_path(path[len(STREAM_ROOT) :]))


def stream_path(encoded: bytes) -> str:
    """Return the decoded path of a stream, or say what is wrong with it."""
    raw = unquote_to_bytes(encoded)
    if not raw:
        raise _invalid("it is empty")
    if len(raw) > _PATH_BYTES_MAX:
        raise _invalid(f"it has {len(raw)} bytes")
    try:
        path = raw.decode()
    except UnicodeDecodeError:
        raise _invalid("it is not UTF-8") from None
    if not path.isprintable():
        raise _invalid("it holds a control character")
    for segment in path.split("/"):
        if segment in ("", ".", ".."):
            raise _invalid(f"it holds the segment {segment!r}")
    return path


def _invalid(problem: str) -> InvalidPathError:
    return InvalidPathError(problem=problem, path_bytes_max=_PATH_BYTES_MAX)
