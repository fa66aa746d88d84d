"""Headers of refusals: what each error adds to its answer, for whoever sends it and for the document."""

from collections.abc import Callable
from typing import Any

from durable_sessions import errors
from durable_sessions.http.error_codes import STATUS_BY_CODE
from durable_sessions.http.openapi.answer_headers import (
    ALLOW,
    CONTENT_RANGE,
    PRODUCER_EPOCH,
    PRODUCER_EXPECTED_SEQ,
    PRODUCER_RECEIVED_SEQ,
    RETRY_AFTER,
    SESSION_INCARNATION,
    SHOULD_RETRY,
    STREAM_CLOSED,
    STREAM_NEXT_OFFSET,
    WWW_AUTHENTICATE,
)
from durable_sessions.http.openapi.error_groups import CARRIER, ENTRANCE

_QUOTA_RETRY_SECONDS = 60
_SCANS_RETRY_SECONDS = 2
_FINAL = (403, 409, 412)
"""Statuses after which trying again does not help."""
_PASSING = frozenset({"session_claimed"})
"""Codes of such statuses that are over after a while."""

_BEFORE_SESSIONS = frozenset({*CARRIER, *ENTRANCE, "authentication_error"})
"""Errors of requests of which it is not known yet which session they are about."""

_Headers = dict[bytes, Callable[[Any], object]]
_BY_ERROR: dict[type[errors.DurableSessionsError], _Headers] = {
    errors.StreamClosedError: {STREAM_CLOSED: lambda e: "true", STREAM_NEXT_OFFSET: lambda e: e.tail},
    errors.StaleEpochError: {PRODUCER_EPOCH: lambda e: e.current},
    errors.ProducerGapError: {
        PRODUCER_EXPECTED_SEQ: lambda e: e.expected,
        PRODUCER_RECEIVED_SEQ: lambda e: e.received,
    },
    errors.PreconditionNotMetError: {STREAM_NEXT_OFFSET: lambda e: e.fields.get("tail")},
    errors.MethodNotAllowedError: {ALLOW: lambda e: e.allow},
    errors.UnauthenticatedError: {WWW_AUTHENTICATE: lambda e: "Bearer"},
    errors.KeyRateExceededError: {RETRY_AFTER: lambda e: e.retry_after_seconds},
    errors.SessionClaimedError: {RETRY_AFTER: lambda e: e.retry_after_seconds},
    errors.ShareExceededError: {RETRY_AFTER: lambda e: 1},
    errors.KeysTooFastError: {RETRY_AFTER: lambda e: e.retry_after_seconds},
    errors.SignInsTooFastError: {RETRY_AFTER: lambda e: e.retry_after_seconds},
    errors.QuotaExceededError: {RETRY_AFTER: lambda e: _QUOTA_RETRY_SECONDS},
    errors.TooManyScansError: {RETRY_AFTER: lambda e: _SCANS_RETRY_SECONDS},
    errors.TooManyExportsError: {RETRY_AFTER: lambda e: _SCANS_RETRY_SECONDS},
    errors.RangeNotSatisfiableError: {CONTENT_RANGE: lambda e: f"bytes */{e.size}"},
}
_BY_CODE = {kind.code: tuple(headers) for kind, headers in _BY_ERROR.items()}


def sent_with(error: errors.DurableSessionsError) -> list[tuple[bytes, bytes]]:
    """Return the headers that an error adds to its answer; one without a value is left out."""
    found = [(RETRY_AFTER, b"1")] if STATUS_BY_CODE[error.code] == 503 else []
    for name, value_of in _BY_ERROR.get(type(error), {}).items():
        if (value := value_of(error)) is not None:
            found.append((name, str(value).encode()))
    return found


def is_final(status: int, code: str) -> bool:
    """Say whether a refusal of the sessions API tells SDKs, with ``x-should-retry``, not to try again."""
    return status in _FINAL and code not in _PASSING


def described(codes: list[str], status: int, *, sessions: bool, one_session: bool) -> list[bytes]:
    """Return the names of the headers that a refusal with one of these codes may have.

    ``sessions`` says that it has Anthropic's shape, ``one_session`` that it is about a session of the path.
    """
    names = [name for code in codes for name in _BY_CODE.get(code, ())]
    if one_session and not _BEFORE_SESSIONS.issuperset(codes):
        names.append(SESSION_INCARNATION)
    if status == 503:
        names.append(RETRY_AFTER)
    if sessions and any(is_final(status, code) for code in codes):
        names.append(SHOULD_RETRY)
    return [*dict.fromkeys(names)]
