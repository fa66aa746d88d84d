"""The answering end of one connection of a link: requests in, answers out."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import structlog

from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.carrier.handler_failures import close_iterator, internal_error
from durable_sessions.http.carrier.message import (
    OWN,
    Answer,
    Later,
    Refuse,
    Request,
    Response,
    StreamingResponse,
)
from durable_sessions.limits import Limits
from durable_sessions.node.link_body import ArrivingBody
from durable_sessions.node.link_connection import CLOSED_BY_PEER, CLOSED_HERE, LinkConnection
from durable_sessions.node.link_frames import (
    ANSWER,
    BODY,
    CANCEL,
    CHUNK,
    CREDIT,
    DECLINED,
    DURABLE,
    END,
    HELLO,
    PLAIN,
    PROOF,
    REQUEST,
    STREAM,
    AnswerFrame,
    LinkProtocolError,
    PlainFrame,
    RequestFrame,
    StreamFrame,
    decode_credit,
    decode_plain,
    decode_request,
    encode,
    to_request,
)
from durable_sessions.node.link_handshake import Handshake, LinkRefusedError
from durable_sessions.storage.door import Told

PartitionHandler = Callable[[int, Request], Answer | Awaitable[Answer]]
"""Answers a request for a partition. It never raises: errors are answers too."""

_REGULAR_ENDS = (CLOSED_BY_PEER, CLOSED_HERE)

logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class LinkServerCounts:
    """What has come over links since the start, and is under way now."""

    requests: int = 0
    refused: int = 0
    dropped: int = 0
    open_requests: int = 0
    open_streams: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class PlainAppends(Protocol):
    """Takes plain appends that other processes pass on."""

    def take_sent(self, sent: PlainFrame, told: Told[bytes]) -> bool:
        """Take an append, and tell later what became of it; or say that nothing was done."""
        ...

    def refuse_sent(self, sent: PlainFrame, error: DurableSessionsError) -> Response:
        """Return the answer to an append that was taken, and has failed."""
        ...


@dataclass(slots=True)
class LinkOwner:
    """What all links to one process share: who answers, for those who have one of the secrets."""

    handler: PartitionHandler
    secrets: Sequence[bytes]
    limits: Limits
    refuse: Refuse
    plain: PlainAppends | None = None
    counts: LinkServerCounts = field(default_factory=LinkServerCounts)
    connections: set["LinkAnswerer"] = field(default_factory=set)


class _Exchange:
    """One request under way, from its first frame to the end of its answer."""

    __slots__ = ("body", "credit", "credit_waiter", "head", "path", "request_id", "running")

    def __init__(self, head: RequestFrame) -> None:
        self.head: RequestFrame | None = head  # until the body is complete
        self.body: ArrivingBody | None = None
        self.path = head.path
        self.request_id = head.id
        self.running: asyncio.Future[Any] | None = None
        self.credit = 0
        self.credit_waiter: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Let the answer go on, if it waits."""
        waiter, self.credit_waiter = self.credit_waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class _PlainExchange:
    """One plain append under way."""

    __slots__ = ("_answerer", "_sent", "_stream")

    def __init__(self, answerer: "LinkAnswerer", stream: int, sent: PlainFrame) -> None:
        self._answerer = answerer
        self._stream = stream
        self._sent = sent

    def durable(self, lines: bytes) -> None:
        """Tell the asker that it is durable."""
        self._answerer.plain_durable(self._stream, lines)

    def failed(self, error: DurableSessionsError) -> None:
        """Tell the asker how it was refused."""
        self._answerer.plain_failed(self._stream, self._sent, error)


class LinkAnswerer(LinkConnection):
    """An open connection from another process, whose requests the owner of their partition answers."""

    side = "the owner"
    reads_always = False  # an asker that does not take its answers may not ask on

    def __init__(self, owner: LinkOwner) -> None:
        handlers = {
            REQUEST: self._request,
            PLAIN: self._plain,
            BODY: self._body,
            CREDIT: self._credit,
            CANCEL: self._cancel,
        }
        super().__init__(owner.limits, owner.secrets, handlers)
        self._owner = owner
        self._counts = owner.counts
        self._greeted = False
        self._exchanges: dict[int, _Exchange] = {}
        self._plain_appends = 0
        self._last_stream = 0
        self._arriving_bytes = 0
        self._opening: asyncio.TimerHandle | None = None
        self.tasks: set[asyncio.Task[None]] = set()

    # Opening ----------------------------------------------------------------------------

    def opened(self) -> None:
        """Wait for the greeting, not for ever."""
        self._owner.connections.add(self)
        self._opening = self._loop.call_later(
            self._limits.link_open_seconds_max, self.drop, "it was not opened in time"
        )

    def shake_hands(self, handshake: Handshake, kind: int, payload: bytes) -> None:
        """Answer the greeting, and take the proof of the asking side."""
        try:
            if kind == HELLO and not self._greeted:
                self._greeted = True
                self.send(HELLO, 0, handshake.greet_back(payload))
                if not handshake.version:
                    raise LinkRefusedError("it speaks no version of the link protocol that this program does")
            elif kind == PROOF and self._greeted:
                handshake.check_asker(payload)
                self.send(PROOF, 0, handshake.owner_proof())
                self._handshake = None
                self._opened()
            else:
                raise LinkProtocolError("a link begins with a greeting and a proof")
        except LinkRefusedError as error:
            self._counts.refused += 1
            logger.warning("link_refused", problem=str(error))
            self.close()

    def _opened(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None

    # Requests ---------------------------------------------------------------------------

    def _request(self, stream: int, payload: bytes) -> None:
        self._begin_stream(stream)
        head = decode_request(payload)
        exchange = self._exchanges[stream] = _Exchange(head)
        self._counts.open_requests += 1
        if head.length == len(head.body):
            self._handle(stream, exchange, head.body)
        else:
            self._expect(exchange, head)

    def _begin_stream(self, stream: int) -> None:
        if stream <= self._last_stream:
            raise LinkProtocolError("the number of a request was used before")
        if len(self._exchanges) + self._plain_appends >= self._limits.link_requests_max:
            raise LinkProtocolError("there are more requests than link_requests_max")
        self._last_stream = stream

    def _plain(self, stream: int, payload: bytes) -> None:
        self._begin_stream(stream)
        sent = decode_plain(payload)
        plain = self._owner.plain
        self._counts.requests += 1
        try:
            taken = plain is not None and plain.take_sent(sent, _PlainExchange(self, stream, sent))
        except Exception as error:
            self._answer(stream, OWN, internal_error(self._owner.refuse, error, sent.path, sent.id))
            return
        if taken:
            self._plain_appends += 1
            self._counts.open_requests += 1
        else:
            self.send(DECLINED, stream)

    def plain_durable(self, stream: int, lines: bytes) -> None:
        """Tell the asker that a plain append is durable."""
        if not self.closed:
            self._plain_done()
            self.send(DURABLE, stream, lines)

    def plain_failed(self, stream: int, sent: PlainFrame, error: DurableSessionsError) -> None:
        """Tell the asker how a plain append that was taken is refused."""
        if self.closed or self._owner.plain is None:
            return
        self._plain_done()
        try:
            answer = self._owner.plain.refuse_sent(sent, error)
        except Exception as unexpected:
            answer = internal_error(self._owner.refuse, unexpected, sent.path, sent.id)
        self._answer(stream, OWN, answer)

    def _plain_done(self) -> None:
        self._plain_appends -= 1
        self._counts.open_requests -= 1

    def _expect(self, exchange: _Exchange, head: RequestFrame) -> None:
        limits = self._limits
        if head.length > max(limits.artifact_bytes_max, limits.append_body_bytes_max):
            raise LinkProtocolError(f"a body of {head.length} bytes is larger than any may be")
        self._arriving_bytes += head.length
        if self._arriving_bytes > limits.link_bytes_max:
            raise LinkProtocolError("there are more bytes than link_bytes_max")
        exchange.body = ArrivingBody(head.length, head.body)

    def _body(self, stream: int, piece: bytes) -> None:
        exchange = self._known(stream)
        if exchange is None:
            return
        body = exchange.body
        if body is None:
            raise LinkProtocolError("a piece of a body belongs to no request")
        if body.add(piece):
            exchange.body = None
            self._arriving_bytes -= body.length
            self._handle(stream, exchange, body.whole())

    def _known(self, stream: int) -> _Exchange | None:
        """Return the exchange of a stream; None if it has ended, which the peer may not know yet."""
        exchange = self._exchanges.get(stream)
        if exchange is None and stream > self._last_stream:
            raise LinkProtocolError("a frame belongs to no request")
        return exchange

    def _credit(self, stream: int, payload: bytes) -> None:
        credit = decode_credit(payload)
        exchange = self._known(stream)
        if exchange is not None:
            exchange.credit += credit
            if exchange.credit > self._limits.link_credit_bytes:
                raise LinkProtocolError("there is more credit than link_credit_bytes")
            exchange.wake()

    def _cancel(self, stream: int, payload: bytes) -> None:
        self.drop_rest(stream)
        exchange = self._known(stream)
        if exchange is not None:
            self._forget(stream)
            self._abandon(exchange)

    def _abandon(self, exchange: _Exchange) -> None:
        if exchange.body is not None:
            self._arriving_bytes -= exchange.body.length
            exchange.body = None
        running, exchange.running = exchange.running, None
        if running is not None:
            # In the next turn: a task that is cancelled before its first step never enters its coroutine,
            # and so would not close the iterator it was given.
            self._loop.call_soon(running.cancel)

    def _forget(self, stream: int) -> None:
        if self._exchanges.pop(stream, None) is not None:
            self._counts.open_requests -= 1

    # Answers ----------------------------------------------------------------------------

    def _handle(self, stream: int, exchange: _Exchange, body: bytes) -> None:
        head = exchange.head
        assert head is not None, "the head is kept until the body is complete"
        exchange.head = None
        self._counts.requests += 1
        request = to_request(head, body)
        answer: Answer | Awaitable[Answer]
        try:
            answer = self._owner.handler(head.partition, request)
        except Exception as error:
            answer = self._internal_error(exchange, error)
        audience = request.audience
        if type(answer) is Response:
            self._answer(stream, audience, answer)
        elif type(answer) is Later:
            exchange.running = answer.future
            answer.future.add_done_callback(partial(self._later_done, stream, audience, answer.respond))
        else:
            self._begin(stream, exchange, audience, answer)

    def _begin(
        self, stream: int, exchange: _Exchange, audience: int, answer: Answer | Awaitable[Answer]
    ) -> None:
        """Send an answer that has to be waited for, or is streamed."""
        task = self._loop.create_task(self._run(stream, exchange, audience, answer))
        exchange.running = task
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _internal_error(self, exchange: _Exchange, error: BaseException) -> Response:
        return internal_error(self._owner.refuse, error, exchange.path, exchange.request_id)

    def _later_done(
        self,
        stream: int,
        audience: int,
        respond: Callable[[asyncio.Future[Any]], Answer | Awaitable[Answer]],
        future: asyncio.Future[Any],
    ) -> None:
        exchange = self._exchanges.get(stream)
        if exchange is None or self.closed:
            if not future.cancelled():
                future.exception()  # retrieved, or asyncio would log it as never retrieved
            return
        answer: Answer | Awaitable[Answer]
        try:
            answer = respond(future)
        except (Exception, asyncio.CancelledError) as error:
            answer = self._internal_error(exchange, error)
        if type(answer) is Response:
            self._answer(stream, audience, answer)
        else:
            self._begin(stream, exchange, audience, answer)

    async def _run(
        self, stream: int, exchange: _Exchange, audience: int, answer: Answer | Awaitable[Answer]
    ) -> None:
        if not isinstance(answer, Response | StreamingResponse):
            try:
                answer = await answer
            except asyncio.CancelledError as error:
                if stream not in self._exchanges:
                    raise
                answer = self._internal_error(exchange, error)
            except Exception as error:
                answer = self._internal_error(exchange, error)
        if isinstance(answer, StreamingResponse):
            await self._stream(stream, exchange, audience, answer)
        elif stream in self._exchanges:
            self._answer(stream, audience, answer)

    def _answer(self, stream: int, audience: int, response: Response) -> None:
        self._forget(stream)
        body = response.body
        length, piece_bytes_max = len(body), self._limits.link_piece_bytes_max
        first = body if length <= piece_bytes_max else body[:piece_bytes_max]
        payload = encode(AnswerFrame(audience, response.status, response.headers, length, first))
        if len(payload) > self._limits.link_frame_bytes_max:
            logger.error("answer_too_large_for_link", status=response.status, bytes=len(payload) - len(first))
            self.send(CANCEL, stream)
            return
        self.send(ANSWER, stream, payload)
        if len(first) < length:
            self.send_rest(stream, body, len(first))

    async def _stream(
        self, stream: int, exchange: _Exchange, audience: int, answer: StreamingResponse
    ) -> None:
        self._counts.open_streams += 1
        exchange.credit = self._limits.link_credit_bytes
        ending = CANCEL
        try:
            self.send(STREAM, stream, encode(StreamFrame(audience, answer.status, answer.headers)))
            async for chunk in answer.chunks:
                await self._send_chunk(stream, exchange, memoryview(chunk))
            ending = END
        except asyncio.CancelledError:
            # Either the asking side has gone, or the answer breaks off by itself.
            if stream not in self._exchanges:
                raise
        except Exception as error:
            logger.error("stream_failed", exc_info=error)
        finally:
            self._counts.open_streams -= 1
            if stream in self._exchanges:
                self._forget(stream)
                self.send(ending, stream)
            await close_iterator(answer.chunks)

    async def _send_chunk(self, stream: int, exchange: _Exchange, chunk: memoryview) -> None:
        """Send a chunk in pieces, as far as there is credit and the peer reads."""
        start = 0
        while start < len(chunk):
            while exchange.credit <= 0 or self.write_paused:
                exchange.credit_waiter = self._loop.create_future()
                await exchange.credit_waiter
            end = min(start + exchange.credit, start + self._limits.link_piece_bytes_max, len(chunk))
            self.send(CHUNK, stream, bytes(chunk[start:end]))
            exchange.credit -= end - start
            start = end

    def writable(self) -> None:
        """Let the streamed answers go on: the peer reads again."""
        for exchange in tuple(self._exchanges.values()):
            exchange.wake()

    # Life -------------------------------------------------------------------------------

    def lost(self, reason: str) -> None:
        """Cancel whatever was under way: nobody is left to take the answers."""
        self._opened()
        if self._handshake is not None or reason not in _REGULAR_ENDS:
            self._counts.dropped += 1
            logger.warning("link_dropped", problem=reason)
        exchanges, self._exchanges = self._exchanges, {}
        self._counts.open_requests -= len(exchanges) + self._plain_appends
        self._plain_appends = 0
        for exchange in exchanges.values():
            self._abandon(exchange)
            exchange.wake()
        self._owner.connections.discard(self)
        self._counts.bytes_in += self.bytes_in
        self._counts.bytes_out += self.bytes_out
