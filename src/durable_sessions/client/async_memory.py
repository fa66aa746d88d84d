"""Memory, for programs with an event loop."""

from collections.abc import AsyncIterator
from typing import Any

from durable_sessions.client import memory_calls
from durable_sessions.client.async_session import AsyncSession
from durable_sessions.client.async_transport import AsyncTransport
from durable_sessions.client.calls import Appended


class AsyncMemoryCollection:
    """The memory scopes of the workspace."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def get(
        self,
        scope: str,
        *,
        key: str | None = None,
        q: str | None = None,
        at: int | None = None,
        limit: int = 100,
    ) -> list[dict[str, Any]]:
        """Return live entries of a scope: that of a key, those with these words, or the newest.

        ``at`` is a position of the scope: what was so then. This leaves no trace;
        ``AsyncSession.recall`` does.
        """
        return [one async for one in self._transport.paginate(memory_calls.get(scope, key, q, at, limit))]

    async def log(self, scope: str, *, start: int = 0, limit: int = 100) -> list[dict[str, Any]]:
        """Return the records of a scope from a position on: writes, reads and roll-backs, in order."""
        return [one async for one in self._transport.paginate(memory_calls.log(scope, start, limit))]

    def scopes(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the scopes of the workspace, those that were begun last first."""
        return self._transport.paginate(memory_calls.scopes())

    async def roll_back(
        self, write: str, *, session: AsyncSession, reason: str, of: str | None = None
    ) -> Appended:
        """Take a write back; ``session`` records it, ``of`` is the session of the write if another one."""
        return await session.append(memory_calls.rolled_back(write, reason, of))
