"""A light client for catch-up reads: a blocking socket, one buffer, no parsing of what is read."""

import socket
from typing import NamedTuple
from urllib.parse import urlsplit

BUFFER_BYTES = 32 * 1024 * 1024
SECONDS_MAX = 60.0


class Pass(NamedTuple):
    """One read of a stream from its beginning to its end."""

    body_bytes: int
    requests: int


class Reader:
    """One connection that reads streams as fast as they come."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb", 256 * 1024)
        self._buffer = memoryview(bytearray(BUFFER_BYTES))

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def catch_up(self, path: str, query: str = "") -> Pass:
        """Read a stream by following ``Stream-Next-Offset`` until the answer says that it is up to date."""
        offset, size, requests = "-1", 0, 0
        while True:
            headers, length = self.get(f"{path}?{query}offset={offset}")
            size += length
            requests += 1
            if headers.get(b"stream-up-to-date") == b"true":
                return Pass(size, requests)
            offset = headers[b"stream-next-offset"].decode()

    def get(self, target: str) -> tuple[dict[bytes, bytes], int]:
        """Return the headers of one answer and the length of its body, which is in the buffer."""
        self._socket.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        status = self._file.readline().split(b" ", 2)
        headers: dict[bytes, bytes] = {}
        while (line := self._file.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        if len(status) < 2 or status[1] != b"200":
            raise ConnectionError(f"{target} was answered {status}")
        if headers.get(b"transfer-encoding") == b"chunked":
            return headers, self._read_chunks()
        return headers, self._read(0, int(headers[b"content-length"]))

    def _read_chunks(self) -> int:
        total = 0
        while (size := int(self._file.readline(), 16)) > 0:
            total += self._read(total, size)
            self._file.readline()
        self._file.readline()
        return total

    def _read(self, at: int, length: int) -> int:
        if at + length > BUFFER_BYTES:
            raise ValueError("an answer is larger than the buffer")
        if self._file.readinto(self._buffer[at : at + length]) != length:  # type: ignore[attr-defined]
            raise ConnectionError("the connection ended within an answer")
        return length

    def body(self, length: int) -> bytes:
        """Return the body of the last answer."""
        return bytes(self._buffer[:length])
