"""How a failure looks over HTTP: one table from code to status, one shape of body."""

from collections.abc import Callable
from typing import Any

import msgspec

from durable_sessions.errors import (
    AlreadyClaimedError,
    AuthenticationError,
    DurableSessionsError,
    KeysTooFastError,
    MethodNotAllowedError,
    PreconditionFailedError,
    ProducerGapError,
    QuotaExceededError,
    RangeNotSatisfiableError,
    RateLimitedError,
    ShareExceededError,
    StaleEpochError,
    StreamClosedError,
    TooManyScansError,
)
from durable_sessions.http.carrier.message import Header, Response

STATUS_BY_CODE: dict[str, int] = {
    "invalid_request": 400,
    "unknown_parameter": 400,
    "too_many_to_sort": 400,
    "invalid_path": 400,
    "invalid_offset": 400,
    "offset_beyond_tail": 400,
    "invalid_header": 400,
    "invalid_json": 400,
    "invalid_fork": 400,
    "empty_body": 400,
    "missing_content_type": 400,
    "new_epoch_sequence": 400,
    "malformed_request": 400,
    "invalid_event": 400,
    "invalid_session": 400,
    "invalid_agent": 400,
    "invalid_environment": 400,
    "session_running": 400,
    "object_archived": 400,
    "webhook_url_rejected": 400,
    "artifact_mismatch": 400,
    "authentication_error": 401,
    "token_invalid": 401,
    "token_expired": 401,
    "permission_error": 403,
    "host_not_allowed": 403,
    "origin_not_allowed": 403,
    "keys_required": 403,
    "first_key_refused": 403,
    "stale_epoch": 403,
    "route_not_found": 404,
    "stream_not_found": 404,
    "session_not_found": 404,
    "event_not_found": 404,
    "thread_not_found": 404,
    "registered_object_not_found": 404,
    "subscription_not_found": 404,
    "key_not_found": 404,
    "artifact_not_found": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "stream_exists": 409,
    "session_exists": 409,
    "session_archived": 409,
    "event_id_conflict": 409,
    "idempotency_mismatch": 409,
    "version_conflict": 409,
    "path_blocked": 409,
    "legal_hold": 409,
    "stream_closed": 409,
    "content_type_mismatch": 409,
    "sequence_conflict": 409,
    "producer_gap": 409,
    "too_many_producers": 409,
    "fork_too_deep": 409,
    "subscription_already_exists": 409,
    "too_many_subscriptions": 409,
    "too_many_keys": 409,
    "fenced": 409,
    "already_claimed": 409,
    "no_pending_work": 409,
    "invalid_ack": 409,
    "stream_gone": 410,
    "session_gone": 410,
    "session_replaced": 410,
    "precondition_failed": 412,
    "body_too_large": 413,
    "event_too_large": 413,
    "session_too_large": 413,
    "document_too_large": 413,
    "artifact_too_large": 413,
    "target_too_long": 414,
    "range_not_satisfiable": 416,
    "rate_limited": 429,
    "share_exceeded": 429,
    "keys_too_fast": 429,
    "quota_exceeded": 429,
    "too_many_scans": 429,
    "headers_too_large": 431,
    "internal": 500,
    "log_failed": 500,
    "log_damaged": 500,
    "log_locked": 500,
    "log_version": 500,
    "archive_behind": 500,
    "archive_ahead": 500,
    "archive_missing": 500,
    "log_foreign": 500,
    "log_diverged": 500,
    "bucket_refused": 500,
    "object_exists": 500,
    "object_not_found": 500,
    "object_damaged": 500,
    "overloaded": 503,
    "search_unavailable": 503,
    "shutting_down": 503,
    "partition_stopped": 503,
    "partition_fenced": 503,
    "manifest_lost": 503,
    "outcome_unknown": 503,
    "cold_read_failed": 503,
    "bucket_failed": 503,
    "bucket_denied": 503,
}

_QUOTA_RETRY_SECONDS = 60
_SCANS_RETRY_SECONDS = 2

_HEADERS: dict[type[DurableSessionsError], Callable[[Any], list[tuple[bytes, object]]]] = {
    StreamClosedError: lambda e: [(b"Stream-Closed", "true"), (b"Stream-Next-Offset", e.tail)],
    StaleEpochError: lambda e: [(b"Producer-Epoch", e.current)],
    ProducerGapError: lambda e: [
        (b"Producer-Expected-Seq", e.expected),
        (b"Producer-Received-Seq", e.received),
    ],
    PreconditionFailedError: lambda e: (
        [(b"Stream-Next-Offset", e.tail)] if e.fields.get("tail") is not None else []
    ),
    MethodNotAllowedError: lambda e: [(b"Allow", e.allow)],
    AuthenticationError: lambda e: [(b"WWW-Authenticate", "Bearer")],
    RateLimitedError: lambda e: [(b"Retry-After", e.retry_after_seconds)],
    ShareExceededError: lambda e: [(b"Retry-After", 1)],
    KeysTooFastError: lambda e: [(b"Retry-After", e.retry_after_seconds)],
    QuotaExceededError: lambda e: [(b"Retry-After", _QUOTA_RETRY_SECONDS)],
    TooManyScansError: lambda e: [(b"Retry-After", _SCANS_RETRY_SECONDS)],
    RangeNotSatisfiableError: lambda e: [(b"Content-Range", f"bytes */{e.size}")],
}

_BASE_HEADERS: list[Header] = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")]


def error_response(error: DurableSessionsError, *, control: bool = False) -> Response:
    """Return the answer for ``error``; every failure that a client sees is made here.

    Below ``__ds`` (``control``) the protocol spells codes in upper case, and one of them differently.
    """
    status = STATUS_BY_CODE[error.code]
    headers = error_headers(error)
    detail: dict[str, object] = {
        "code": error_code_under_control(error.code) if control else error.code,
        "message": str(error),
    }
    if isinstance(error, AlreadyClaimedError):
        detail["current_holder"] = error.current_holder
        detail["generation"] = error.generation
    return Response(status, headers, msgspec.json.encode({"error": detail}))


def error_headers(error: DurableSessionsError) -> list[Header]:
    """Return the headers that an answer for ``error`` has, whatever its body looks like."""
    headers = _BASE_HEADERS.copy()
    if STATUS_BY_CODE[error.code] == 503:
        headers.append((b"Retry-After", b"1"))
    more = _HEADERS.get(type(error))
    if more is not None:
        headers.extend((name, str(value).encode()) for name, value in more(error))
    return headers


def error_code_under_control(code: str) -> str:
    """Return a code as the protocol spells it below ``__ds``."""
    return "INVALID_OFFSET" if code == "invalid_ack" else code.upper()
