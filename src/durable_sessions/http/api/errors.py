"""How a failure looks over HTTP: its headers, and one shape of body."""

from collections.abc import Callable
from typing import Any

import msgspec

from durable_sessions.errors import (
    AlreadyClaimedError,
    DurableSessionsError,
    KeyRateExceededError,
    KeysTooFastError,
    MethodNotAllowedError,
    PreconditionNotMetError,
    ProducerGapError,
    QuotaExceededError,
    RangeNotSatisfiableError,
    ShareExceededError,
    StaleEpochError,
    StreamClosedError,
    TooManyScansError,
    UnauthenticatedError,
)
from durable_sessions.http.bodies.errors import ErrorBody, NativeRefusal
from durable_sessions.http.carrier.message import Header, Response
from durable_sessions.http.error_codes import STATUS_BY_CODE, error_code_under_control

_QUOTA_RETRY_SECONDS = 60
_SCANS_RETRY_SECONDS = 2

_HEADERS: dict[type[DurableSessionsError], Callable[[Any], list[tuple[bytes, object]]]] = {
    StreamClosedError: lambda e: [(b"Stream-Closed", "true"), (b"Stream-Next-Offset", e.tail)],
    StaleEpochError: lambda e: [(b"Producer-Epoch", e.current)],
    ProducerGapError: lambda e: [
        (b"Producer-Expected-Seq", e.expected),
        (b"Producer-Received-Seq", e.received),
    ],
    PreconditionNotMetError: lambda e: (
        [(b"Stream-Next-Offset", e.tail)] if e.fields.get("tail") is not None else []
    ),
    MethodNotAllowedError: lambda e: [(b"Allow", e.allow)],
    UnauthenticatedError: lambda e: [(b"WWW-Authenticate", "Bearer")],
    KeyRateExceededError: lambda e: [(b"Retry-After", e.retry_after_seconds)],
    ShareExceededError: lambda e: [(b"Retry-After", 1)],
    KeysTooFastError: lambda e: [(b"Retry-After", e.retry_after_seconds)],
    QuotaExceededError: lambda e: [(b"Retry-After", _QUOTA_RETRY_SECONDS)],
    TooManyScansError: lambda e: [(b"Retry-After", _SCANS_RETRY_SECONDS)],
    RangeNotSatisfiableError: lambda e: [(b"Content-Range", f"bytes */{e.size}")],
}

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
    headers = _BASE_HEADERS.copy()
    if STATUS_BY_CODE[error.code] == 503:
        headers.append((b"Retry-After", b"1"))
    more = _HEADERS.get(type(error))
    if more is not None:
        headers.extend((name, str(value).encode()) for name, value in more(error))
    return headers
