"""The web page over HTTP: the shell at every address of the page, its files, and pages without script."""

from collections.abc import Awaitable

from durable_sessions.errors import MethodNotAllowedError
from durable_sessions.http.carrier.message import Answer, Request, Response
from durable_sessions.http.ui.addresses import base_path, is_address
from durable_sessions.http.ui.assets import ROOT, assets
from durable_sessions.http.ui.plain import Ask, PlainPages
from durable_sessions.http.ui.shell import Shell

_ROOT = ROOT.encode()


class WebPage:
    """Serves the page, for which no key is needed: what it shows comes from the API."""

    def __init__(self, public_url: str, ask: Ask) -> None:
        self._assets = assets()
        base = base_path(public_url)
        self._shell = Shell(self._assets, base)
        self._plain = PlainPages(self._assets, base, ask)

    def serves(self, path: bytes) -> bool:
        """Say whether requests for this path are answered here."""
        return path.startswith(_ROOT) or is_address(path)

    def handle(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request for what is served here; refusals are raised."""
        if request.method not in (b"GET", b"HEAD"):
            raise MethodNotAllowedError(allow="GET, HEAD")
        if request.path.startswith(_ROOT):
            return self._assets.answer(request) or Response(404, [(b"Content-Type", b"text/plain")], b"")
        if b"plain=1" in request.query.split(b"&"):
            return self._plain.page(request)
        return Response(200, self._shell.headers, self._shell.at(request.query))
