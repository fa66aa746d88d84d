"""The receiving half of a connection: input in any portions, hostile ones included."""

import re

import httptools
import structlog

from durable_sessions.errors import (
    InternalError,
    MalformedRequestError,
    MethodNotAllowedError,
    OverloadedError,
    RequestTimeoutError,
    TargetTooLongError,
)
from durable_sessions.http.carrier.parsing import (
    IDLE,
    IN_BODY,
    IN_HEAD,
    SLICE_BYTES,
    STOPPED,
    RefusedError,
    RequestParser,
)
from durable_sessions.http.carrier.state import Budget, ServerState
from durable_sessions.http.carrier.wire import ALLOWED_METHODS

# A token at the start of a request that is none of the methods the parser certainly knows.
_UNKNOWN_METHOD = re.compile(
    rb"[\r\n]*(?!(?:GET|HEAD|POST|PUT|DELETE|OPTIONS)(?: |$))[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}(?: |$)"
)

_log = structlog.get_logger(__name__)


class RequestReader(RequestParser):
    """Feeds the parser, and bounds what a request may hold of memory and time while it is incomplete."""

    __slots__ = ("_method_bytes", "_quiet_bytes", "bytes_in", "held", "read_paused")

    def __init__(self, state: ServerState) -> None:
        super().__init__(state)
        self.bytes_in = 0
        self.read_paused = False
        self.held = b""  # received while the read-ahead was full, not parsed yet
        self._method_bytes = b""  # of a method that did not come in one piece
        self._quiet_bytes = 0  # chunk headers and trailers since the last piece of body

    def data_received(self, data: bytes) -> None:
        """Parse ``data``; the requests that it completes are answered or queued on return."""
        self.bytes_in += len(data)
        if len(data) > SLICE_BYTES or self.held:
            self.feed_slices(data)
        elif self.phase != STOPPED:
            self._feed(data)

    def feed_slices(self, data: bytes) -> None:
        """Parse ``data`` piece by piece; once the read-ahead is full, hold the rest.

        The parser cannot be paused, so a full read-ahead is noticed only after a piece.
        """
        view = memoryview(data)
        start = 0
        while start < len(view) and self.phase != STOPPED:
            if self.read_paused:
                self._hold(bytes(view[start:]))
                return
            body_left = self._body_length - len(self._body) if self.phase == IN_BODY else 0
            end = start + max(SLICE_BYTES, body_left)
            self._feed(view[start:end])
            start = end

    def take_held(self) -> bytes:
        """Return what was received but not parsed yet; it is held no longer."""
        held, self.held = self.held, b""
        if held:
            self._state.requests.give(self._holder, len(held))
        return held

    def forget_input(self) -> None:
        """Give back the memory of all input that has not become a request."""
        self.take_held()
        self._forget_head_bytes()
        self._url = b""
        self._headers = {}
        if self._body:
            self._budget.give(self._holder, len(self._body))
        self._budget = self._state.requests
        self._body = bytearray()
        self._parts.clear()

    def _hold(self, data: bytes) -> None:
        self.held += data
        self._state.requests.take(self._holder, len(data))
        self._require_room(self._state.requests)

    def _require_room(self, budget: Budget) -> None:
        """Refuse the request that is being read if its holder, or all together, keep too much."""
        if budget.excess(self._holder):
            self.refuse(self._too_many_bytes(budget))

    def time_out(self, now: float) -> None:
        """Refuse the request that is being read if its deadline, which must be set, is over."""
        if self.phase == STOPPED:
            return
        if self.read_paused:
            self.deadline = now + self._budget.seconds_max  # the wait is of our making
        elif now > self.deadline:
            in_head = self.phase == IN_HEAD
            seconds = self._limits.header_seconds_max if in_head else self._budget.seconds_max
            self.refuse(RequestTimeoutError(seconds=seconds))

    def _feed(self, data: bytes | memoryview) -> None:
        if self.phase == IDLE:
            self.phase = IN_HEAD
            self._method_bytes = b""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._parser_failed(error, bytes(data))
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(bytes(data[upgrade.args[0] :]))
        else:
            if self.phase == IN_HEAD:
                self._head_incomplete(bytes(data))
            elif self.phase == IN_BODY:
                self._body_incomplete(len(data))

    def _head_incomplete(self, data: bytes) -> None:
        limits = self._limits
        if not self._url:
            self._method_bytes = (self._method_bytes + data).lstrip(b"\r\n")
            if not self._method_bytes:
                self.phase = IDLE  # blank lines between requests are no request
                return
        if not self.deadline:
            self.deadline = self._state.loop.time() + limits.header_seconds_max
        self._count_head(len(data))
        # The parser keeps an unfinished header line to itself, so what went into it is bounded
        # here; finished lines are measured exactly at the end of the head.
        raw_bytes_max = limits.header_bytes_max + 4 * limits.header_count_max + 2 * SLICE_BYTES
        if len(self._url) > limits.target_bytes_max:
            self.refuse(TargetTooLongError(target_bytes_max=limits.target_bytes_max))
        elif self._head_bytes - len(self._url) > raw_bytes_max:
            self.refuse(self._headers_too_large())
        elif (
            self._head_bytes > limits.short_head_bytes_max
            and self._state.heads_bytes > limits.incomplete_head_bytes_max
        ):
            self.refuse(OverloadedError(what="request heads in memory"))

    def _count_head(self, size: int) -> None:
        """Count what has arrived of a head; a short one is never refused for the long ones of others."""
        before, after = self._head_bytes, self._head_bytes + size
        self._head_bytes = after
        if after > self._limits.short_head_bytes_max:
            self._state.heads_bytes += size if before > self._limits.short_head_bytes_max else after

    def _body_incomplete(self, size: int) -> None:
        limits = self._limits
        if not self._admitted:
            try:
                self._admit()
            except RefusedError:
                return
        if not self.deadline:
            self.deadline = self._state.loop.time() + self._budget.seconds_max
            self._quiet_bytes = 0
        if not self._parts:
            self._quiet_bytes += size
            if self._quiet_bytes > limits.header_bytes_max + SLICE_BYTES:
                self.refuse(self._headers_too_large())
            return
        # One buffer, because a list of tiny pieces would take many times the memory of the body.
        received = b"".join(self._parts)
        self._parts.clear()
        self._body.extend(received)
        self._quiet_bytes = 0
        self._budget.take(self._holder, len(received))
        if self._body_length < 0 and len(self._body) > self._body_bytes_max:
            self.refuse(self._body_too_large())
        else:
            self._require_room(self._budget)

    def _parser_failed(self, error: httptools.HttpParserError, data: bytes) -> None:
        if self.phase == STOPPED:
            return  # refused by a callback, or input after the last request
        if isinstance(error, httptools.HttpParserCallbackError):
            _log.error("parser_callback_failed", exc_info=error)
            self.refuse(InternalError())
        elif isinstance(error, httptools.HttpParserInvalidMethodError) and _UNKNOWN_METHOD.match(
            self._method_bytes + data
        ):
            self.refuse(MethodNotAllowedError(allow=ALLOWED_METHODS))
        else:
            self.refuse(MalformedRequestError(problem=str(error)))

    def _decline_upgrade(self, rest: bytes) -> None:
        """Go on as if the peer had not asked to change the protocol; the parser cannot by itself."""
        headers = self._headers
        connection = headers.pop(b"connection", b"").lower()
        headers.pop(b"upgrade", None)
        if b"close" in connection:
            headers[b"connection"] = b"close"
        version = self._parser.get_http_version().encode()
        head = [b"%b %b HTTP/%b\r\n" % (self._parser.get_method(), self._url, version)]
        head += [b"%b: %b\r\n" % header for header in headers.items()]
        self._url = b""
        self._headers = {}
        self._parser = httptools.HttpRequestParser(self)
        self._feed(b"".join(head) + b"\r\n")
        if rest and self.phase != STOPPED:
            self._feed(rest)
