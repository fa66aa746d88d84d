"""One connection: its requests in their turn, and its life from accepting to losing it."""

import asyncio
from collections.abc import Hashable
from typing import NamedTuple, cast

from durable_sessions.errors import DurableSessionsError, OverloadedError, ShareExceededError
from durable_sessions.http.carrier.answering import CLOSED, RUNNING, Answerer
from durable_sessions.http.carrier.lingering import Lingering
from durable_sessions.http.carrier.message import OWN, STRANGERS, Request
from durable_sessions.http.carrier.parsing import IDLE, IN_BODY, IN_HEAD, STOPPED, RefusedError
from durable_sessions.http.carrier.state import ServerState
from durable_sessions.http.carrier.wire import CONTINUE, HEAD_REQUEST, LAST_REQUEST, encode_response

_PATH_BYTES_KEPT = 64


class Refused(NamedTuple):
    """A request that is refused when its turn comes; the beginning of its path tells in which shape."""

    error: DurableSessionsError
    path: bytes
    audience: int = OWN


class Connection(Answerer):
    """Serves one connection, in the order of its requests, until either side ends it."""

    __slots__ = (
        "_continue_due",
        "_drained_bytes",
        "_drained_since",
        "_idle_since",
        "_introduced",
        "_queue",
        "_queue_bytes",
        "_seen_bytes",
    )

    def __init__(self, state: ServerState) -> None:
        super().__init__(state)
        # A list, because it is short, and mostly empty, and ten thousand of them must be small.
        self._queue: list[tuple[Request | Refused, int]] = []
        self._queue_bytes = 0
        self._continue_due = False
        self._introduced = False  # whether it is known whose connection this is
        # What the last sweep saw; so no request has to look at the time.
        self._seen_bytes = -1
        self._idle_since = 0.0
        self._drained_bytes = -1
        self._drained_since = 0.0  # 0: nothing was waiting to be sent

    # Turns ------------------------------------------------------------------------------

    def request_received(self, request: Request, flags: int) -> None:
        """Answer now, or in turn; stop reading while much is waiting."""
        if not self._introduced:
            self._introduce(request)
        if not self._blocked:
            self.answer(request, flags)
        elif not self._blocked & CLOSED:
            self._continue_due = False
            self._wait_in_turn(request, flags)

    def _introduce(self, request: Request) -> None:
        """Find out whose connection this is; once that is a key it stays so, until a body says otherwise."""
        holder = self._state.admission.holder(request)
        self._introduced = holder != STRANGERS
        self.held_by(holder, request.path)

    def held_by(self, holder: str | None, path: bytes | None = None) -> None:
        """Count what the connection holds for a key from now on, or for itself; refuse one key too many."""
        known: Hashable = self._own if holder is None else holder
        if known == self._holder:
            return
        state = self._state
        state.requests.move(self._holder, known, len(self.held) + self._queue_bytes)
        self._leave_share()
        self._holder = known
        if self._has_key():
            state.showed_key(self)
            state.connections.take(known, 1)
            if state.connections.excess(known):
                self.refuse(ShareExceededError(what="connections", limit="connections_max"), path)
                raise RefusedError

    def _has_key(self) -> bool:
        return self._holder is not self._own and self._holder != STRANGERS

    def _leave_share(self) -> None:
        if self._has_key():
            self._state.connections.give(self._holder, 1)

    def _wait_in_turn(self, request: Request, flags: int) -> None:
        limits = self._limits
        size = request.size()
        requests = self._state.requests
        if not requests.try_take(self._holder, size):
            self._reject(self._too_many_bytes(requests))
        self._queue.append((request, flags))
        self._queue_bytes += size
        if (
            len(self._queue) >= limits.pipeline_requests_max
            or self._queue_bytes > limits.read_ahead_bytes_max
        ):
            self.read_paused = True
            self._transport.pause_reading()

    def refuse(self, error: DurableSessionsError, path: bytes | None = None) -> None:
        """Answer ``error`` in turn, then close; nothing more is read."""
        self.phase = STOPPED
        if self._blocked & CLOSED:
            return
        flags = LAST_REQUEST
        if self._url and self._parser.get_method() == b"HEAD":
            flags |= HEAD_REQUEST
        path = self._url.partition(b"?")[0] if path is None else path
        audience = OWN if self._request is None else self._request.audience
        refused = Refused(error, path[:_PATH_BYTES_KEPT], audience)
        self.forget_input()
        if self._blocked:
            self._queue.append((refused, flags))
        else:
            self._send_refusal(refused, flags)

    def send_continue(self) -> None:
        """Tell the peer, in turn, that the body of the request being read is wanted."""
        if self._blocked:
            self._continue_due = True
        else:
            self._write(CONTINUE)

    def next_turn(self) -> None:
        """Answer what has been waiting, and read on when nothing waits any more."""
        while not self._blocked:
            if self._queue:
                request, flags = self._queue.pop(0)
                if isinstance(request, Refused):
                    self._send_refusal(request, flags)
                else:
                    size = request.size()
                    self._queue_bytes -= size
                    self._state.requests.give(self._holder, size)
                    self.answer(request, flags)
            elif self.read_paused:
                self.read_paused = False
                self.feed_slices(self.take_held())
                if not self.read_paused:
                    self._transport.resume_reading()
            else:
                if self._continue_due:
                    self._continue_due = False
                    self._write(CONTINUE)
                return

    def _send_refusal(self, refused: Refused, flags: int) -> None:
        request_id = self._new_id()
        response = self._state.refuse(refused.path, refused.error, request_id)
        self._answers[response.status // 100] += 1
        self._write(encode_response(self._all_heads[refused.audience], response, flags, request_id))
        self._linger()

    # Life -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve, unless there are too many."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes_max)
        self._state.add(self)
        if self._state.admission.keys_required:
            while self._state.too_many > 0 and self._state.make_room():
                pass
            self._state.came_without_key(self)
        excess = self._state.too_many
        if self._state.draining:
            self._close()
        elif excess > self._limits.refused_connections_max:
            self.abort()
        elif excess > 0:
            self.refuse(OverloadedError(what="connections"))

    def eof_received(self) -> None:
        """Take the end of the input for the end of the peer: a half-closed one cannot be told apart."""
        self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel what nobody waits for any more."""
        self._stop()
        del self._parser  # it refers back to us
        self._state.remove(self)

    def answer_waits(self, piece: bytes) -> None:
        """Note that the peer does not take the answer; whoever keeps others from theirs is cut."""
        self._state.answer_waits(self, None if self._holder is self._own else self._holder, piece)

    def resume_writing(self) -> None:
        """Go on: the peer has taken what was sent."""
        self._state.answer_taken(self)
        super().resume_writing()

    def running(self) -> asyncio.Task[None] | None:
        """Return the task that is answering a request, if there is one."""
        return self._running if isinstance(self._running, asyncio.Task) else None

    def end(self) -> None:
        """Close: the last answer has been given. A peer that has sent more may need time to read it."""
        if self._queue or self.held or self.phase in (IN_HEAD, IN_BODY):
            self._linger()
        else:
            self._close()

    def drain(self) -> None:
        """Take no new request; close when what is under way has been answered."""
        self.draining = True
        if self.phase == IN_BODY:
            self.flags |= LAST_REQUEST
        elif self.phase == IDLE and not self._blocked & RUNNING:
            self._close()

    def sweep(self, now: float) -> None:
        """End what has taken too long at ``now``; of an idle connection this looks at little."""
        if self.deadline:
            self.time_out(now)
        if self.bytes_out != self._drained_bytes:
            self._cut_if_stalled(now)
        if self._blocked or self.phase != IDLE or self.bytes_in != self._seen_bytes:
            self._seen_bytes = self.bytes_in
            self._idle_since = now
        elif now - self._idle_since > self._limits.idle_seconds_max:
            self._close()

    def _cut_if_stalled(self, now: float) -> None:
        waiting_bytes = self._transport.get_write_buffer_size()
        drained_bytes = self.bytes_out - waiting_bytes
        if drained_bytes != self._drained_bytes or not self._drained_since:
            self._drained_bytes = drained_bytes
            self._drained_since = now if waiting_bytes else 0.0
        elif now - self._drained_since > self._limits.write_stall_seconds_max:
            self.abort()

    def _linger(self) -> None:
        successor = Lingering(self._state, self._transport, self.bytes_in, self.bytes_out)
        self._state.replace(self, successor)
        self._transport.set_protocol(successor)
        self._transport.write_eof()
        if self.read_paused:
            self._transport.resume_reading()
        self._stop()
        del self._parser  # it refers back to us

    def _close(self) -> None:
        self._blocked |= CLOSED
        self.phase = STOPPED
        self._transport.close()

    def _stop(self) -> None:
        self._blocked |= CLOSED
        self.phase = STOPPED
        self._queue.clear()
        self._state.requests.give(self._holder, self._queue_bytes)
        self._queue_bytes = 0
        self.forget_input()
        self._leave_share()
        self._holder = self._own
        running, self._running = self._running, None
        if running is not None:
            # Not at once: a coroutine that has never run would not close what it was given.
            self._loop.call_soon(running.cancel)
