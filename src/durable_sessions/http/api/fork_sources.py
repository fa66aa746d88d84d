"""What a request wants to fork, as its headers say it to either face."""

from urllib.parse import unquote

from durable_sessions.errors import InvalidForkError, InvalidPathError
from durable_sessions.http.carrier.message import Request
from durable_sessions.http.openapi.request_headers import STREAM_FORKED_FROM
from durable_sessions.http.paths import STREAM_ROOT, stream_path
from durable_sessions.sessions import record

HEADER = STREAM_FORKED_FROM.key
_SESSIONS = ("/v1/stream/sessions/", "/v1/sessions/", "sessions/")


def source_path(request: Request) -> str | None:
    """Return the path of the stream that a request forks, None if none can be meant."""
    source = request.headers.get(HEADER, b"")
    try:
        if request.path.startswith(STREAM_ROOT):
            return stream_path(source[len(STREAM_ROOT) :]) if source.startswith(STREAM_ROOT) else None
        return record.path_of(session_forked(source))
    except (InvalidForkError, InvalidPathError):
        return None  # whoever is asked refuses it


def session_forked(source: bytes) -> str:
    """Return the id of the session that a header names, or refuse it."""
    path = unquote(source.decode("latin-1").partition("?")[0])
    name = next((path.removeprefix(root) for root in _SESSIONS if path.startswith(root)), None)
    if not name or "/" in name:
        raise InvalidForkError(problem="Stream-Forked-From is the path of a session, /v1/sessions/{id}")
    return name
