"""Documentation over HTTP: ``/`` as JSON, the manual below ``/docs``, and ``/openapi.json``."""

from collections.abc import Awaitable, Callable
from typing import ClassVar

import msgspec

from durable_sessions import __version__
from durable_sessions.http.api.route_table import Handler, Match
from durable_sessions.http.api.web_page import WebPage
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.http.manual import contents, page, rendering
from durable_sessions.http.openapi import document
from durable_sessions.http.openapi.request_headers import ACCEPT
from durable_sessions.limits import Limits

_ACCEPT = ACCEPT.key
_VARY: Header = (b"Vary", ACCEPT.name.encode())
_INDEX = {
    "name": "Durable Sessions",
    "version": __version__,
    "docs": contents.ROOT,
    "api": rendering.API,
    "openapi": "/openapi.json",
    "ready": "/readyz",
    "live": "/livez",
    "metrics": "/metrics",
    "sessions": "/v1/sessions",
    "streams": "/v1/stream/{path}",
}
_CACHED: Header = (b"Cache-Control", b"public, max-age=300")
_PAGE: list[Header] = [
    (b"Content-Type", b"text/html; charset=utf-8"),
    (b"Content-Security-Policy", page.SECURITY_POLICY.encode()),
    (b"Referrer-Policy", b"no-referrer"),
]


class Documentation:
    """Serves pages that were rendered at the start; no key is needed."""

    def __init__(self, limits: Limits, public_url: str, web_page: WebPage) -> None:
        self._web_page = web_page
        json: Header = (b"Content-Type", b"application/json")
        self._index = Response(200, [json, _VARY, _CACHED], msgspec.json.encode(_INDEX))
        self._answers = {
            b"/openapi.json": Response(200, [json, _CACHED], document.encoded(limits, public_url)),
            rendering.API.encode(): _html(page.docs(limits, public_url)),
        }
        self._manual = contents.pages()

    def serves(self, path: bytes) -> bool:
        """Say whether requests for this path are answered here."""
        return (
            path == b"/"
            or path in self._answers
            or self._web_page.serves(path)
            or self._page(path) is not None
        )

    def handle(self, request: Request, found: Match | None) -> Answer | Awaitable[Answer]:
        """Answer a request for what is served here; refusals are raised."""
        if request.path != b"/" and self._web_page.serves(request.path):
            return self._web_page.handle(request)
        assert found is not None, "the path of a page has one folder at most"
        return self.handlers[found.resource.route(request).id](self, request)

    def _show_index(self, request: Request) -> Answer | Awaitable[Answer]:
        wants_page = b"text/html" in request.headers.get(_ACCEPT, b"") or b"plain=1" in request.query
        return self._web_page.handle(request) if wants_page else self._index

    def _show(self, request: Request) -> Response:
        if request.path not in self._answers:
            made = self._page(request.path)
            assert made is not None, "only what is served is asked for here"
            self._answers[request.path] = _html(made())
        return self._answers[request.path]

    handlers: ClassVar[dict[str, Handler]] = {
        "index": _show_index,
        "openapi": _show,
        "docs": _show,
        "docsApi": _show,
        "docsPage": _show,
        "docsPageInFolder": _show,
    }

    def _page(self, path: bytes) -> Callable[[], bytes] | None:
        """Return the function that renders a page of the manual, None if there is no such page."""
        root = contents.ROOT.encode()
        if path == root:
            return lambda: rendering.index(self._manual)
        shown = self._manual.get(path.removeprefix(root + b"/").decode("latin-1"))
        if shown is None or not path.startswith(root + b"/"):
            return None
        return lambda: rendering.page(shown, self._manual)


def _html(made: bytes) -> Response:
    return Response(200, [*_PAGE, _CACHED], made)
