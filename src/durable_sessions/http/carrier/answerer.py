"""The answers of a connection: each is sent at once, later, or piece by piece."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, Protocol

import structlog

from durable_sessions.errors import DurableSessionsError, LinkLostError
from durable_sessions.http.carrier.handler_failures import close_iterator, internal_error
from durable_sessions.http.carrier.message import (
    OWN,
    Answer,
    FastPath,
    HandOver,
    Later,
    Request,
    Response,
    StreamingResponse,
)
from durable_sessions.http.carrier.read_ahead import Refused
from durable_sessions.http.carrier.state import ServerState
from durable_sessions.http.carrier.wire import (
    BODILESS_STATUSES,
    HEAD_REQUEST,
    HTTP_1_0,
    LAST_CHUNK,
    LAST_REQUEST,
    connection_line,
    encode_parts,
    encode_response,
    encode_stream_head,
    is_chunked,
)

# Reasons why the next request cannot be answered yet: another one is being answered, the peer is not reading,
# or the connection is closed.
RUNNING, WRITE_PAUSED, CLOSED = 1, 2, 4

_log = structlog.get_logger(__name__)


class ConnectionTurns(Protocol):
    """The part of a connection that decides when the next request is answered. It is gone once closed."""

    def next_turn(self) -> None:
        """Answer the next waiting request, if there is one."""
        ...

    def end(self) -> None:
        """Close: the last answer has been given."""
        ...

    def lend(self, flags: int) -> int | None:
        """Return the descriptor of a connection that can be given away; until it is, nothing is read."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether it certainly stays for now, because it was lent a moment ago."""
        ...

    def leave(self) -> None:
        """Forget the connection: another process has it."""
        ...

    def keep(self) -> None:
        """Read on: the connection was not given away."""
        ...

    def answer_waits(self, piece: bytes) -> None:
        """Note that the peer is not reading its answer, so ``piece`` of it stays in memory."""
        ...

    def abort(self) -> None:
        """Close the connection at once, dropping unsent output."""
        ...


class Answerer:
    """Calls the handler and sends what it answers, for one request after the other.

    A handler that answers synchronously costs no task and a single write. If it returns an awaitable,
    that is cancelled when the peer disconnects, so it must not be shared between requests.
    """

    __slots__ = (
        "_answers",
        "_common",
        "_connection",
        "_handler",
        "_heads",
        "_limits",
        "_new_id",
        "_path",
        "_running",
        "_state",
        "_transport",
        "_write_waiter",
        "blocked",
        "bytes_out",
        "others_wait",
        "request_id",
    )

    def __init__(self, state: ServerState, connection: ConnectionTurns, transport: asyncio.Transport) -> None:
        self._state = state
        self._connection = connection
        self._transport = transport
        # Bound here because every answer looks them up.
        self._limits = state.limits
        self._handler = state.handler
        self._answers = state.answers
        self._new_id = state.new_request_id
        self._heads = state.heads[OWN]  # for the request that is being answered
        self.request_id = b""  # of the request that is being answered
        self._path = b""
        self._running: asyncio.Future[Answer] | asyncio.Task[None] | None = None
        self._write_waiter: asyncio.Future[None] | None = None
        self._common: object | None = None  # of the request that the fast path has taken
        self.blocked = 0  # a combination of RUNNING, WRITE_PAUSED and CLOSED
        self.bytes_out = 0
        self.others_wait = False  # whether the connection has something else for its next turn

    def release(self) -> None:
        """Break the reference cycle with the connection, which is closed and will not be called again."""
        assert self.blocked & CLOSED, "an open connection is still needed"
        del self._connection

    def answer(self, request: Request, flags: int) -> None:
        """Answer ``request``; unless it is answered on return, the connection is blocked until it is."""
        request.id = self.request_id = self._new_id()
        self._path = request.path
        try:
            answer = self._handler(request)
        except Exception as error:
            answer = self._internal_error(error)
        self._heads = self._state.heads[request.audience]
        if type(answer) is Response:
            self._send(answer, flags)
        else:
            self._start(answer, request, flags)

    def answer_fast(self, fast_path: FastPath, common: object, target: bytes, body: bytes) -> bool:
        """Answer a request by the fast path when it is durable; or say that the handler has to answer it."""
        self.request_id = self._new_id()
        self._path = target
        try:
            if not fast_path.take(common, target, body, self):
                return False
        except Exception as error:
            self._heads = self._state.heads[OWN]
            self._send(self._internal_error(error), 0)
            return True
        self.blocked |= RUNNING
        self._common = common
        return True

    @property
    def is_settled(self) -> bool:
        """Whether the connection certainly stays here for now."""
        return self._connection.is_settled

    def durable(self, lines: bytes) -> None:
        """Answer a request that the fast path has taken: it is durable."""
        if self.blocked & CLOSED:
            return
        state = self._state
        connection = self._connection  # end() may call release(), which deletes the attribute
        draining = state.draining
        self.blocked &= ~RUNNING
        self._answers[2] += 1
        if draining:
            lines += connection_line(LAST_REQUEST)
        data = b"%b%brequest-id: %b\r\n\r\n" % (state.heads[OWN][204], lines, self.request_id)
        self.bytes_out += len(data)
        self._transport.write(data)
        if self.blocked & WRITE_PAUSED:
            connection.answer_waits(b"")
        if draining:
            connection.end()
        if self.others_wait:
            state.loop.call_soon(connection.next_turn)  # it may take long, and others are being answered

    def failed(self, error: DurableSessionsError) -> None:
        """Answer a request that the fast path has taken: it has failed."""
        fast_path = self._state.fast_path
        if self.blocked & CLOSED or fast_path is None:
            return
        try:
            answer = fast_path.refusal(self._common, self._path, error, self.request_id)
        except Exception as unexpected:
            answer = self._internal_error(unexpected)
        self.refused(answer)

    def refused(self, answer: Response) -> None:
        """Answer a request that the fast path has taken with what another process says."""
        self._heads = self._state.heads[OWN]
        self._finish(answer, 0)

    def declined(self, body: bytes) -> None:
        """Have the handler answer a request that the fast path has passed on, and that changed nothing."""
        fast_path = self._state.fast_path
        if self.blocked & CLOSED or fast_path is None:
            return
        request = fast_path.whole(self._common, self._path, body)
        request.id = self.request_id
        try:
            answer = self._handler(request)
        except Exception as error:
            answer = self._internal_error(error)
        self._heads = self._state.heads[request.audience]
        if type(answer) is Response:
            self._finish(answer, 0)
        else:
            self._start(answer, request, 0)

    def refuse(self, refused: Refused, flags: int) -> None:
        """Send the answer to a request that the handler never sees."""
        request_id = self._new_id()
        response = self._state.refuse(refused.path, refused.error, request_id)
        self._answers[response.status // 100] += 1
        self.write(encode_response(self._state.heads[refused.audience], response, flags, request_id))

    def _start(self, answer: Answer | Awaitable[Answer], request: Request, flags: int) -> None:
        self.blocked |= RUNNING
        if type(answer) is HandOver and self._connection.is_settled:
            answer = answer.forward()
        if type(answer) is Later:
            self._running = answer.future
            answer.future.add_done_callback(partial(self._later_done, request, flags, answer.respond))
        elif isinstance(answer, asyncio.Future):
            self._running = answer
            answer.add_done_callback(partial(self._later_done, request, flags, asyncio.Future.result))
        elif type(answer) is HandOver:
            # The task begins in the next turn, when all that came with the request has been parsed.
            self._running = self._state.loop.create_task(self._hand_over(answer, request, flags))
        else:
            self._running = self._state.loop.create_task(self._run(answer, flags))

    def _later_done(
        self,
        request: Request,
        flags: int,
        respond: Callable[[asyncio.Future[Any]], Answer | Awaitable[Answer]],
        future: asyncio.Future[Any],
    ) -> None:
        answer: Answer | Awaitable[Answer]
        try:
            answer = respond(future)
        except (Exception, asyncio.CancelledError) as error:
            if self.blocked & CLOSED and future.cancelled():
                return
            answer = self._internal_error(error)
        # Another process may have answered: it is the one that has checked the origin of the request.
        self._heads = self._state.heads[request.audience]
        if type(answer) is Response:
            self._finish(answer, flags)
        else:
            self._running = self._state.loop.create_task(self._run(answer, flags))

    async def _hand_over(self, answer: HandOver, request: Request, flags: int) -> None:
        if self.blocked & CLOSED:
            return
        descriptor = self._connection.lend(flags)
        if descriptor is not None:
            try:
                given = await answer.give(descriptor, request)
            except Exception as error:
                _log.error("hand_over_failed", exc_info=error)
                given = False
            if self.blocked & CLOSED:
                return
            if given:
                self._running = None
                self._connection.leave()
                return
            self._connection.keep()
        forwarded = await self._awaited(answer)
        self._heads = self._state.heads[request.audience]
        await self._run(forwarded, flags)

    async def _run(self, answer: Answer | Awaitable[Answer], flags: int) -> None:
        answer = await self._awaited(answer)
        if isinstance(answer, StreamingResponse):
            await self._stream(answer, flags)
        else:
            self._finish(answer, flags)

    async def _awaited(self, answer: Answer | Awaitable[Answer]) -> Answer:
        if not isinstance(answer, Response | StreamingResponse):
            try:
                answer = await answer
            except asyncio.CancelledError as error:
                if self.blocked & CLOSED:
                    raise
                answer = self._internal_error(error)
            except Exception as error:
                answer = self._internal_error(error)
        return answer

    def _finish(self, response: Response, flags: int) -> None:
        if self.blocked & CLOSED:
            return
        connection = (
            self._connection
        )  # _send may end the connection, and release() then deletes the attribute
        self._running = None
        self.blocked &= ~RUNNING
        self._send(response, flags | LAST_REQUEST if self._state.draining else flags)
        connection.next_turn()

    def _send(self, response: Response, flags: int) -> None:
        try:
            parts = encode_parts(self._heads, response, flags, self.request_id)
            self._answers[response.status // 100] += 1
        except Exception as error:
            parts = encode_parts(self._heads, self._internal_error(error), flags, self.request_id)
            self._answers[5] += 1
        body = parts[-1]
        if len(body) > self._limits.write_buffer_bytes_max:
            self.bytes_out += sum(map(len, parts))
            self._transport.writelines(parts)
        else:
            data = b"".join(parts)
            self.bytes_out += len(data)
            self._transport.write(data)
        if self.blocked & WRITE_PAUSED:
            self._connection.answer_waits(body)
        if flags & LAST_REQUEST:
            self._connection.end()

    def _internal_error(self, error: BaseException) -> Response:
        return internal_error(self._state.refuse, error, self._path, self.request_id)

    def write(self, data: bytes) -> None:
        """Send bytes after everything written before."""
        self.bytes_out += len(data)
        self._transport.write(data)

    def _write_chunk(self, chunk: bytes) -> None:
        if len(chunk) <= self._limits.write_buffer_bytes_max:
            self.write(b"".join((b"%x\r\n" % len(chunk), chunk, b"\r\n")))
            return
        # Written without joining, which would copy it: a thousand connections may be sending the same chunk.
        size = b"%x\r\n" % len(chunk)
        self.bytes_out += len(size) + len(chunk) + len(b"\r\n")
        self._transport.writelines((size, chunk, b"\r\n"))

    async def _stream(self, answer: StreamingResponse, flags: int) -> None:
        if flags & HTTP_1_0 or self._state.draining:
            flags |= LAST_REQUEST
        try:
            head = encode_stream_head(self._heads, answer.status, answer.headers, flags, self.request_id)
            self._answers[answer.status // 100] += 1
        except Exception as error:
            await close_iterator(answer.chunks)
            self._finish(self._internal_error(error), flags)
            return
        try:
            if not self.blocked & CLOSED:
                self.write(head)
                if not flags & HEAD_REQUEST and answer.status not in BODILESS_STATUSES:
                    await self._send_chunks(answer.chunks, chunked=is_chunked(answer.headers, flags))
        except BaseException as error:
            # The final chunk is not sent, so the peer can tell that the body is incomplete.
            self._abort()
            if not isinstance(error, Exception):
                raise
            if not isinstance(error, LinkLostError):  # the link has said so, once for all its answers
                _log.error("stream_failed", exc_info=error)
        finally:
            await close_iterator(answer.chunks)
        if self.blocked & CLOSED:
            return
        connection = self._connection  # end() may call release(), which deletes the attribute
        self._running = None
        self.blocked &= ~RUNNING
        if flags & LAST_REQUEST or self._state.draining:
            connection.end()
        connection.next_turn()

    async def _send_chunks(self, chunks: AsyncIterator[bytes], *, chunked: bool) -> None:
        async for chunk in chunks:
            if self.blocked & CLOSED:
                return  # the peer disconnected while the chunk was being produced
            if not chunk:
                continue  # an empty chunk would end the body
            if chunked:
                self._write_chunk(chunk)
            else:
                self.write(chunk)
            if self.blocked & WRITE_PAUSED:
                self._connection.answer_waits(chunk)
            while self.blocked & WRITE_PAUSED:
                self._write_waiter = self._state.loop.create_future()
                await self._write_waiter
        if chunked and not self.blocked & CLOSED:
            self.write(LAST_CHUNK)

    def pause_writing(self) -> None:
        """Stop sending: the peer does not read as fast as we write."""
        self.blocked |= WRITE_PAUSED

    def resume_writing(self) -> None:
        """Continue sending after :meth:`pause_writing`."""
        self.blocked &= ~WRITE_PAUSED
        waiter, self._write_waiter = self._write_waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def running(self) -> asyncio.Task[None] | None:
        """Return the task that is answering a request, if there is one."""
        return self._running if isinstance(self._running, asyncio.Task) else None

    def cancel(self) -> None:
        """Cancel the answer in progress, whose peer has disconnected."""
        running, self._running = self._running, None
        if running is not None:
            # In the next iteration of the loop: a task that is cancelled before its first step never enters
            # its coroutine, and so would not close the iterator it was given.
            self._state.loop.call_soon(running.cancel)

    def _abort(self) -> None:
        if self.blocked & CLOSED:
            self._transport.abort()
        else:
            self._connection.abort()
