"""Resources: sessions, their events and memory, under addresses that an application can load."""

import asyncio
from typing import Any

from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError

from durable_sessions.client.errors import ApiError, ClientError
from durable_sessions.mcp.past import Past
from durable_sessions.mcp.shown import Shown, fitting, size_of
from durable_sessions.mcp.tools import ReadingTools

LISTED_MAX = 20
EVENTS_MAX = 50
JSON = "application/json"


class PastResources:
    """Reads what an address names; what the caller may not see is not there."""

    def __init__(self, past: Past, shown: Shown, tools: ReadingTools) -> None:
        self._past = past
        self._shown = shown
        self._tools = tools

    async def session(self, session_id: str) -> dict[str, Any]:
        """A session as the server describes it."""
        _, info = await self._found(session_id)
        described: dict[str, Any] = await asyncio.to_thread(self._shown.short, info.raw)
        largest_first = sorted(described, key=lambda name: -size_of(described[name]))
        return self._shown.within(described, *largest_first)

    async def last_events(self, session_id: str) -> Any:
        """The last events of a session."""
        try:
            return await self._tools.read_events(session_id, tail=EVENTS_MAX)
        except ToolError as error:
            raise ResourceNotFoundError(str(error)) from error

    async def event(self, session_id: str, position: int) -> Any:
        """The event at a position of a session."""
        try:
            read = await self._tools.read_events(session_id, from_position=position, limit=1)
        except ToolError as error:
            raise ResourceNotFoundError(str(error)) from error
        if not read["events"] or read["events"][0]["position"] != position:
            raise ResourceNotFoundError(f"{session_id} has no event at position {position}.")
        return read["events"][0]

    async def handoff(self, session_id: str) -> str:
        """What the next worker on a session must know."""
        handle, _ = await self._found(session_id)
        try:
            return self._shown.excerpt((await handle.handoff())["handoff.md"])
        except ClientError as error:
            raise ResourceNotFoundError(_message(error)) from error

    async def memory(self, scope: str) -> dict[str, Any]:
        """The newest entries of a scope of memory."""
        try:
            entries = await self._past.client().memory.get(self._past.scope(scope), limit=LISTED_MAX)
        except (ToolError, ClientError) as error:
            raise ResourceNotFoundError(_message(error)) from error
        shown = [self._shown.within(one, "value", "because") for one in self._shown.short(entries)]
        return {"scope": scope, "entries": fitting(shown, self._shown.room)}

    async def _found(self, session_id: str) -> Any:
        try:
            return await self._past.session(session_id)
        except (ToolError, ClientError, ValueError) as error:
            raise ResourceNotFoundError(_message(error)) from error


def _message(error: Exception) -> str:
    return error.message if isinstance(error, ApiError) else str(error)
