"""One connection, from accept to close; its requests are answered in order.

It owns a parser that turns input into requests, an answerer that sends the answers, and, while requests are
waiting, a read-ahead. Parser and answerer refer back to the connection. These cycles are broken when it ends,
because on a large server the garbage collector never looks at objects this old.

The module is long for a reason: input, turns, hand-over and the end of a connection all read and change the
same three things (the parser's phase, what blocks the answerer, and the read-ahead), and a method of one is
safe only because of what another one leaves behind. Parts of it in classes of their own would also cost
memory and calls, on ten thousand idle connections and on every request.
"""

import asyncio
from collections.abc import Hashable
from typing import cast

from durable_sessions.errors import DurableSessionsError, OverloadedError, ShareExceededError
from durable_sessions.http.carrier.answerer import CLOSED, RUNNING, Answerer
from durable_sessions.http.carrier.connection_holder import ConnectionHolder
from durable_sessions.http.carrier.incomplete_head import SLICE_BYTES
from durable_sessions.http.carrier.known_head import DATA_BYTES_MAX, KnownHead, learn
from durable_sessions.http.carrier.lingering_close import LingeringClose
from durable_sessions.http.carrier.message import KEYLESS, Request
from durable_sessions.http.carrier.read_ahead import ReadAhead, Refused
from durable_sessions.http.carrier.request_parser import (
    IDLE,
    IN_BODY,
    IN_HEAD,
    STOPPED,
    RequestParser,
)
from durable_sessions.http.carrier.request_receiver import RefusedError
from durable_sessions.http.carrier.state import ServerState
from durable_sessions.http.carrier.wire import CONTINUE, HTTP_1_0, LAST_REQUEST

_PATH_BYTES_KEPT = 64
_HEADS_LEARNED_MAX = 8
"""How often a connection may change its headers until no more is learned of them."""


class Connection(asyncio.Protocol):
    """Serves one connection, request by request, until either side closes it."""

    # There may be ten thousand idle connections, so whatever only a busy one needs is created on demand.
    __slots__ = (
        "_answerer",
        "_continue_due",
        "_drained_bytes",
        "_drained_since",
        "_heads_learned",
        "_holder",
        "_idle_since",
        "_known",
        "_movable_at",
        "_parser",
        "_read_ahead",
        "_seen_bytes",
        "_state",
        "_transport",
        "bytes_in",
    )

    _transport: asyncio.Transport
    _parser: RequestParser
    _answerer: Answerer

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._read_ahead: ReadAhead | None = None  # set while requests or input are waiting
        self._continue_due = False
        self._holder = ConnectionHolder(state.connections)
        self.bytes_in = 0
        self._known: KnownHead | None = None
        self._heads_learned = 0
        # State at the last sweep: time-outs are checked there, so that no request has to read the clock.
        self._seen_bytes = -1
        self._idle_since = 0.0
        self._drained_bytes = -1
        self._drained_since = 0.0  # since when no output was drained; 0 if none is waiting
        self._movable_at = 0.0  # when it may be given to another process, by the event loop's time

    @property
    def bytes_out(self) -> int:
        """Bytes of answers, including those that the peer has not read yet."""
        return self._answerer.bytes_out

    # Input ------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse ``data``; the requests that it completes are answered or queued on return."""
        self.bytes_in += len(data)
        if self._parser.phase != IDLE or self._read_ahead is not None or self._answerer.blocked:
            self._parse(data)
            return
        known, state = self._known, self._state
        found = None if known is None else known.request(data)
        if found is not None and state.fast_path is not None and not state.draining:
            assert known is not None
            if self._answerer.answer_fast(state.fast_path, known.common, *found):
                return
        self._parse(data)
        if found is None and self._heads_learned < _HEADS_LEARNED_MAX and data.startswith(b"POST "):
            self._learn(data)

    def _parse(self, data: bytes) -> None:
        if len(data) > SLICE_BYTES or self._read_ahead is not None:
            self._feed_slices(data)
        elif self._parser.phase != STOPPED:
            self._parser.feed(data)

    def _learn(self, data: bytes) -> None:
        """Keep the head of input that was parsed, if it was exactly one request."""
        fast_path = self._state.fast_path
        self._heads_learned += 1
        if fast_path is not None and self._parser.phase == IDLE and len(data) <= DATA_BYTES_MAX:
            known = learn(data, fast_path)
            self._known = None if known is None else self._state.known_heads.same(known)

    def _feed_slices(self, data: bytes) -> None:
        """Parse ``data`` in slices; once the read-ahead is full, keep the rest in it unparsed.

        httptools cannot be paused, so a full read-ahead is noticed only at the end of a slice.
        """
        parser = self._parser
        view = memoryview(data)
        start = 0
        while start < len(view) and parser.phase != STOPPED:
            if self._read_ahead is not None and self._read_ahead.full:
                self._hold(self._read_ahead, bytes(view[start:]))
                return
            end = start + max(SLICE_BYTES, parser.body_bytes_left)
            parser.feed(view[start:end])
            start = end

    def _hold(self, read_ahead: ReadAhead, data: bytes) -> None:
        try:
            read_ahead.hold(data)
        except DurableSessionsError as error:
            self.refuse(error)

    @property
    def _read_paused(self) -> bool:
        return self._read_ahead is not None and self._read_ahead.full

    # Turns ------------------------------------------------------------------------------

    def request_received(self, request: Request, flags: int) -> None:
        """Answer now, or after the requests before it; stop reading while too many are waiting."""
        if not self._holder.is_known:
            self._introduce(request)
        blocked = self._answerer.blocked
        if not blocked:
            self._answerer.answer(request, flags)
        elif not blocked & CLOSED:
            self._continue_due = False
            self._wait_in_turn(request, flags)

    def _introduce(self, request: Request) -> None:
        """Determine the holder, once a request shows it; later only a request with a body can change it."""
        name = self._state.admission.holder(request)
        self._holder.is_known = name != KEYLESS
        try:
            self._held_by(name)
        except ShareExceededError as error:
            self.refuse(error, request.path)
            raise RefusedError from None

    def admit(self, request: Request) -> tuple[Hashable, int]:
        """Return the holder that a request is counted for and its largest body, or raise the refusal."""
        name, body_bytes_max = self._state.admission.admit(request)
        self._held_by(name)
        return self._holder.current, body_bytes_max

    def _held_by(self, name: str | None) -> None:
        """Count this connection for a holder from now on, or for itself; refuse if a key has too many."""
        holder = self._holder
        if name == holder.named:
            return
        holder.change(name)
        if self._read_ahead is not None:
            self._read_ahead.move(holder.current)
        if holder.has_key:
            self._state.showed_key(self)
        holder.require_share()

    def _wait_in_turn(self, request: Request, flags: int) -> None:
        read_ahead = self._waiting()
        try:
            read_ahead.add(request, flags)
        except DurableSessionsError as error:
            self.refuse(error)
            raise RefusedError from None
        if read_ahead.full:
            self._transport.pause_reading()

    def _waiting(self) -> ReadAhead:
        if self._read_ahead is None:
            self._read_ahead = ReadAhead(self._state, self._holder.current)
            self._answerer.others_wait = True
        return self._read_ahead

    def refuse(self, error: DurableSessionsError, path: bytes | None = None) -> None:
        """Answer ``error`` after the requests before it, then close; nothing more is read."""
        parser, blocked = self._parser, self._answerer.blocked
        parser.phase = STOPPED
        if blocked & CLOSED:
            return
        beginning, flags, audience = parser.beginning()
        path = beginning if path is None else path
        # The traceback refers to the request's body, and the refusal may wait for a long time.
        error.__context__ = None
        refused = Refused(error.with_traceback(None), path[:_PATH_BYTES_KEPT], audience)
        parser.forget()
        if self._read_ahead is not None:
            self._read_ahead.take_unparsed()
        if blocked:
            self._waiting().add_refused(refused, flags | LAST_REQUEST)
        else:
            self._send_refusal(refused, flags | LAST_REQUEST)

    def send_continue(self) -> None:
        """Send ``100 Continue`` for the request being read, after the answers before it."""
        if self._answerer.blocked:
            self._continue_due = self._answerer.others_wait = True
        else:
            self._answerer.write(CONTINUE)

    def next_turn(self) -> None:
        """Answer the waiting requests, and read on when none is left."""
        answerer = self._answerer
        while not answerer.blocked:
            read_ahead = self._read_ahead
            if read_ahead is None:
                answerer.others_wait = False
                if self._continue_due:
                    self._continue_due = False
                    answerer.write(CONTINUE)
                return
            waiting = read_ahead.next()
            if waiting is None:
                self._read_on(read_ahead)
            elif isinstance(waiting[0], Refused):
                self._send_refusal(waiting[0], waiting[1])
            else:
                answerer.answer(waiting[0], waiting[1])

    def _read_on(self, read_ahead: ReadAhead) -> None:
        """Parse the input that was kept while the read-ahead was full; it may fill a new read-ahead."""
        self._read_ahead = None
        if read_ahead.full:
            self._feed_slices(read_ahead.take_unparsed())
            if not self._read_paused:
                self._transport.resume_reading()

    def _send_refusal(self, refused: Refused, flags: int) -> None:
        self._answerer.refuse(refused, flags)
        self._linger()

    # Hand-over --------------------------------------------------------------------------

    def lend(self, flags: int) -> int | None:
        """Return the descriptor if nothing but the last request is under way; nothing is read from now on."""
        state = self._state
        now = state.loop.time()
        if (
            flags & (LAST_REQUEST | HTTP_1_0)
            or self._answerer.blocked != RUNNING
            or self._parser.phase != IDLE
            or self._read_ahead is not None
            or self._transport.get_write_buffer_size()
            or state.draining
            or now < self._movable_at
        ):
            return None
        self._movable_at = now + state.limits.hand_over_again_seconds_min
        self._transport.pause_reading()
        descriptor: int = self._transport.get_extra_info("socket").fileno()
        return descriptor

    @property
    def is_settled(self) -> bool:
        """Whether it certainly stays for now, because it moved or was lent a moment ago."""
        return self._state.loop.time() < self._movable_at

    def keep(self) -> None:
        """Read on: the connection was not given away."""
        self._transport.resume_reading()

    def leave(self) -> None:
        """Close our descriptor. The peer does not notice, because another process has one too."""
        self._state.handed_over += 1
        self.abort()

    # Life -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve, unless there are too many connections."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._state.limits.write_buffer_bytes_max)
        self._parser = RequestParser(self._state, self)
        self._answerer = Answerer(self._state, self, self._transport)
        self._state.add(self)
        if self._state.admission.keys_required:
            while self._state.too_many > 0 and self._state.make_room():
                pass
            self._state.came_without_key(self)
        excess = self._state.too_many
        if self._state.draining:
            self._close()
        elif excess > self._state.limits.refused_connections_max:
            self.abort()  # even a refusal takes memory, so only so many connections get one
        elif excess > 0:
            self.refuse(OverloadedError(what="connections"))

    def eof_received(self) -> None:
        """Treat end of input as a disconnect: a half-closed connection cannot be told from a closed one."""
        self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the work for a peer that has gone."""
        self._stop()
        self._release()
        self._state.remove(self)

    def answer_waits(self, piece: bytes) -> None:
        """Note that the peer is not reading its answer; slow readers are cut if there are too many."""
        self._state.answer_waits(self, self._holder.named, piece)

    def pause_writing(self) -> None:
        """Stop sending: the peer does not read as fast as we write."""
        self._answerer.pause_writing()

    def resume_writing(self) -> None:
        """Continue sending: the peer has read what was sent."""
        self._state.answer_taken(self)
        self._answerer.resume_writing()
        self.next_turn()

    def running(self) -> asyncio.Task[None] | None:
        """Return the task that is answering a request, if there is one."""
        return self._answerer.running()

    def end(self) -> None:
        """Close after the last answer. If the peer has sent more, linger so that it can read the answer."""
        if self._read_ahead or self._parser.phase in (IN_HEAD, IN_BODY):
            self._linger()
        else:
            self._close()

    def drain(self) -> None:
        """Accept no new request; close when the current ones have been answered."""
        parser = self._parser
        if parser.phase == IN_BODY:
            parser.flags |= LAST_REQUEST
        elif parser.phase == IDLE and not self._answerer.blocked & RUNNING:
            self._close()

    def abort(self) -> None:
        """Close the connection at once, dropping unsent output."""
        self._mark_closed()
        self._transport.abort()

    def sweep(self, now: float) -> None:
        """Enforce the time-outs as of ``now``; cheap for an idle connection."""
        parser, answerer = self._parser, self._answerer
        if parser.deadline and parser.phase != STOPPED:
            if self._read_paused:
                parser.postpone_deadline(now)
            else:
                parser.time_out(now)
        if answerer.bytes_out != self._drained_bytes:
            self._cut_if_stalled(now)
        if answerer.blocked or parser.phase != IDLE or self.bytes_in != self._seen_bytes:
            self._seen_bytes = self.bytes_in
            self._idle_since = now
        elif now - self._idle_since > self._state.limits.idle_seconds_max:
            self._close()

    def _cut_if_stalled(self, now: float) -> None:
        waiting_bytes = self._transport.get_write_buffer_size()
        drained_bytes = self.bytes_out - waiting_bytes
        if drained_bytes != self._drained_bytes or not self._drained_since:
            self._drained_bytes = drained_bytes
            self._drained_since = now if waiting_bytes else 0.0
        elif now - self._drained_since > self._state.limits.write_stall_seconds_max:
            self.abort()

    def _linger(self) -> None:
        successor = LingeringClose(self._state, self._transport, self.bytes_in, self.bytes_out)
        self._state.replace(self, successor)
        self._transport.set_protocol(successor)
        self._transport.write_eof()
        if self._read_paused:
            self._transport.resume_reading()
        self._stop()
        self._release()

    def _close(self) -> None:
        self._mark_closed()
        self._transport.close()

    def _mark_closed(self) -> None:
        self._answerer.blocked |= CLOSED
        self._parser.phase = STOPPED

    def _stop(self) -> None:
        """Release all shares and cancel the work in progress; idempotent."""
        self._mark_closed()
        if self._read_ahead is not None:
            self._read_ahead.release()
            self._read_ahead = None
        self._parser.forget()
        self._holder.change(None)
        self._answerer.cancel()

    def _release(self) -> None:
        """Break the reference cycles, so that this connection is freed when the transport drops it."""
        self._parser.release()
        self._answerer.release()
