"""Turns error answers into exceptions."""

import re
from typing import Any

import httpx2

from durable_sessions.client import encoding, errors, incarnation
from durable_sessions.client.foreign_answer import foreign_answer

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
_BY_CODE: dict[str, type[errors.ApiError]] = {
    "stale_epoch": errors.ProducerFencedError,
    "lease_lost": errors.SessionLeaseLostError,
}
_OF_ANOTHER_INCARNATION = (410, 412)
_KEY_ADVICE = "Give a key with Client(api_key=…), or in the variable DURABLE_SESSIONS_API_KEY."
_NO_ROUTE = "route_not_found"
_ROUTE = re.compile(r"/(v1/(?!v1/)|openapi.json$|metrics$)")


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
    kind = _BY_CODE.get(str(details.get("error_code")), kind)
    # A 412 also means a failed If-Match of an offset; the incarnation in the answer tells the two apart.
    if status in _OF_ANOTHER_INCARNATION and incarnation.required_incarnation(answer.request) not in (
        None,
        answer.headers.get(incarnation.HEADER),
    ):
        kind = errors.SessionReplacedError
    error = kind(
        status,
        str(said.get("type") or said.get("code") or "api_error"),
        _message(answer, said, details.get("error_code")),
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
    return {}


def _message(answer: httpx2.Response, said: dict[str, Any], code: object) -> str:
    """Return what a refusal says, and what may be wrong with the address if nothing of ours answered."""
    url = answer.request.url
    if not said.get("message"):
        told = f"{url} answered {answer.status_code}"
        if "location" in answer.headers:
            return f"{told} and sends on to {answer.headers['location']}. Give the client that address."
        if answer.request.method == "HEAD":
            return f"{told}."
        return f"{told}, not as a Durable Sessions server would: {foreign_answer(answer)}."
    message = str(said["message"])
    if said.get("code", (said.get("details") or {}).get("error_code")) == _NO_ROUTE and not _ROUTE.match(
        url.path
    ):
        origin = f"{url.scheme}://{url.netloc.decode()}"
        return f"{message} Give the client the address without a path: {origin}."
    if answer.status_code == 401:  # what follows the first sentence is about headers
        return f"{message.partition('. ')[0].rstrip('.')}. {_KEY_ADVICE}"
    return message
