"""Requests and answers, independent of the server that carries them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from durable_sessions.errors import DurableSessionsError

Header = tuple[bytes, bytes]

# Audiences of an answer: pages of our own origin only, pages of any origin, or the answer is a page itself.
OWN, SHARED, PAGE = range(3)


class NamedStream(NamedTuple):
    """The path of the stream that a request is about, and the number of the note that places it elsewhere."""

    path: str
    note: int = 0


class Request:
    """One complete request: the body has been read, header names are lower case.

    Values of a repeated header are joined by ``, ``. ``path`` is still percent-encoded. ``id`` is given
    by the carrier, which also sends it with the answer. ``audience`` says which web pages may use the answer:
    only our own, until the application has checked the origin of the request. ``caller`` is who sent it, if
    another process of this server has authenticated the request already; nothing that a client sends sets it.
    ``named`` is the stream that a router has found it to be about, where there are several partitions.
    ``may_redirect`` says that a client sent it to this process, and follows an answer that names another one.
    """

    __slots__ = (
        "audience",
        "body",
        "caller",
        "headers",
        "id",
        "may_redirect",
        "method",
        "named",
        "path",
        "query",
    )

    def __init__(
        self, method: bytes, path: bytes, query: bytes, headers: dict[bytes, bytes], body: bytes
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body
        self.id = b""
        self.audience = OWN
        # An object, since the carrier knows nothing of keys.
        self.caller: object | None = None
        self.named: NamedStream | None = None
        self.may_redirect = False

    def size(self) -> int:
        """Return how much memory the request takes, in bytes."""
        headers = self.headers
        size = len(self.path) + len(self.query) + len(self.body)
        return size + sum(map(len, headers)) + sum(map(len, headers.values()))


class Response:
    """An answer with its whole body; the carrier adds ``Content-Length`` and ``Date``."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: list[Header], body: bytes = b"") -> None:
        self.status = status
        self.headers = headers
        self.body = body


class StreamingResponse:
    """An answer whose body is produced piece by piece until the iterator ends.

    The carrier asks for the next piece only when the peer can take it (backpressure), and closes the
    iterator when the peer disconnects.
    """

    __slots__ = ("chunks", "headers", "status")

    def __init__(self, status: int, headers: list[Header], chunks: AsyncIterator[bytes]) -> None:
        self.status = status
        self.headers = headers
        self.chunks = chunks


T = TypeVar("T")


class Later(Generic[T]):
    """An answer that is built from a future's result, without a task: there are many appends.

    ``respond`` is given the future when it is done, and never raises. It returns the answer or, in the rare
    case that there is more to wait for, what to await.
    """

    __slots__ = ("future", "respond")

    def __init__(
        self,
        future: "asyncio.Future[T]",
        respond: Callable[["asyncio.Future[T]"], "Answer | Awaitable[Answer]"],
    ) -> None:
        self.future = future
        self.respond = respond

    def __await__(self) -> Generator[object, None, "Answer"]:
        """Wait for the future and return the answer."""
        # Waited for, not awaited: a failure is for "respond", which turns it into an answer.
        yield from asyncio.wait([self.future]).__await__()
        answer = self.respond(self.future)
        if not isinstance(answer, Response | StreamingResponse):
            answer = yield from answer.__await__()
        return answer


class HandOver:
    """A request that belongs to another process, which is given the whole connection if that is possible.

    It is possible while nothing else is under way on the connection, and not again within a second. ``give``
    is called with the descriptor of the socket and says whether the other process has taken it; this one
    then closes its own. Otherwise the answer is what ``forward`` returns. Whoever cannot give a connection
    away awaits this object, which is the forwarded answer.
    """

    __slots__ = ("forward", "give")

    def __init__(
        self,
        give: Callable[[int, Request], Awaitable[bool]],
        forward: Callable[[], "Answer | Awaitable[Answer]"],
    ) -> None:
        self.give = give
        self.forward = forward

    def __await__(self) -> Generator[object, None, "Answer"]:
        """Return the forwarded answer."""
        answer = self.forward()
        if not isinstance(answer, Response | StreamingResponse):
            answer = yield from answer.__await__()
        return answer


Answer = Response | StreamingResponse
Handler = Callable[[Request], Answer | Awaitable[Answer]]
"""Answers a request, synchronously where it can. It never raises: errors are answers too."""


Refuse = Callable[[bytes, DurableSessionsError, bytes], Response]
"""Returns the answer for an error, given the path and the id of the request."""


class AnswerFormat(NamedTuple):
    """What the application decides about answers that the carrier makes or completes itself.

    ``common_headers`` are added to every answer, by its audience. Errors of the carrier are ``OWN``.
    """

    refuse: Refuse
    common_headers: Sequence[Sequence[Header]]


class Waiting(Protocol):
    """A client that waits for the answer to a request that the fast path has taken."""

    request_id: bytes

    @property
    def is_settled(self) -> bool:
        """Whether its connection certainly stays with this process for now."""
        ...

    def durable(self, lines: bytes) -> None:
        """Answer 204 with these header lines: what the request asked for is durable."""
        ...

    def failed(self, error: DurableSessionsError) -> None:
        """Answer with the refusal of what was taken."""
        ...

    def refused(self, answer: Response) -> None:
        """Answer with what another process has answered, which it was passed on to."""
        ...

    def declined(self, body: bytes) -> None:
        """Have the handler answer the request: it was passed on, and has changed nothing there."""
        ...


class FastPath(Protocol):
    """Answers the most common requests, of which no :class:`Request` is made: a ``POST`` without a query.

    It gives the same answers as the handler. What could be answered otherwise it does not take, and what it
    does not take has changed nothing.
    """

    def common(self, request: Request) -> object | None:
        """Return what all requests with these headers have in common, None if each must be handled."""
        ...

    def take(self, common: object, target: bytes, body: bytes, waiting: Waiting) -> bool:
        """Take a request, and tell ``waiting`` later; or say that the handler has to answer it."""
        ...

    def refusal(
        self, common: object, target: bytes, error: DurableSessionsError, request_id: bytes
    ) -> Response:
        """Return the answer to a request that was taken, and has failed."""
        ...

    def whole(self, common: object, target: bytes, body: bytes) -> Request:
        """Return a request that was taken as the handler gets it."""
        ...


KEYLESS = "strangers"
"""The holder of all requests that lack a required key; no key has this id."""


class Admitted(NamedTuple):
    """The result of admission by the head of a request: its holder, and how large its body may be.

    ``holder`` is the key, or the group of all requests without one, that the request is counted for. It is
    None where no keys are required: then every connection is counted for itself.
    """

    holder: str | None
    body_bytes_max: int


class Admission(Protocol):
    """Decides by the head of a request whether its body is read."""

    def admit(self, request: Request) -> Admitted:
        """Admit a request of which only the head has arrived, or raise the refusal."""
        ...

    @property
    def keys_required(self) -> bool:
        """Whether a request needs a key."""
        ...

    def holder(self, request: Request) -> str | None:
        """Return the holder that a request is counted for; this counts and refuses nothing."""
        ...


BodyLimit = Callable[[Request], int]
"""Returns how large the body of a request may be, given its head, or raises the refusal."""


class AdmitAll:
    """Admission for an application without keys: anyone may send a body up to a fixed size."""

    keys_required = False

    def __init__(self, body_bytes_max: int) -> None:
        self._admitted = Admitted(None, body_bytes_max)

    def admit(self, request: Request) -> Admitted:
        """Admit the request."""
        return self._admitted

    def holder(self, request: Request) -> str | None:
        """Return None."""
