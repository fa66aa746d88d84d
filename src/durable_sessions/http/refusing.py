"""The shape of a refusal follows from the path: Anthropic's below ``/v1``, the protocol's for streams."""

from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.errors import error_response
from durable_sessions.http.message import Response
from durable_sessions.http.paths import is_of_protocol
from durable_sessions.http.sessions.refusals import refusal_to


def refusal_at(path: bytes, error: DurableSessionsError, request_id: bytes) -> Response:
    """Return the answer for ``error`` to a request for this path."""
    return error_response(error) if is_of_protocol(path) else refusal_to(error, request_id)
