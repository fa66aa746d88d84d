"""What memories and versions of memory stores have in common on the wire."""

import msgspec

from durable_sessions import lenient
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.carrier.message import Header, Request, Response
from durable_sessions.http.openapi import memory_stores as described
from durable_sessions.sessions.memory.records import WriteRecord

NO_PAGE = "page is not one that this list gave; send next_page as it came."
_FULL_MAX = 20
"""How many memories or versions a page has with their content."""
_JSON: Header = (b"Content-Type", b"application/json")
_NO_STORE: Header = (b"Cache-Control", b"no-store")


def content_of(record: WriteRecord) -> str:
    """Return the content of a memory; what a session remembered other than a text is shown as JSON."""
    text = lenient.text(record.value)
    return bytes(record.value).decode() if text is None else text


def wants_full(request: Request, *, otherwise: bool) -> bool:
    """Say whether a request asks for contents, or would get them if it does not say."""
    return Parameters(request).choice("view", "full" if otherwise else "basic", described.VIEWS) == "full"


def page_size(parameters: Parameters, *, full: bool) -> int:
    """Return how many a page has at most."""
    limit = parameters.whole(described.LIMIT)
    return min(limit, _FULL_MAX) if full else limit


def answer(value: object) -> Response:
    """Return a value as the answer."""
    return Response(200, [_JSON, _NO_STORE], msgspec.json.encode(value))
