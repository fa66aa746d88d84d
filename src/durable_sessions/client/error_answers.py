"""Turns error answers into exceptions."""

from typing import Any

import httpx2

from durable_sessions.client import encoding, errors, incarnation

_BY_STATUS: dict[int, type[errors.ApiError]] = {
    400: errors.BadRequestError,
    401: errors.AuthenticationError,
    403: errors.PermissionDeniedError,
    404: errors.NotFoundError,
    409: errors.ConflictError,
    410: errors.NotFoundError,
    412: errors.PreconditionFailedError,
    413: errors.TooLargeError,
    429: errors.RateLimitedError,
}
_OF_ANOTHER_INCARNATION = (410, 412)
_TEXT_MAX = 500


def error_of(answer: httpx2.Response, *, outcome_unknown: bool = False) -> errors.ApiError:
    """Return the exception for an error answer, with the server's message."""
    status = answer.status_code
    said = _said(answer)
    listed = said.get("details")
    details = dict(listed) if isinstance(listed, dict) else {}
    if "code" in said:
        details.setdefault("error_code", said["code"])
    expected = answer.headers.get("producer-expected-seq", "")
    if expected.isdecimal():
        details["expected_seq"] = int(expected)
    kind = _BY_STATUS.get(status, errors.ServerError if status >= 500 else errors.ApiError)
    if details.get("error_code") == "stale_epoch":
        kind = errors.ProducerFencedError
    # A 412 also means a failed If-Match of an offset; the incarnation in the answer tells the two apart.
    if status in _OF_ANOTHER_INCARNATION and incarnation.required_incarnation(answer.request) not in (
        None,
        answer.headers.get(incarnation.HEADER),
    ):
        kind = errors.SessionReplacedError
    error = kind(
        status,
        str(said.get("type") or said.get("code") or "api_error"),
        str(said.get("message") or f"{answer.request.url} answered {status}."),
        answer.headers.get("request-id"),
        details,
        outcome_unknown=outcome_unknown,
    )
    error.by_server = "type" in said or "code" in said or answer.request.method == "HEAD"
    if isinstance(error, errors.PreconditionFailedError):
        error.next_offset = answer.headers.get("stream-next-offset")
    if isinstance(error, errors.SessionReplacedError):
        error.incarnation = answer.headers.get(incarnation.HEADER)
    if isinstance(error, errors.RateLimitedError):
        error.retry_after = retry_after(answer)
    return error


def retry_after(answer: httpx2.Response) -> float | None:
    """Return how many seconds the server asks to wait, None if it does not."""
    try:
        seconds = float(answer.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _said(answer: httpx2.Response) -> dict[str, Any]:
    try:
        said = encoding.decode(answer.content)["error"]
        if isinstance(said, dict):
            return said
    except (ValueError, KeyError, TypeError):
        pass
    text = answer.content[:_TEXT_MAX].decode(errors="replace").strip()
    return {"message": f"{answer.request.url} answered {answer.status_code}: {text}" if text else None}
