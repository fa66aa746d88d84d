"""What one partition answers to the routers of this server, and to nobody else.

The public port never passes a request on to here: only a router asks, in its own process or over a link.
"""

from collections.abc import Awaitable, Callable

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import DurableSessionsError, RouteNotFoundError
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.http.api.sessions import merged_listing, merged_search
from durable_sessions.http.api.sessions.errors import refusal
from durable_sessions.http.api.sessions.listing import rows
from durable_sessions.http.api.sessions.searches import Searches
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.sessions.store import Sessions

ROOT = b"/internal/"
_FIELDS: list[Header] = [(b"Content-Type", b"application/msgpack")]


class InternalFace:
    """Answers internal requests of callers who were authenticated by whoever asks."""

    def __init__(self, sessions: Sessions, searches: Searches, auth: Authenticator) -> None:
        self._sessions = sessions
        self._searches = searches
        self._auth = auth
        self._handlers: dict[bytes, Callable[[Request, Caller], Awaitable[object]]] = {
            merged_listing.PATH: self._rows,
            merged_search.PATH: searches.part,
        }

    async def handle(self, request: Request) -> Answer:
        """Answer a request; an error has the shape that the public API would give it."""
        try:
            handler = self._handlers.get(request.path)
            if handler is None:
                raise RouteNotFoundError(path=request.path.decode("latin-1"))
            said = await handler(request, self._auth.caller(request))
        except DurableSessionsError as error:
            return refusal(error, request)
        return Response(200, _FIELDS, msgspec.msgpack.encode(said))

    async def _rows(self, request: Request, caller: Caller) -> object:
        return await rows(self._sessions, request, caller)
