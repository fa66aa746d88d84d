"""The parser's callbacks: heads and bodies from strangers become requests, within limits."""

import asyncio
from abc import abstractmethod
from collections.abc import Hashable
from typing import NoReturn

import httptools

from durable_sessions.errors import (
    ArtifactTooLargeError,
    BodyTooLargeError,
    DurableSessionsError,
    HeadersTooLargeError,
    MalformedRequestError,
    MethodNotAllowedError,
    OverloadedError,
    ShareExceededError,
    ShuttingDownError,
    TargetTooLongError,
)
from durable_sessions.http.carrier.large_body import LargeBody
from durable_sessions.http.carrier.message import Request
from durable_sessions.http.carrier.state import Budget, ServerState
from durable_sessions.http.carrier.wire import (
    ALLOWED_METHODS,
    HEAD_REQUEST,
    HEADER_NAMES,
    HTTP_1_0,
    LAST_REQUEST,
)

# Where a connection is in its input.
IDLE, IN_HEAD, IN_BODY, STOPPED = range(4)

# Input is parsed in pieces of this size, so that limits are checked before much is stored.
SLICE_BYTES = 4096

_SLASH = ord("/")


class RefusedError(Exception):
    """Stops the parser after a request was refused."""


class _Discarded(dict[bytes, bytes]):
    """Keeps nothing: trailers must not pass for headers, of this request or the next."""

    def __contains__(self, name: object) -> bool:
        return False

    def __setitem__(self, name: bytes, value: bytes) -> None:
        pass


class RequestParser(asyncio.Protocol):
    """Collects one request at a time and hands it over when it is complete.

    The ``on_…`` methods are called by the parser, once or more for every request, so they do
    no more than they must. What is unusual is dealt with in methods of its own.
    """

    __slots__ = (
        "_admitted",
        "_body",
        "_body_bytes_max",
        "_body_length",
        "_budget",
        "_head_bytes",
        "_headers",
        "_holder",
        "_limits",
        "_measure",
        "_own",
        "_parser",
        "_parts",
        "_repeats",
        "_request",
        "_state",
        "_url",
        "deadline",
        "draining",
        "flags",
        "on_body",
        "phase",
    )

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._limits = state.limits
        self.phase = IDLE
        self.deadline = 0.0  # of the head or body that is incomplete, 0 before it is set
        self.draining = False
        self.flags = 0  # of the request that is being read, see wire.py
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._repeats: list[bytes] = []  # the names of header lines that repeat a name
        self._request: Request | None = None  # set from the end of the head to the end of the body
        self._head_bytes = 0  # of a head that did not come in one piece
        self._measure = self._always_measure  # whether the lines of this head must be measured
        self._body_length = 0  # -1: chunked
        self._body_bytes_max = state.limits.append_body_bytes_max
        self._budget = state.requests
        self._own: Hashable = object()  # its own shares; were it itself, nothing would ever free it
        self._holder = self._own  # whose shares this connection draws on: a key's, or its own
        self._admitted = False  # whether the request being read was admitted by its head
        self._body: bytearray | LargeBody = bytearray()  # of a body that did not come in one piece
        self._parts: list[bytes] = []
        self.on_body = self._parts.append  # the parser then calls C, not Python
        self._parser = httptools.HttpRequestParser(self)

    @abstractmethod
    def request_received(self, request: Request, flags: int) -> None:
        """Answer ``request`` in its turn."""

    @abstractmethod
    def refuse(self, error: DurableSessionsError, path: bytes | None = None) -> None:
        """Answer ``error`` in its turn, then close; nothing more is read."""

    @abstractmethod
    def held_by(self, holder: str | None, path: bytes | None = None) -> None:
        """Count what the connection holds for a key from now on, or for itself; refuse one key too many."""

    @abstractmethod
    def send_continue(self) -> None:
        """Tell the peer that the body of the request being read is wanted."""

    def on_url(self, url: bytes) -> None:
        """Collect the target."""
        self._url += url
        self.phase = IN_HEAD

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header line, or a trailer line, which nobody will see."""
        name = HEADER_NAMES.get(name) or name.lower()
        if name in self._headers:
            self._repeat(name, value)
        else:
            self._headers[name] = value.rstrip()

    def on_headers_complete(self) -> None:
        """Check the head: from here on the request is refused or its body wanted."""
        headers = self._headers
        parser = self._parser
        url = self._url
        flags = 0
        # Only HTTP/1.1 keeps a connection open without a word about it.
        if b"connection" in headers or not parser.should_keep_alive():
            if parser.should_upgrade() and parser.get_method() != b"CONNECT":
                return  # the reader feeds this head again without the upgrade
            flags = self._connection_flags()
        if len(url) > self._limits.target_bytes_max:
            self._reject(TargetTooLongError(target_bytes_max=self._limits.target_bytes_max))
        if len(headers) > self._limits.header_count_max or self._head_bytes or self._measure:
            self._check_header_size()
        if b"host" not in headers and not flags & HTTP_1_0:
            self._reject(MalformedRequestError(problem="the Host header is missing"))
        method = parser.get_method()
        if method == b"HEAD":
            flags |= HEAD_REQUEST
        elif method == b"CONNECT":
            self._reject(MethodNotAllowedError(allow=ALLOWED_METHODS))
        if url[0] != _SLASH:
            url = _origin_form(url)
        path, _, query = url.partition(b"?")
        if self.draining:
            self._reject(ShuttingDownError())
        self._request = Request(method, path, query, headers, b"")
        self._admitted = False
        length = headers.get(b"content-length")
        if length is not None:
            self._body_length = int(length)
            if self._body_length > self._limits.append_body_bytes_max:
                self._admit()
        elif b"transfer-encoding" in headers:
            self._expect_chunks(flags)
            self._admit()
        else:
            self._body_length = 0
        if b"expect" in headers and self._body_length and not flags & HTTP_1_0:
            self._admit()
            self._expect(headers[b"expect"])
        self.flags = flags
        self.phase = IN_BODY
        self.deadline = 0.0

    def on_message_complete(self) -> None:
        """Hand over the request."""
        request = self._request
        if request is None:
            return  # an upgrade, see above
        parts = self._parts
        if parts or self._body:
            whole = len(parts) == 1 and len(parts[0]) == self._body_length
            request.body = parts.pop() if whole else self._take_body()
        flags = self.flags
        self._request = None
        self._url = b""
        self._headers = {}
        if self._head_bytes:
            self._forget_head_bytes()
        self.deadline = 0.0
        self.phase = STOPPED if flags & LAST_REQUEST else IDLE
        self.request_received(request, flags)

    def _take_body(self) -> bytes:
        self._budget.give(self._holder, len(self._body))
        self._budget = self._state.requests
        received, self._body = self._body, bytearray()
        received.extend(b"".join(self._parts))
        self._parts.clear()
        if self._body_length < 0 and len(received) > self._body_bytes_max:
            self._reject(self._body_too_large())
        view = received.view() if isinstance(received, LargeBody) else received
        # To copy a large one would hold up everybody; who takes those takes them as they are.
        is_large = len(view) > self._limits.append_body_bytes_max
        return view if is_large else bytes(view)  # type: ignore[return-value]  # as good as bytes

    def _forget_head_bytes(self) -> None:
        if self._head_bytes > self._limits.short_head_bytes_max:
            self._state.heads_bytes -= self._head_bytes
        self._head_bytes = 0

    def _connection_flags(self) -> int:
        version = self._parser.get_http_version()
        if version not in ("1.0", "1.1"):
            self._reject(MalformedRequestError(problem=f"HTTP version {version}"))
        flags = HTTP_1_0 if version == "1.0" else 0
        return flags if self._parser.should_keep_alive() else flags | LAST_REQUEST

    def _expect_chunks(self, flags: int) -> None:
        coding = self._headers[b"transfer-encoding"].lower()
        if coding != b"chunked" or flags & HTTP_1_0:
            self._reject(MalformedRequestError(problem="the only transfer coding is chunked, in HTTP/1.1"))
        self._body_length = -1
        self._headers = _Discarded()  # whatever comes now is a trailer

    def _admit(self) -> None:
        """Ask, once and by the head alone, who sends this request and how large its body may be.

        Only of requests whose body is not there yet: of the others the handler finds out for itself.
        """
        if self._admitted:
            return
        request = self._request
        assert request is not None, "there is a head"
        try:
            holder, self._body_bytes_max = self._state.admission.admit(request)
        except DurableSessionsError as error:
            self._reject(error)
        self._admitted = True
        self.held_by(holder)
        if self._body_length > self._body_bytes_max:
            self._reject(self._body_too_large())
        large = max(self._body_length, 0) > self._limits.append_body_bytes_max
        if large or (self._body_length < 0 and self._body_bytes_max > self._limits.append_body_bytes_max):
            self._budget = self._state.large_bodies
            self._reserve_body(self._body_bytes_max if self._body_length < 0 else self._body_length)

    def _reserve_body(self, bytes_max: int) -> None:
        try:
            self._body = LargeBody(bytes_max)
        except OSError:
            self._reject(OverloadedError(what="memory for large bodies"))

    def _expect(self, expectation: bytes) -> None:
        if expectation.lower() == b"100-continue":
            self.send_continue()

    def _repeat(self, name: bytes, value: bytes) -> None:
        if name == b"host":
            self._reject(MalformedRequestError(problem="there are several Host headers"))
        self._repeats.append(name)
        if len(self._headers) + len(self._repeats) > self._limits.header_count_max:
            self._reject(self._headers_too_large())
        self._headers[name] += b", " + value.rstrip()
        self._measure = True

    def _check_header_size(self) -> None:
        headers = self._headers
        size = sum(map(len, headers)) + sum(map(len, headers.values()))
        size += sum(len(name) - len(b", ") for name in self._repeats)
        count = len(headers) + len(self._repeats)
        self._repeats.clear()
        self._measure = self._always_measure
        if size > self._limits.header_bytes_max or count > self._limits.header_count_max:
            self._reject(self._headers_too_large())

    @property
    def _always_measure(self) -> bool:
        # A head that came in one piece cannot be too large, unless the limit is unusually small.
        return self._limits.header_bytes_max < SLICE_BYTES

    def _headers_too_large(self) -> HeadersTooLargeError:
        return HeadersTooLargeError(
            header_bytes_max=self._limits.header_bytes_max, header_count_max=self._limits.header_count_max
        )

    def _body_too_large(self) -> DurableSessionsError:
        if self._body_bytes_max > self._limits.append_body_bytes_max:
            return ArtifactTooLargeError(artifact_bytes_max=self._body_bytes_max)
        return BodyTooLargeError(append_body_bytes_max=self._body_bytes_max)

    def _too_many_bytes(self, budget: Budget) -> DurableSessionsError:
        if budget.full() or self._holder is self._own:
            return OverloadedError(what="request bytes in memory")
        return ShareExceededError(what="the memory for requests", limit=budget.limit)

    def _reject(self, error: DurableSessionsError) -> NoReturn:
        self.refuse(error)
        raise RefusedError


def _origin_form(target: bytes) -> bytes:
    """Return the path and query of an absolute target; ``*`` and other forms stay as they are."""
    scheme, separator, rest = target.partition(b"://")
    if not separator or not scheme.isalpha():
        return target
    start = min((at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0), default=len(rest))
    path = rest[start:]
    return path if path.startswith(b"/") else b"/" + path
