"""Refusals of requests that no face has seen: in the shape that the face of their path would give them."""

from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.errors import error_response
from durable_sessions.http.message import Response
from durable_sessions.http.paths import is_of_sessions
from durable_sessions.http.sessions.refusals import refusal_to


def refusal_at(path: bytes, error: DurableSessionsError, request_id: bytes) -> Response:
    """Return the answer for ``error`` to a request for this path."""
    if is_of_sessions(path):
        return refusal_to(error, request_id)
    return error_response(error)
