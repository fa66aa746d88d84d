"""How a failure looks on the sessions face: Anthropic's shape and types."""

import msgspec

from durable_sessions.errors import (
    DurableSessionsError,
    SessionNotFoundError,
    StreamGoneError,
    StreamNotFoundError,
)
from durable_sessions.http.errors import STATUS_BY_CODE, error_headers
from durable_sessions.http.message import Request, Response

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
    429: "rate_limit_error",
    431: "invalid_request_error",
    503: "overloaded_error",
}
_FINAL = {409, 412}
_FOLDER = "sessions/"


def refusal(error: DurableSessionsError, request: Request) -> Response:
    """Return the answer for ``error``; a final one tells the SDKs not to try again."""
    return refusal_to(error, request.id)


def refusal_to(error: DurableSessionsError, request_id: bytes) -> Response:
    """Return the answer for ``error`` to a request of which no more than its id may be known."""
    if isinstance(error, StreamNotFoundError | StreamGoneError) and str(error.path).startswith(_FOLDER):
        error = SessionNotFoundError(session=str(error.path).removeprefix(_FOLDER))
    status = STATUS_BY_CODE[error.code]
    details: dict[str, object] = {"error_code": error.code}
    index = error.fields.get("index")
    if index is not None:
        details["index"] = index
    headers = error_headers(error)
    if status in _FINAL:
        headers.append((b"x-should-retry", b"false"))
    body = {
        "type": "error",
        "error": {
            "type": _TYPE_BY_STATUS.get(status, "api_error"),
            "message": str(error),
            "details": details,
        },
        "request_id": request_id.decode("latin-1"),
    }
    return Response(status, headers, msgspec.json.encode(body))
