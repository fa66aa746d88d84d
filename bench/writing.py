"""One writer on one connection, with nothing between it and the socket."""

import socket
from urllib.parse import urlsplit

from bench import feeding

SECONDS_MAX = 60.0


class Writer:
    """Appends one after the other and waits for each to be acknowledged."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def post(self, path: str, body: bytes) -> None:
        """Append a JSON body; return when it was acknowledged with 204, which has no body."""
        self._socket.sendall(feeding.post(path, body))
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            piece = self._socket.recv(65536)
            if not piece:
                raise ConnectionError("the server closed the writer's connection")
            answer += piece
        if b" 204 " not in answer[:20]:
            raise ConnectionError(f"an append was answered {answer[:80]!r}")
