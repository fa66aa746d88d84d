"""Chooses the shape of an error by path: Anthropic's below ``/v1``, the protocol's for streams."""

from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.api.errors import error_response
from durable_sessions.http.api.sessions.errors import refusal_to
from durable_sessions.http.carrier.message import Response
from durable_sessions.http.paths import is_of_control, is_of_protocol

_OF_FACES = frozenset(
    {
        "authentication_error",
        "permission_error",
        "host_not_allowed",
        "origin_not_allowed",
        "keys_required",
        "token_invalid",
        "token_expired",
        "share_exceeded",
    }
)
"""Errors that the API raises as well, spelled as on that path; the carrier alone makes all others."""


def refusal_at(path: bytes, error: DurableSessionsError, request_id: bytes) -> Response:
    """Return the answer for ``error`` to a request for this path."""
    if not is_of_protocol(path):
        return refusal_to(error, request_id)
    return error_response(error, control=is_of_control(path) and error.code in _OF_FACES)
