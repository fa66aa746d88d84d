"""The first key: only who can read the data directory may make it.

The proof is a token in a file there, and not a socket: the request goes the same way as any other, in
containers too, and there is no second interface to guard. The file also says on which port its server
listens, so that the token is not shown to whatever else has taken an address.
"""

import hmac
import os
from pathlib import Path

import msgspec
import structlog

from durable_sessions.errors import FirstKeyRefusedError, UnauthenticatedError
from durable_sessions.http.carrier.message import Request
from durable_sessions.ids import Ids

FILE = "first-key.json"
HEADER = "Durable-Sessions-First-Key"
_HEADER = HEADER.lower().encode()

logger = structlog.get_logger(__name__)


class Ticket(msgspec.Struct):
    """What lies in the data directory; ``port`` is None as long as the server does not know its own."""

    token: str
    port: int | None = None


class FirstKey:
    """A token that is good for one key, for as long as there is none."""

    def __init__(self, data: Path, ids: Ids) -> None:
        self._path = data / FILE
        self._token = ids.token("") + ids.token("")
        self._taken = False

    def offer(self, port: int | None = None) -> None:
        """Lay the token where only who runs the server can read it; if that fails, the server goes on."""
        self.withdraw()
        content = msgspec.json.encode(Ticket(self._token, port))
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
        except OSError as error:
            logger.warning("first_key_file_failed", file=str(self._path), problem=str(error))

    def withdraw(self) -> None:
        """Remove the token, or what an earlier process has left."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("first_key_file_stays", file=str(self._path), problem=str(error))

    def is_proven(self, request: Request) -> bool:
        """Say whether a request brings the token."""
        given = request.headers.get(_HEADER)
        return given is not None and hmac.compare_digest(given, self._token.encode())

    def take(self, request: Request) -> None:
        """Use up the token for a request that brings it; of two at once the second needs a key."""
        if not self.is_proven(request):
            raise FirstKeyRefusedError
        if self._taken:
            raise UnauthenticatedError(problem="Another first key has just been made.")
        self._taken = True

    def give_back(self) -> None:
        """Let the token serve again: no key was made."""
        self._taken = False
