"""Memory: what sessions leave for later ones, read and taken back."""

from collections.abc import Iterator
from typing import Any

from durable_sessions.client import memory_calls
from durable_sessions.client.calls import Appended
from durable_sessions.client.session import Session
from durable_sessions.client.transport import Transport


class MemoryCollection:
    """The memory scopes of the workspace."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(
        self,
        scope: str,
        *,
        key: str | None = None,
        q: str | None = None,
        at: int | None = None,
        limit: int = 100,
    ) -> list[dict[str, Any]]:
        """Return live entries of a scope: that of a key, those with these words, or the newest.

        ``at`` is a position of the scope: what was so then. This leaves no trace; ``Session.recall`` does.
        """
        return list(self._transport.paginate(memory_calls.get(scope, key, q, at, limit)))

    def log(self, scope: str, *, start: int = 0, limit: int = 100) -> list[dict[str, Any]]:
        """Return the records of a scope from a position on: writes, reads and roll-backs, in order."""
        return list(self._transport.paginate(memory_calls.log(scope, start, limit)))

    def scopes(self) -> Iterator[dict[str, Any]]:
        """Yield the scopes of the workspace, those that were begun last first."""
        return self._transport.paginate(memory_calls.scopes())

    def roll_back(self, write: str, *, session: Session, reason: str, of: str | None = None) -> Appended:
        """Take a write back; ``session`` records it, ``of`` is the session of the write if another one."""
        return session.append(memory_calls.rolled_back(write, reason, of))
