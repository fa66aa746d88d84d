"""Which of the two dialects of the sessions API a request speaks: ours, or Anthropic's."""

from durable_sessions.http.carrier.message import Request
from durable_sessions.http.openapi.request_headers import ANTHROPIC_VERSION

_ANTHROPIC_VERSION = ANTHROPIC_VERSION.key


def is_strict(request: Request) -> bool:
    """Say whether a request speaks Anthropic's dialect."""
    return _ANTHROPIC_VERSION in request.headers
