"""What an agent may look at: the sessions within the bounds of the options, with the rights of the key."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError

from durable_sessions.client import AsyncClient, AsyncSession, Event, Hit, SearchGroup, SessionInfo
from durable_sessions.client.errors import (
    AuthenticationError,
    ConnectionFailedError,
    NotFoundError,
    PermissionDeniedError,
)
from durable_sessions.mcp.connections import Connections
from durable_sessions.mcp.failures import no_session
from durable_sessions.mcp.options import PastOptions

_HITS_PER_SESSION_MAX = 20
_LOOKED_UP_AT_ONCE = 8
_LOOKED_THROUGH_MAX = 100
"""In so many of the last events that an adapter stored a message of the user is looked for."""
_MESSAGE = "user.message"


class Past:
    """Sessions and memory, as the caller may see them. What is outside does not exist for it."""

    def __init__(self, connections: Connections, options: PastOptions) -> None:
        self._connections = connections
        self.options = options

    def client(self) -> AsyncClient:
        """Return a client with the caller's key."""
        return self._connections.client()

    async def may_write(self) -> bool:
        """Say whether the caller's key may append; asked by a test of conditions, which writes nothing."""
        try:
            # Any session will do, there or not: the test of conditions is refused for lack of rights before
            # it is made.
            await self.client().session("mcp-may-write").holds({"exists": False})
        except (AuthenticationError, PermissionDeniedError):
            return False
        except ConnectionFailedError:
            return True  # whoever calls such a tool is told
        return True

    async def session(self, session_id: str) -> tuple[AsyncSession, SessionInfo]:
        """Return a session that the caller may see, bound to its present incarnation."""
        handle = self.client().session(session_id)
        try:
            info = await handle.info()
        except NotFoundError as error:
            raise no_session(session_id) from error
        if not self.options.admits(info.metadata):
            raise no_session(session_id)
        return handle, info

    async def sessions(
        self, limit: int, q: str | None = None, metadata: Mapping[str, str] | None = None
    ) -> list[SessionInfo]:
        """Return the sessions that match, those with the newest events first."""
        wanted = {**(metadata or {}), **self.options.only}
        # The caller asks for metadata that lie outside of the bounds, where nothing exists for it.
        if any(wanted[name] != value for name, value in (metadata or {}).items()):
            return []
        found = self.client().sessions.list(q=q, metadata=wanted, sort="activity", limit=limit)
        # Asked for again here: the server matches metadata, but what may be shown is decided on this side.
        return [info async for info in found if self.options.admits(info.metadata)]

    async def last_user_messages(self, sessions: Sequence[SessionInfo]) -> list[str]:
        """Return what the user of each session said last; empty where nobody has."""
        client = self.client()
        few = asyncio.Semaphore(_LOOKED_UP_AT_ONCE)

        async def last(info: SessionInfo) -> str:
            async with few:
                try:
                    return await _last_user_message(client.session(info.id), info)
                except NotFoundError:
                    return ""  # it was deleted a moment ago

        return list(await asyncio.gather(*(last(info) for info in sessions)))

    async def search(
        self, query: str, session_id: str | None, limit: int, *, with_current: bool, **filters: Any
    ) -> tuple[list[tuple[SessionInfo, Hit]], int, bool]:
        """Return the best hits with their sessions, how many there are, and whether all were searched."""
        if session_id is not None:
            handle, info = await self.session(session_id)
            page = await handle.search(query, limit=limit, **filters)
            return [(info, hit) for hit in page.hits], page.total_hits, page.up_to_date
        found = await self.client().search(
            query,
            limit=limit + 1,  # one of them may be the current session
            hits=min(limit, _HITS_PER_SESSION_MAX),
            metadata=self.options.only,
            **filters,
        )
        groups = [group for group in found.groups if self._shows(group, with_current=with_current)]
        hits = [(group.session, hit) for group in groups for hit in group.hits]
        # The server ranks sessions, and an agent looks for single events.
        hits.sort(key=lambda one: -one[1].score)
        return hits[:limit], found.total_hits, found.up_to_date

    def _shows(self, group: SearchGroup, *, with_current: bool) -> bool:
        is_current = group.session.id == self.options.session
        return self.options.admits(group.session.metadata) and (with_current or not is_current)

    def scope(self, asked: str | None) -> str:
        """Return the scope of memory to use, or say which may be used."""
        allowed = self.options.scope
        if asked is None and allowed is None:
            raise ToolError("Name a scope of memory, such as project:calc or user:ann.")
        if allowed is not None and asked not in (None, allowed):
            raise ToolError(f"There is no scope {asked!r} here. Leave scope out to use {allowed}.")
        return asked or allowed or ""


async def _last_user_message(session: AsyncSession, info: SessionInfo) -> str:
    """Return what the user said last; where an adapter stores the messages, what its last events mean."""
    if "adapter" not in info.metadata:
        return "".join([event.text async for event in session.events(types=_MESSAGE, order="desc", limit=1)])
    async for event in session.events(order="desc", limit=_LOOKED_THROUGH_MAX, lens=True):
        meant = event.get("lens")
        said = Event({**event.data, **meant}) if isinstance(meant, dict) else event
        if said.type == _MESSAGE and said.text:
            return said.text
    return ""
