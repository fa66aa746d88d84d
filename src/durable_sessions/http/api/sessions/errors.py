"""Errors of the sessions API, in Anthropic's shape and types."""

import re

import msgspec

from durable_sessions.errors import (
    DurableSessionsError,
    SessionNotFoundError,
    StreamGoneError,
    StreamNotFoundError,
)
from durable_sessions.http.api.errors import error_headers
from durable_sessions.http.api.sessions import incarnations
from durable_sessions.http.api.sessions.dialect import is_strict
from durable_sessions.http.bodies.errors import RefusalDetails, SessionsErrorBody, SessionsRefusal
from durable_sessions.http.carrier.message import Request, Response
from durable_sessions.http.error_codes import STATUS_BY_CODE
from durable_sessions.http.openapi.answer_headers import SHOULD_RETRY
from durable_sessions.http.openapi.error_headers import is_final

_TYPE_BY_STATUS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    409: "invalid_request_error",
    410: "not_found_error",
    412: "invalid_request_error",
    413: "request_too_large",
    414: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
    431: "invalid_request_error",
    503: "overloaded_error",
}
_TYPE_BY_CODE = {
    "memory_path_conflict": "memory_path_conflict_error",
    "memory_precondition_failed": "memory_precondition_failed_error",
}
"""Types of errors that do not follow from the status."""
_STATUS_IN_THEIRS = {"budget_exceeded": 400}
"""Codes that have another status in Anthropic's dialect."""
_ABOUT_A_LIFE = {410, 412}
_FOLDER = "sessions/"
_STREAM = re.compile(r"(?<!\{)\bstream(?P<more>s|'s)?\b")
_OURS = ("what", "difference", "wanted")
"""Parameters of messages in which the server's own words stand, never the caller's."""
_DETAILS = ("index", "exists", "tail", "slots", "incarnation")
"""Parameters that clients are told as members of the details, whatever the error."""
_NAMES = {"member": "path"}
"""How parameters are called there, if otherwise."""


def _message(error: DurableSessionsError) -> str:
    """Return the message of an error in which the server's "stream" is the caller's session.

    Only the server's own words are translated: an id, a path or a parameter may be called "stream", too.
    """
    fields = dict(error.fields)
    for name, value in fields.items():
        if name in _OURS:
            fields[name] = _of_sessions(str(value))
        elif name == "path":
            fields[name] = str(value).removeprefix(_FOLDER)
        elif isinstance(value, list):
            fields[name] = ", ".join(map(str, value))
    return error.where() + _of_sessions(error.template()).format(**fields)


def _of_sessions(words: str) -> str:
    words = words.replace("Stream-Next-Offset", "next_offset")
    return _STREAM.sub(lambda word: f"session{word['more'] or ''}", words)


def refusal(error: DurableSessionsError, request: Request, life: str | None = None) -> Response:
    """Return the answer for ``error``; if it is final, the SDKs are told not to retry.

    ``life`` is the incarnation of the session that the request is for.
    """
    status = _STATUS_IN_THEIRS.get(error.code) if is_strict(request) else None
    return refusal_to(error, request.id, life, status)


def refusal_to(
    error: DurableSessionsError, request_id: bytes, life: str | None = None, status: int | None = None
) -> Response:
    """Return the answer for ``error`` to a request of which perhaps only the id is known.

    ``status`` is that of the answer if the error does not decide.
    """
    error = _of_session(error)  # callers of this API know sessions, not the streams that they are kept in
    status = status or STATUS_BY_CODE[error.code]
    details = RefusalDetails(error.code)
    for name in (*_DETAILS, *error.told):
        if error.fields.get(name) is not None:
            setattr(details, _NAMES.get(name, name), error.fields[name])
    headers = error_headers(error)
    if life is not None:
        headers.append(incarnations.header(life))
        # The error knows best: a fork is refused because of its source, which is not the session of the path.
        if status in _ABOUT_A_LIFE and details.incarnation is msgspec.UNSET:
            details.incarnation = life
    if is_final(status, error.code):
        headers.append((SHOULD_RETRY, b"false"))
    kind = _TYPE_BY_CODE.get(error.code) or _TYPE_BY_STATUS.get(status, "api_error")
    said = SessionsRefusal(kind, _message(error), details)
    if "conflicting_memory_id" in error.fields:
        said.conflicting_memory_id = str(error.fields["conflicting_memory_id"])
    body = SessionsErrorBody("error", said, request_id.decode("latin-1"))
    return Response(status, headers, msgspec.json.encode(body))


def _of_session(error: DurableSessionsError) -> DurableSessionsError:
    """Translate an error about a stream into one about its session."""
    path = str(error.fields.get("path", ""))
    if not path.startswith(_FOLDER):
        return error
    session = path.removeprefix(_FOLDER)
    if isinstance(error, StreamNotFoundError | StreamGoneError):
        return SessionNotFoundError(session=session)
    return error
