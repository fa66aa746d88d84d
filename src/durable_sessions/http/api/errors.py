"""How a failure looks over HTTP: its headers, and one shape of body."""

import msgspec

from durable_sessions.errors import AlreadyClaimedError, DurableSessionsError
from durable_sessions.http.bodies.errors import ErrorBody, NativeRefusal
from durable_sessions.http.carrier.message import Header, Response
from durable_sessions.http.error_codes import STATUS_BY_CODE, error_code_under_control
from durable_sessions.http.openapi.error_headers import sent_with

_BASE_HEADERS: list[Header] = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")]


def error_response(error: DurableSessionsError, *, control: bool = False) -> Response:
    """Return the answer for ``error``; every error that a client sees is made here.

    Below ``__ds`` (``control``) the protocol spells codes in upper case, and one of them differently.
    """
    status = STATUS_BY_CODE[error.code]
    headers = error_headers(error)
    said = NativeRefusal(error_code_under_control(error.code) if control else error.code, str(error))
    if isinstance(error, AlreadyClaimedError):
        held = {name: error.fields[name] for name in ("current_holder", "generation")}
        said = msgspec.structs.replace(said, **held)
    return Response(status, headers, msgspec.json.encode(ErrorBody(said)))


def error_headers(error: DurableSessionsError) -> list[Header]:
    """Return the headers that an answer for ``error`` has, whatever its body looks like."""
    return [*_BASE_HEADERS, *sent_with(error)]
