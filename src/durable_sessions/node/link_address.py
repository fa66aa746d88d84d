"""Where a link listens, and how it is reached: a unix socket today."""

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
