"""What one partition answers to the routers of this server, and to nobody else.

The public port never passes a request on to here: only a router asks, in its own process or over a link.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.http.api.operations import Operations
from durable_sessions.http.api.placement_operations import PlacementOperations
from durable_sessions.http.api.route_table import unknown_route
from durable_sessions.http.api.sessions import (
    approvals,
    foreign_events,
    merged_listing,
    merged_live_list,
    merged_search,
)
from durable_sessions.http.api.sessions.approvals import Approvals
from durable_sessions.http.api.sessions.errors import refusal
from durable_sessions.http.api.sessions.foreign_events import KNOWN_EVENTS
from durable_sessions.http.api.sessions.listing import rows
from durable_sessions.http.api.sessions.registries import REGISTERED, Registries
from durable_sessions.http.api.sessions.searches import Searches
from durable_sessions.http.api.sessions.session_changes import ChangedSessions, SessionChangeFeed
from durable_sessions.http.api.sessions.usages import PATH as USED
from durable_sessions.http.api.sessions.usages import UsageReports
from durable_sessions.http.carrier.handler_failures import close_iterator
from durable_sessions.http.carrier.message import Answer, Header, Request, Response, StreamingResponse
from durable_sessions.sessions.outline.outlines import Outlines
from durable_sessions.sessions.store import Sessions

ROOT = b"/internal/"
FLUSH, REINDEX, STATUS = ROOT + b"flush", ROOT + b"reindex", ROOT + b"status"
InternalHandler = Callable[[Request, Caller], Awaitable[object]]
"""Answers an internal request with what is encoded for the asker."""
_FIELDS: list[Header] = [(b"Content-Type", b"application/msgpack")]


class InternalFace:
    """Answers internal requests of callers who were authenticated by whoever asks."""

    def __init__(
        self,
        sessions: Sessions,
        searches: Searches,
        registries: Registries,
        changes: SessionChangeFeed,
        more: Mapping[bytes, InternalHandler],
        operations: Operations,
        outlines: Outlines,
        auth: Authenticator,
        asked: Approvals,
        usages: UsageReports,
    ) -> None:
        self._sessions = sessions
        self._outlines = outlines
        self._operations = operations
        self._changes = changes
        self._searches = searches
        self._auth = auth
        self._handlers: dict[bytes, Callable[[Request, Caller], Awaitable[object]]] = {
            merged_listing.PATH: self._rows,
            merged_search.PATH: searches.part,
            approvals.PATH: asked.part,
            USED: usages.part,
            REGISTERED: registries.part,
            KNOWN_EVENTS: self._known_events,
            FLUSH: self._flush,
            REINDEX: self._reindex,
            STATUS: self._status,
            **PlacementOperations(sessions.streams).handlers,
            **more,
        }

    async def handle(self, request: Request) -> Answer:
        """Answer a request; an error has the shape that the public API would give it."""
        try:
            if request.path == merged_live_list.PATH:
                followed = await self._changes.follow(self._auth.caller(request))
                return StreamingResponse(200, [*_FIELDS], _Framed(followed))
            handler = self._handlers.get(request.path)
            if handler is None:
                raise unknown_route(request.path)
            said = await handler(request, self._auth.caller(request))
        except DurableSessionsError as error:
            return refusal(error, request)
        return Response(200, _FIELDS, msgspec.msgpack.encode(said))

    async def _flush(self, request: Request, caller: Caller) -> object:
        return await self._operations.flush()

    async def _reindex(self, request: Request, caller: Caller) -> None:
        self._operations.reindex()

    async def _status(self, request: Request, caller: Caller) -> object:
        return self._operations.status()

    async def _known_events(self, request: Request, caller: Caller) -> object:
        return await foreign_events.answer(self._sessions, request, caller)

    async def _rows(self, request: Request, caller: Caller) -> object:
        return await rows(self._sessions, self._outlines, request, caller)


class _Framed:
    """Portions as they are sent; a generator that never began would not close what it reads."""

    def __init__(self, followed: AsyncIterator[ChangedSessions]) -> None:
        self._followed = followed

    def __aiter__(self) -> "_Framed":
        return self

    async def __anext__(self) -> bytes:
        return merged_live_list.framed(await anext(self._followed))

    async def aclose(self) -> None:
        """End the stream."""
        await close_iterator(self._followed)
