"""Which of the two dialects of the sessions API a request speaks: ours, or Anthropic's."""

from durable_sessions.http.carrier.message import Request


def is_strict(request: Request) -> bool:
    """Say whether a request speaks Anthropic's dialect."""
    return b"anthropic-version" in request.headers
