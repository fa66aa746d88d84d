"""The same application under any ASGI 3 server."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import quote

from durable_sessions.errors import BodyTooLargeError
from durable_sessions.http.errors import error_response
from durable_sessions.http.faults import close_iterator, internal_error
from durable_sessions.http.message import Answer, Handler, Header, Request, Response, StreamingResponse
from durable_sessions.http.wire import BODILESS_STATUSES, COMMON_HEADERS, has_length
from durable_sessions.limits import DEFAULT_LIMITS, Limits

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, Receive, Send], Awaitable[None]]
Hook = Callable[[], Awaitable[None]]


class _DisconnectedError(Exception):
    """The peer went away before its request was complete."""


def asgi_app(
    handler: Handler,
    limits: Limits = DEFAULT_LIMITS,
    *,
    startup: Hook | None = None,
    shutdown: Hook | None = None,
) -> AsgiApp:
    """Return an ASGI application that answers with ``handler``.

    The size of a body is limited here. Connections, time-outs, the size of a head and ``Date``
    are the server's. ``startup`` and ``shutdown`` run in its lifespan.
    """

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _serve(handler, limits, scope, receive, send)
        elif scope["type"] == "lifespan":
            await _live(startup, shutdown, receive, send)
        else:
            raise ValueError(f"the ASGI scope {scope['type']} is not served")

    return app


async def _serve(handler: Handler, limits: Limits, scope: Message, receive: Receive, send: Send) -> None:
    head_only = scope["method"] == "HEAD"
    try:
        request = await _request(limits.append_body_bytes_max, scope, receive)
    except _DisconnectedError:
        return
    except BodyTooLargeError as error:
        await _send_response(error_response(error), head_only, send)
        return
    try:
        answer = handler(request)
    except Exception as error:
        answer = internal_error(error)
    if isinstance(answer, Response):
        await _send_response(answer, head_only, send)
    else:
        await _until_disconnect(_respond(answer, head_only, send), receive)


async def _request(body_bytes_max: int, scope: Message, receive: Receive) -> Request:
    headers: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        headers[name] = headers[name] + b", " + value if name in headers else value
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length) > body_bytes_max:
        raise BodyTooLargeError(append_body_bytes_max=body_bytes_max)
    body = await _read_body(body_bytes_max, receive)
    path = scope.get("raw_path") or quote(scope["path"]).encode()
    return Request(scope["method"].encode(), path, scope["query_string"], headers, body)


async def _read_body(body_bytes_max: int, receive: Receive) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _DisconnectedError
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > body_bytes_max:
            raise BodyTooLargeError(append_body_bytes_max=body_bytes_max)
        if not message.get("more_body", False):
            return b"".join(pieces)


async def _until_disconnect(answering: Awaitable[None], receive: Receive) -> None:
    """Wait for the answer, and cancel it when the peer goes away."""
    answer = asyncio.ensure_future(answering)
    watcher = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((answer, watcher), return_when=asyncio.FIRST_COMPLETED)
    finally:
        watcher.cancel()
        if not answer.done():
            answer.cancel()
        await asyncio.wait((answer, watcher))
    if not answer.cancelled():
        answer.result()  # the server must know about a body that broke off


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _respond(answer: Answer | Awaitable[Answer], head_only: bool, send: Send) -> None:
    if not isinstance(answer, Response | StreamingResponse):
        try:
            answer = await answer
        except Exception as error:
            answer = internal_error(error)
    if isinstance(answer, Response):
        await _send_response(answer, head_only, send)
    else:
        await _send_stream(answer, head_only, send)


async def _send_response(response: Response, head_only: bool, send: Send) -> None:
    headers = _headers(response.headers)
    body = response.body
    if response.status in BODILESS_STATUSES:
        body = b""
    elif not head_only or not has_length(response.headers):
        headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head_only else body})


async def _send_stream(answer: StreamingResponse, head_only: bool, send: Send) -> None:
    try:
        headers = _headers(answer.headers)
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        if not head_only and answer.status not in BODILESS_STATUSES:
            async for chunk in answer.chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        await close_iterator(answer.chunks)


def _headers(headers: list[Header]) -> list[Header]:
    """Return the headers with the common ones, in lower case as ASGI wants it."""
    return [(name.lower(), value) for name, value in (*headers, *COMMON_HEADERS)]


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
