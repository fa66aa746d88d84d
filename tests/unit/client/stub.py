"""A server that answers what a test says, in order, and remembers what it was asked."""

import json
from typing import Any

import httpx2

from durable_sessions import AsyncClient, Client

Reply = httpx2.Response | Exception


class Stub:
    """Answers with one reply after the other; the last one stays."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        self.requests.append(request)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        return httpx2.Response(reply.status_code, headers=reply.headers, content=reply.content)

    async def asked(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a client that awaits."""
        await request.aread()
        return self(request)

    def client(self, retries: int = 3) -> Client:
        """Return a client of this server."""
        return Client("http://stub", "key", retries=retries, transport=httpx2.MockTransport(self))

    def async_client(self, retries: int = 3) -> AsyncClient:
        """Return an async client of this server."""
        return AsyncClient("http://stub", "key", retries=retries, transport=httpx2.MockTransport(self.asked))

    def numbers(self) -> list[tuple[int, int]]:
        """Return the epoch and sequence of all appends."""
        return [
            (int(request.headers["producer-epoch"]), int(request.headers["producer-seq"]))
            for request in self.requests
        ]


def said(status: int, value: Any = None, **headers: str) -> httpx2.Response:
    """Return an answer; underscores in the names of headers are dashes."""
    fields = {name.replace("_", "-"): text for name, text in headers.items()}
    return httpx2.Response(
        status, headers=fields, content=b"" if value is None else json.dumps(value).encode()
    )


def refusal(status: int, code: str, message: str = "No.", **headers: str) -> httpx2.Response:
    """Return a refusal in the shape of the sessions face."""
    error = {"type": "some_error", "message": message, "details": {"error_code": code}}
    return said(status, {"type": "error", "error": error}, request_id="req_1", **headers)


STORED = said(204, stream_next_offset="0000000000000000_0000000000000001")
LOST = httpx2.ReadError("connection reset")
UNSENT = httpx2.ConnectError("connection refused")
