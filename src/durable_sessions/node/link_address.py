"""Where a link listens, and how it is reached: a unix socket on one machine, TCP between machines."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from durable_sessions.node.link_connection import LinkConnection


class LinkAddress(Protocol):
    """An address that one process listens on and others connect to."""

    async def listen(self, make: Callable[[], LinkConnection]) -> asyncio.AbstractServer:
        """Accept connections."""
        ...

    async def connect(self, make: Callable[[], LinkConnection]) -> None:
        """Connect, or raise an OSError."""
        ...

    def forget(self) -> None:
        """Clean up after the listener was closed."""
        ...


class TcpAddress:
    """A port of a machine; port 0 takes a free one, which ``port`` names once it listens."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    @classmethod
    def parse(cls, text: str) -> "TcpAddress":
        """Return the address in ``host:port``, or raise ValueError."""
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise ValueError(f"{text!r} is not host:port")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    async def listen(self, make: Callable[[], LinkConnection]) -> asyncio.AbstractServer:
        """Accept connections."""
        server = await asyncio.get_running_loop().create_server(make, self.host, self.port)
        self.port = int(server.sockets[0].getsockname()[1])
        return server

    async def connect(self, make: Callable[[], LinkConnection]) -> None:
        """Connect, or raise an OSError."""
        await asyncio.get_running_loop().create_connection(make, self.host, self.port)

    def forget(self) -> None:
        """Do nothing: nothing is left."""


class UnixAddress:
    """A unix socket in a directory that only this user can enter."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    async def listen(self, make: Callable[[], LinkConnection]) -> asyncio.AbstractServer:
        """Accept connections; a socket that a dead process left is replaced."""
        self._path.unlink(missing_ok=True)
        server = await asyncio.get_running_loop().create_unix_server(make, str(self._path))
        os.chmod(self._path, 0o600)
        return server

    async def connect(self, make: Callable[[], LinkConnection]) -> None:
        """Connect, or raise an OSError."""
        await asyncio.get_running_loop().create_unix_connection(make, str(self._path))

    def forget(self) -> None:
        """Remove the socket."""
        self._path.unlink(missing_ok=True)
