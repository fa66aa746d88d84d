"""Where a link listens, and how it is reached: a unix socket on one machine, TCP between machines."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from durable_sessions.node.link_connection import LinkConnection
from durable_sessions.node.link_tls import LinkTls
from durable_sessions.settings import Settings

_TLS_SECONDS_MAX = 5.0
"""How long the TLS handshake of a connection may take."""


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
    """A port of a machine; port 0 takes a free one, which ``port`` names once it listens.

    With ``tls`` connections are encrypted, and both sides check each other's certificates.
    """

    def __init__(self, host: str, port: int, tls: LinkTls | None = None) -> None:
        self.host = host
        self.port = port
        self.tls = tls

    @classmethod
    def parse(cls, text: str, tls: LinkTls | None = None) -> "TcpAddress":
        """Return the address in ``host:port``, or raise ValueError."""
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise ValueError(f"{text!r} is not host:port")
        return cls(host.strip("[]"), int(port), tls)

    def __str__(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    async def listen(self, make: Callable[[], LinkConnection]) -> asyncio.AbstractServer:
        """Accept connections."""
        loop, tls = asyncio.get_running_loop(), self.tls
        if tls is None:
            server = await loop.create_server(make, self.host, self.port)
        else:
            server = await loop.create_server(
                make, self.host, self.port, ssl=tls.listening, ssl_handshake_timeout=_TLS_SECONDS_MAX
            )
        self.port = int(server.sockets[0].getsockname()[1])
        return server

    async def connect(self, make: Callable[[], LinkConnection]) -> None:
        """Connect, or raise an OSError."""
        loop, tls = asyncio.get_running_loop(), self.tls
        if tls is None:
            await loop.create_connection(make, self.host, self.port)
        else:
            await loop.create_connection(
                make, self.host, self.port, ssl=tls.asking, ssl_handshake_timeout=_TLS_SECONDS_MAX
            )

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


def link_address(settings: Settings) -> TcpAddress:
    """Return where a node of a cluster listens for links; SettingsError if others would not connect to it."""
    address = TcpAddress.parse(settings.link, LinkTls.open(settings))
    if address.tls is not None:
        address.tls.require_accepted(address.host)
    return address
