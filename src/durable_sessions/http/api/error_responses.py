"""The shape of a refusal follows from the path: Anthropic's below ``/v1``, the protocol's for streams."""

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
"""What a face says too, and then in the spelling of its path; all else is said by the carrier alone."""


def refusal_at(path: bytes, error: DurableSessionsError, request_id: bytes) -> Response:
    """Return the answer for ``error`` to a request for this path."""
    if not is_of_protocol(path):
        return refusal_to(error, request_id)
    return error_response(error, control=is_of_control(path) and error.code in _OF_FACES)
