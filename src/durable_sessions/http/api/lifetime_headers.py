"""The headers that say when a stream ends, or that it has ended."""

from durable_sessions.http.carrier.message import Header
from durable_sessions.http.openapi.answer_headers import STREAM_CLOSED, STREAM_EXPIRES_AT, STREAM_TTL
from durable_sessions.storage.door import StreamView
from durable_sessions.times import rfc3339

CLOSED: Header = (STREAM_CLOSED, b"true")


def lifetime_headers(durable: StreamView) -> list[Header]:
    """Return the TTL or expiry of a stream, if it has one, and whether it is closed."""
    stream = durable.stream
    fields: list[Header] = []
    if stream.ttl_seconds is not None:
        fields.append((STREAM_TTL, b"%d" % stream.ttl_seconds))
    if stream.expires_at_ms is not None:
        fields.append((STREAM_EXPIRES_AT, rfc3339(stream.expires_at_ms).encode()))
    if durable.closed:
        fields.append(CLOSED)
    return fields
