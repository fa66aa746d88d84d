"""Turns bytes into requests: the callbacks of httptools, with checks of untrusted input."""

from typing import NoReturn

import httptools
import structlog

from durable_sessions.errors import (
    DurableSessionsError,
    InternalError,
    MalformedRequestError,
    MethodNotAllowedError,
    RequestTimeoutError,
    ShuttingDownError,
    TargetTooLongError,
)
from durable_sessions.http.carrier import malformed
from durable_sessions.http.carrier.incomplete_body import CHUNKED, IncompleteBody
from durable_sessions.http.carrier.incomplete_head import SLICE_BYTES, IncompleteHead, headers_too_large
from durable_sessions.http.carrier.message import OWN, Request
from durable_sessions.http.carrier.request_head import (
    DiscardedTrailers,
    below,
    fits,
    has_unknown_method,
    origin_form,
    without_upgrade,
)
from durable_sessions.http.carrier.request_receiver import RefusedError, RequestReceiver
from durable_sessions.http.carrier.state import ServerState
from durable_sessions.http.carrier.wire import (
    ALLOWED_METHODS,
    HEAD_REQUEST,
    HEADER_NAMES,
    HTTP_1_0,
    LAST_REQUEST,
)

# Where a connection is in its input.
IDLE, IN_HEAD, IN_BODY, STOPPED = range(4)

_SLASH = ord("/")

_log = structlog.get_logger(__name__)


class RequestParser:
    """Collects one request at a time and hands it over when it is complete.

    The ``on_…`` methods are called by httptools at least once per request, so they contain the common case
    only. Unusual cases have methods of their own. State that only an incomplete request needs is kept in
    separate objects, which an idle connection does not have. Heads and bodies are not two classes: httptools
    calls one object for both, so that each request would pay for passing the calls on.
    """

    __slots__ = (
        "_body",
        "_body_length",
        "_head",
        "_headers",
        "_http",
        "_limits",
        "_parts",
        "_receiver",
        "_repeats",
        "_request",
        "_state",
        "_url",
        "deadline",
        "flags",
        "on_body",
        "phase",
    )

    def __init__(self, state: ServerState, receiver: RequestReceiver) -> None:
        self._state = state
        self._limits = state.limits
        self._receiver = receiver
        self.phase = IDLE
        self.deadline = 0.0  # of the head or body that is incomplete, 0 before it is set
        self.flags = 0  # of the request that is being read, see wire.py
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._repeats: tuple[bytes, ...] = ()  # the names of header lines that repeat a name
        self._head: IncompleteHead | None = None  # of a head that did not come in one piece
        self._request: Request | None = None  # set from the end of the head to the end of the body
        self._body_length = 0
        self._body: IncompleteBody | None = None  # set when the request has been admitted by its head
        self._parts: list[bytes] = []
        self.on_body = self._parts.append  # so httptools calls a C function without a Python frame
        self._http = httptools.HttpRequestParser(self)

    def release(self) -> None:
        """Break the reference cycles with httptools and the receiver, which would not be collected."""
        del self._http
        del self._receiver

    # Input ------------------------------------------------------------------------------

    def feed(self, data: bytes | memoryview) -> None:
        """Parse a small piece of input; complete requests have been handed over on return."""
        if self.phase == IDLE:
            self.phase = IN_HEAD
        try:
            self._http.feed_data(data)
        except httptools.HttpParserError as error:
            self._failed(error, bytes(data))
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(bytes(data[upgrade.args[0] :]))
        else:
            if self.phase == IN_HEAD:
                self._head_incomplete(bytes(data))
            elif self.phase == IN_BODY:
                self._body_incomplete(len(data))

    def forget(self) -> None:
        """Release the memory of input that has not become a request."""
        if self._head is not None:
            self._release_head(self._head)
        if self._body is not None:
            self._body.release()
            self._body = None
        self._url = b""
        self._headers = {}
        self._parts.clear()

    @property
    def body_bytes_left(self) -> int:
        """How much of the body has not arrived yet, as far as that is known."""
        return 0 if self._body is None else self._body_length - len(self._body)

    def beginning(self) -> tuple[bytes, int, int]:
        """Return path, flags and audience of the request that is being read, as far as they are known."""
        is_head = self._url and self._http.get_method() == b"HEAD"
        audience = OWN if self._request is None else self._request.audience
        return origin_form(self._url).partition(b"?")[0], HEAD_REQUEST if is_head else 0, audience

    def postpone_deadline(self, now: float) -> None:
        """Restart the deadline of the request being read: reading was paused on our side."""
        self.deadline = now + self._body_seconds_max

    def time_out(self, now: float) -> None:
        """Refuse the request being read if its deadline, which must be set, has passed."""
        if now > self.deadline:
            in_head = self.phase == IN_HEAD
            seconds = self._limits.header_seconds_max if in_head else self._body_seconds_max
            self._receiver.refuse(RequestTimeoutError(seconds=seconds))

    @property
    def _body_seconds_max(self) -> float:
        return self._state.requests.seconds_max if self._body is None else self._body.seconds_max

    # Callbacks of httptools -------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        """Collect the target."""
        self._url += url
        self.phase = IN_HEAD

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header line; trailer lines are discarded."""
        name = HEADER_NAMES.get(name) or name.lower()
        if name in self._headers:
            self._repeat(name, value)
        else:
            self._headers[name] = value.rstrip()

    def on_headers_complete(self) -> None:
        """Check the head, then refuse the request or prepare for its body."""
        headers = self._headers
        http = self._http
        limits = self._limits
        url = self._url
        flags = 0
        # Only HTTP/1.1 keeps a connection open by default.
        if b"connection" in headers or not http.should_keep_alive():
            if http.should_upgrade() and http.get_method() != b"CONNECT":
                return  # _decline_upgrade feeds this head again, without the upgrade
            flags = self._connection_flags()
        if len(url) > limits.target_bytes_max:
            self._reject(TargetTooLongError(target_bytes_max=limits.target_bytes_max))
        # A head that arrived in one slice can only be too large if the limit is unusually small.
        if (
            len(headers) > limits.header_count_max
            or self._head is not None
            or self._repeats
            or limits.header_bytes_max < SLICE_BYTES
        ):
            self._check_header_size()
        if b"host" not in headers and not flags & HTTP_1_0:
            self._reject(MalformedRequestError(problem="the Host header is missing"))
        method = http.get_method()
        if method == b"HEAD":
            flags |= HEAD_REQUEST
        elif method == b"CONNECT":
            self._reject(MethodNotAllowedError(allow=ALLOWED_METHODS))
        if url[0] != _SLASH:
            url = origin_form(url)
        base = self._state.base
        if base and url.startswith(base):
            url = below(url, base)
        path, _, query = url.partition(b"?")
        if self._state.draining:
            self._reject(ShuttingDownError())
        self._request = Request(method, path, query, headers, b"")
        length = headers.get(b"content-length")
        if length is not None:
            self._body_length = int(length)
            if self._body_length > limits.append_body_bytes_max:
                self._admit()
        elif b"transfer-encoding" in headers:
            self._expect_chunks(flags)
            self._admit()
        else:
            self._body_length = 0
        if b"expect" in headers and self._body_length and not flags & HTTP_1_0:
            self._admit()
            if headers[b"expect"].lower() == b"100-continue":
                self._receiver.send_continue()
        self.flags = flags
        self.phase = IN_BODY
        self.deadline = 0.0

    def on_message_complete(self) -> None:
        """Hand over the request."""
        request = self._request
        if request is None:
            return  # an upgrade: see on_headers_complete
        if self._body is not None:
            request.body = self._complete_body(self._body)
        elif self._parts:
            request.body = b"".join(self._parts)  # usually a single part, and then join() makes no copy
            self._parts.clear()
        flags = self.flags
        self._request = None
        self._url = b""
        self._headers = {}
        if self._head is not None:
            self._release_head(self._head)
        self.deadline = 0.0
        self.phase = STOPPED if flags & LAST_REQUEST else IDLE
        self._receiver.request_received(request, flags)

    # Heads ------------------------------------------------------------------------------

    def _connection_flags(self) -> int:
        version = self._http.get_http_version()
        if version not in ("1.0", "1.1"):
            self._reject(MalformedRequestError(problem=f"HTTP version {version}"))
        flags = HTTP_1_0 if version == "1.0" else 0
        return flags if self._http.should_keep_alive() else flags | LAST_REQUEST

    def _repeat(self, name: bytes, value: bytes) -> None:
        if name == b"host":  # a proxy may have routed by one of them, and we would go by another
            self._reject(MalformedRequestError(problem="there are several Host headers"))
        self._repeats += (name,)
        if len(self._headers) + len(self._repeats) > self._limits.header_count_max:
            self._reject(headers_too_large(self._limits))
        self._headers[name] += b", " + value.rstrip()

    def _check_header_size(self) -> None:
        repeats, self._repeats = self._repeats, ()
        if not fits(self._headers, repeats, self._limits):
            self._reject(headers_too_large(self._limits))

    def _head_incomplete(self, data: bytes) -> None:
        head = self._head or IncompleteHead(self._state)
        if not self._url:
            head.method_bytes = (head.method_bytes + data).lstrip(b"\r\n")
            if not head.method_bytes:
                self.phase = IDLE  # blank lines between requests are allowed and ignored
                return
        self._head = head
        if not self.deadline:
            self.deadline = self._state.loop.time() + self._limits.header_seconds_max
        try:
            head.received(len(data), len(self._url))
        except DurableSessionsError as error:
            self._receiver.refuse(error)

    def _release_head(self, head: IncompleteHead) -> None:
        head.release()
        self._head = None

    def _decline_upgrade(self, rest: bytes) -> None:
        """Continue as if the peer had not asked to change the protocol; httptools stops parsing there."""
        http = self._http
        head = without_upgrade(http.get_method(), self._url, http.get_http_version(), self._headers)
        self._url = b""
        self._headers = {}
        self._http = httptools.HttpRequestParser(self)
        self.feed(head)
        if rest and self.phase != STOPPED:
            self.feed(rest)

    # Bodies -----------------------------------------------------------------------------

    def _expect_chunks(self, flags: int) -> None:
        coding = self._headers[b"transfer-encoding"].lower()
        if coding != b"chunked" or flags & HTTP_1_0:
            self._reject(MalformedRequestError(problem="the only transfer coding is chunked, in HTTP/1.1"))
        self._body_length = CHUNKED
        self._headers = DiscardedTrailers()  # whatever comes now is a trailer

    def _admit(self) -> IncompleteBody:
        """Ask for admission, once and by the head alone.

        Only for requests whose body has not arrived yet; for the others the handler does the same checks.
        """
        if self._body is None:
            assert self._request is not None, "there is a head"
            try:
                holder, body_bytes_max = self._receiver.admit(self._request)
                self._body = IncompleteBody(self._state, holder, self._body_length, body_bytes_max)
            except DurableSessionsError as error:
                self._reject(error)
        return self._body

    def _body_incomplete(self, size: int) -> None:
        try:
            body = self._admit()
        except RefusedError:
            return
        if not self.deadline:
            self.deadline = self._state.loop.time() + body.seconds_max
        try:
            body.receive(self._parts, size)
        except DurableSessionsError as error:
            self._receiver.refuse(error)

    def _complete_body(self, body: IncompleteBody) -> bytes:
        self._body = None
        try:
            return body.complete(self._parts)
        except DurableSessionsError as error:
            self._reject(error)

    # Failures ---------------------------------------------------------------------------

    def _failed(self, error: httptools.HttpParserError, data: bytes) -> None:
        if self.phase == STOPPED:
            return  # refused by a callback, or input after the last request
        begun = (b"" if self._head is None else self._head.method_bytes) + data
        path = None if self._url else malformed.path_of(begun)
        if isinstance(error, httptools.HttpParserCallbackError):
            _log.error("parser_callback_failed", exc_info=error)
            self._receiver.refuse(InternalError())
        elif isinstance(error, httptools.HttpParserInvalidMethodError) and has_unknown_method(begun):
            self._receiver.refuse(MethodNotAllowedError(allow=ALLOWED_METHODS), path)
        else:
            self._receiver.refuse(MalformedRequestError(problem=malformed.problem(error, begun)), path)

    def _reject(self, error: DurableSessionsError) -> NoReturn:
        """Refuse the request from within a callback; raising is the only way to stop httptools there."""
        self._receiver.refuse(error)
        raise RefusedError
