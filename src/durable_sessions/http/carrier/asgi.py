"""The same application under any ASGI 3 server."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import quote

from durable_sessions.errors import ArtifactTooLargeError, BodyTooLargeError, DurableSessionsError
from durable_sessions.http.carrier.handler_failures import close_iterator, internal_error
from durable_sessions.http.carrier.message import (
    Answer,
    AnswerFormat,
    BodyLimit,
    Handler,
    Header,
    Request,
    Response,
    StreamingResponse,
)
from durable_sessions.http.carrier.request_ids import RequestIds
from durable_sessions.http.carrier.wire import BODILESS_STATUSES, has_length
from durable_sessions.limits import DEFAULT_LIMITS, Limits

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, Receive, Send], Awaitable[None]]
Hook = Callable[[], Awaitable[None]]


class _DisconnectedError(Exception):
    """The peer disconnected before its request was complete."""


def asgi_app(
    handler: Handler,
    limits: Limits = DEFAULT_LIMITS,
    *,
    answer_format: AnswerFormat,
    body_limit: BodyLimit | None = None,
    startup: Hook | None = None,
    shutdown: Hook | None = None,
) -> AsgiApp:
    """Return an ASGI application that answers with ``handler``.

    The size of a body is limited here: to that of an append, unless ``body_limit`` returns another limit.
    ``body_limit`` is called before the body is read and may refuse the request. ``answer_format`` comes from
    the application (``http/api/answer_format.py``). The ASGI server is responsible for connections,
    time-outs, the size of a head and ``Date``. ``startup`` and ``shutdown`` run in its lifespan.
    """
    body_limit = body_limit or (lambda request: limits.append_body_bytes_max)
    carrier = _Carrier(handler, limits, body_limit, answer_format)

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await carrier.serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _live(startup, shutdown, receive, send)
        else:
            raise ValueError(f"the ASGI scope {scope['type']} is not served")

    return app


class _Carrier:
    """Passes ASGI requests to the handler and sends its answers."""

    def __init__(
        self, handler: Handler, limits: Limits, body_limit: BodyLimit, answer_format: AnswerFormat
    ) -> None:
        self._handler = handler
        self._append_body_bytes_max = limits.append_body_bytes_max
        self._body_limit = body_limit
        self._format = answer_format
        self._ids = RequestIds()

    async def serve(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        head_only = scope["method"] == "HEAD"
        request = _request(scope)
        request.id = self._ids.new()
        answering = _Answering(request, head_only, send, self._format)
        try:
            request.body = await self._body(request, receive)
        except _DisconnectedError:
            return
        except DurableSessionsError as error:
            await answering.send_response(self._format.refuse(request.path, error, request.id))
            return
        try:
            answer = self._handler(request)
        except Exception as error:
            answer = internal_error(self._format.refuse, error, request.path, request.id)
        if isinstance(answer, Response):
            await answering.send_response(answer)
        else:
            await _until_disconnect(answering.respond(answer), receive)

    async def _body(self, request: Request, receive: Receive) -> bytes:
        length = request.headers.get(b"content-length", b"")
        bytes_max = self._append_body_bytes_max if length == b"0" else self._body_limit(request)
        if length.isdigit() and int(length) > bytes_max:
            raise self._too_large(bytes_max)
        body = await _read_body(bytes_max, receive)
        if body is None:
            raise self._too_large(bytes_max)
        return body

    def _too_large(self, bytes_max: int) -> DurableSessionsError:
        if bytes_max > self._append_body_bytes_max:
            return ArtifactTooLargeError(artifact_bytes_max=bytes_max)
        return BodyTooLargeError(append_body_bytes_max=bytes_max)


def _request(scope: Message) -> Request:
    headers: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        headers[name] = headers[name] + b", " + value if name in headers else value
    # ``raw_path`` is optional in ASGI; without it, the path was decoded and has to be encoded again.
    path = scope.get("raw_path") or quote(scope["path"]).encode()
    return Request(scope["method"].encode(), path, scope["query_string"], headers, b"")


async def _read_body(body_bytes_max: int, receive: Receive) -> bytes | None:
    """Return the whole body, None if it is too large."""
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _DisconnectedError
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > body_bytes_max:
            return None
        if not message.get("more_body", False):
            return b"".join(pieces)


async def _until_disconnect(answering: Awaitable[None], receive: Receive) -> None:
    """Wait for the answer, and cancel it when the peer disconnects."""
    answer = asyncio.ensure_future(answering)
    watcher = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((answer, watcher), return_when=asyncio.FIRST_COMPLETED)
    finally:
        watcher.cancel()
        if not answer.done():
            answer.cancel()
        # Waited for even when cancelled: the answer closes its iterator, and releases what that holds.
        await asyncio.wait((answer, watcher))
    if not answer.cancelled():
        answer.result()  # raises if the body broke off, so that the ASGI server closes the connection


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _Answering:
    """Sends the answer to one request."""

    def __init__(self, request: Request, head_only: bool, send: Send, answer_format: AnswerFormat) -> None:
        self._request = request
        self._head_only = head_only
        self._send = send
        self._format = answer_format

    async def respond(self, answer: Answer | Awaitable[Answer]) -> None:
        """Send an answer as soon as it is available."""
        if not isinstance(answer, Response | StreamingResponse):
            try:
                answer = await answer
            except Exception as error:
                answer = internal_error(self._format.refuse, error, self._request.path, self._request.id)
        if isinstance(answer, Response):
            await self.send_response(answer)
        else:
            await self._send_stream(answer)

    async def send_response(self, response: Response) -> None:
        """Send a whole answer."""
        headers = self._headers(response.headers)
        body = response.body
        if response.status in BODILESS_STATUSES:
            body = b""
        elif not self._head_only or not has_length(response.headers):
            headers.append((b"content-length", b"%d" % len(body)))
        await self._send({"type": "http.response.start", "status": response.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": b"" if self._head_only else body})

    async def _send_stream(self, answer: StreamingResponse) -> None:
        try:
            headers = self._headers(answer.headers)
            await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})
            if not self._head_only and answer.status not in BODILESS_STATUSES:
                async for chunk in answer.chunks:
                    await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
            await self._send({"type": "http.response.body", "body": b""})
        finally:
            await close_iterator(answer.chunks)

    def _headers(self, headers: list[Header]) -> list[Header]:
        """Return the headers with the common ones, in lower case as ASGI wants it."""
        common = (*self._format.common_headers[self._request.audience], (b"request-id", self._request.id))
        return [(name.lower(), value) for name, value in (*headers, *common)]


async def _live(startup: Hook | None, shutdown: Hook | None, receive: Receive, send: Send) -> None:
    for hook in (startup, shutdown):
        event = (await receive())["type"]
        try:
            if hook is not None:
                await hook()
        except Exception as error:
            await send({"type": f"{event}.failed", "message": str(error)})
            raise
        await send({"type": f"{event}.complete"})
