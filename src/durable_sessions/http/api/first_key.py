"""The first key: only someone who can read the data directory may create it.

The proof is a token in a file there. Unlike with a socket, the request goes the same way as any other, in
containers too, and there is no second interface to protect. The file also names the port of its server, so
that the CLI does not send the token to another program that listens on the default address.
"""

import hmac
import os
from pathlib import Path

import msgspec
import structlog

from durable_sessions.errors import FirstKeyRefusedError, UnauthenticatedError
from durable_sessions.http.api.first_key_file import FILE, HEADER, Ticket
from durable_sessions.http.carrier.message import Request

_HEADER = HEADER.lower().encode()

logger = structlog.get_logger(__name__)


class FirstKey:
    """A token that can be used to create one key, while there is none.

    All workers of a server recognise the same one; only the worker that makes keys offers it.
    """

    def __init__(self, data: Path, token: str) -> None:
        self._path = data / FILE
        self._token = token
        self._taken = False

    def offer(self, port: int | None = None) -> None:
        """Write the token to a file that only the server's user can read; a failure stops nothing."""
        # Never over an existing file: O_EXCL refuses a link that somebody has put there.
        self.withdraw()
        self._taken = False
        content = msgspec.json.encode(Ticket(self._token, port))
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
        except OSError as error:
            logger.warning("first_key_file_failed", file=str(self._path), problem=str(error))

    def withdraw(self) -> None:
        """Remove the token's file, even if an earlier process left it."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("first_key_file_stays", file=str(self._path), problem=str(error))

    def is_proven(self, request: Request) -> bool:
        """Say whether a request has the token."""
        given = request.headers.get(_HEADER)
        return given is not None and hmac.compare_digest(given, self._token.encode())

    def take(self, request: Request) -> None:
        """Consume the token of a request; of two concurrent requests, the second one needs a key."""
        if not self.is_proven(request):
            raise FirstKeyRefusedError
        if self._taken:
            raise UnauthenticatedError(problem="Another first key has just been made.")
        self._taken = True

    def give_back(self) -> None:
        """Make the token valid again: no key was created."""
        self._taken = False
