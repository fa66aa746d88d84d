"""Stream paths in URLs: percent-decoded, checked, and given a workspace."""

from functools import lru_cache
from urllib.parse import unquote_to_bytes

from durable_sessions.errors import InvalidPathError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.streams.stream import Key

API_ROOT = b"/v1/"
STREAM_ROOT = b"/v1/stream/"
DOCS_ROOT = b"/docs"
SIGN_IN = b"/v1/login"
"""Where a browser signs in: the only path below ``/v1`` for which ``POST`` needs no key."""
_CONTROL_ROOT = STREAM_ROOT + b"__ds"
_SESSION_ROOTS = (
    b"/v1/sessions",
    b"/v1/agents",
    b"/v1/environments",
    b"/v1/search",
    b"/v1/memory",
    b"/v1/memory_stores",
    b"/v1/files",
    b"/v1/approvals",
    b"/v1/usage",
)
_SESSION_NOUNS = frozenset(root.split(b"/")[2] for root in _SESSION_ROOTS)
_PATH_BYTES_MAX = DEFAULT_LIMITS.path_bytes_max
_NO_SEGMENTS = frozenset(("", ".", ".."))


@lru_cache(maxsize=4096)
def stream_key(workspace: str, path: bytes) -> Key:
    """Return the key of the stream that a URL path names in a workspace, or refuse it."""
    return Key(workspace, stream_path(path[len(STREAM_ROOT) :]))


def stream_path(encoded: bytes) -> str:
    """Return the decoded path of a stream, or refuse it."""
    raw = unquote_to_bytes(encoded) if b"%" in encoded else encoded
    try:
        path = raw.decode()
    except UnicodeDecodeError:
        raise _invalid("it is not UTF-8") from None
    return checked_path(path)


def checked_path(path: str) -> str:
    """Return the path if a stream can have it, or refuse it."""
    if not path:
        raise _invalid("it is empty")
    size = len(path) if path.isascii() else len(path.encode())
    if size > _PATH_BYTES_MAX:
        raise _invalid(f"it has {size} bytes")
    if not path.isprintable():
        raise _invalid("it holds a control character")
    if path.startswith("__"):
        raise _invalid("its first segment begins with __, which is kept for the server")
    for segment in path.split("/"):
        if segment in _NO_SEGMENTS:
            raise _invalid(f"it holds the segment {segment!r}")
    return path


def _invalid(problem: str) -> InvalidPathError:
    return InvalidPathError(problem=problem, path_bytes_max=_PATH_BYTES_MAX)


def is_of_protocol(path: bytes) -> bool:
    """Say whether a path belongs to the strict protocol, or to no part of the API at all."""
    return path.startswith(STREAM_ROOT) or not (path.startswith(API_ROOT) or path == API_ROOT[:-1])


def checks_parameters(path: bytes) -> bool:
    """Say whether a query parameter that the operation of a path does not have is refused.

    The stream protocol ignores them, and so does what people open in a browser: links gain some on their way.
    """
    return not path.startswith((STREAM_ROOT, DOCS_ROOT + b"/")) and path not in (b"/", DOCS_ROOT)


def is_of_control(path: bytes) -> bool:
    """Say whether a path is the control root or is below it."""
    return path.startswith(_CONTROL_ROOT) and path[len(_CONTROL_ROOT) :][:1] in (b"", b"/")


def is_of_environment_work(path: bytes) -> bool:
    """Say whether a path belongs to the queue of an environment."""
    segments = path.split(b"/", 5)
    return segments[2:3] == [b"environments"] and segments[4:5] == [b"work"]


def is_of_sessions(path: bytes) -> bool:
    """Say whether a path belongs to the sessions API."""
    return path.startswith(_SESSION_ROOTS) and path.split(b"/", 3)[2] in _SESSION_NOUNS
