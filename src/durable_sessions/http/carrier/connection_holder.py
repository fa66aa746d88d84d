"""Whom a connection is counted for: the key that its requests show, or itself."""

from collections.abc import Hashable

from durable_sessions.errors import ShareExceededError
from durable_sessions.http.carrier.message import KEYLESS
from durable_sessions.shares import Shares


class ConnectionHolder:
    """The holder of one connection, which is counted among the connections of its key.

    Where there are no keys this object itself is the holder: a connection as its own would be a reference
    cycle.
    """

    __slots__ = ("_connections", "_name", "is_known")

    def __init__(self, connections: Shares) -> None:
        self._connections = connections
        self._name: str | None = None  # None: the connection stands for itself
        self.is_known = False  # whether a request has shown the holder

    @property
    def current(self) -> Hashable:
        """Whom memory and connections are counted for."""
        return self if self._name is None else self._name

    @property
    def named(self) -> str | None:
        """The holder if it is not the connection itself."""
        return self._name

    @property
    def has_key(self) -> bool:
        """Whether the connection has shown a key."""
        return self._name is not None and self._name != KEYLESS

    def change(self, name: str | None) -> None:
        """Count the connection for another holder from now on, None for itself."""
        if self.has_key:
            self._connections.give(self._name, 1)
        self._name = name
        if self.has_key:
            self._connections.take(name, 1)

    def require_share(self) -> None:
        """Refuse a connection more than a key may have."""
        if self.has_key and self._connections.excess(self._name):
            raise ShareExceededError(what="connections", limit="connections_max")
