"""What receives the requests of a parser, and how it stops the parser."""

from collections.abc import Hashable
from typing import Protocol

from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.carrier.message import Request


class RefusedError(Exception):
    """Stops the parser after a request was refused."""


class RequestReceiver(Protocol):
    """Receives the parsed requests: the connection."""

    def request_received(self, request: Request, flags: int) -> None:
        """Answer ``request`` after those before it."""
        ...

    def refuse(self, error: DurableSessionsError, path: bytes | None = None) -> None:
        """Answer ``error`` after the requests before it, then close; nothing more is read.

        ``path`` is given if it is not that of the request being read.
        """
        ...

    def admit(self, request: Request) -> tuple[Hashable, int]:
        """Return the holder that a request is counted for and its largest body, or raise the refusal."""
        ...

    def send_continue(self) -> None:
        """Send ``100 Continue`` for the request being read."""
        ...
