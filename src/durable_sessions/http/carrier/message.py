"""What a request and an answer are, whichever server carries them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from durable_sessions.errors import DurableSessionsError

Header = tuple[bytes, bytes]

# Who may use an answer: pages of our own origin only, or pages of other origins too; or it is a page itself.
OWN, SHARED, PAGE = range(3)


class Request:
    """One complete request: the body has been read, header names are lower case.

    Values of a repeated header are joined by ``, ``. ``path`` is still percent-encoded. ``id`` is given
    by the carrier, which also sends it with the answer. ``audience`` says who may use the answer:
    nobody but ourselves, until the application has looked at where the request comes from.
    """

    __slots__ = ("audience", "body", "headers", "id", "method", "path", "query")

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

    def size(self) -> int:
        """Return how many bytes the request holds on to."""
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

    The carrier takes the next piece only when the peer has room for it, and closes the
    iterator when the peer goes away.
    """

    __slots__ = ("chunks", "headers", "status")

    def __init__(self, status: int, headers: list[Header], chunks: AsyncIterator[bytes]) -> None:
        self.status = status
        self.headers = headers
        self.chunks = chunks


T = TypeVar("T")


class Later(Generic[T]):
    """An answer that is made of a future's result; without a task of its own, because appends are many.

    ``respond`` is given the future when it is done, and never raises.
    """

    __slots__ = ("future", "respond")

    def __init__(
        self, future: "asyncio.Future[T]", respond: Callable[["asyncio.Future[T]"], Response]
    ) -> None:
        self.future = future
        self.respond = respond

    def __await__(self) -> Generator[object, None, Response]:
        """Wait for the future and return the answer."""
        yield from asyncio.wait([self.future]).__await__()
        return self.respond(self.future)


Answer = Response | StreamingResponse
Handler = Callable[[Request], Answer | Awaitable[Answer]]
"""Answers a request, at once where it can. It never raises: errors are answers too."""


Refuse = Callable[[bytes, DurableSessionsError, bytes], Response]
"""Returns the answer for an error to a request, of which its path and its id are known."""


class AnswerFormat(NamedTuple):
    """What only the application knows of the answers that a carrier makes itself, or completes.

    ``common_headers`` are carried by every answer, by its audience. Errors of the carrier are ``OWN``.
    """

    refuse: Refuse
    common_headers: Sequence[Sequence[Header]]


STRANGERS = "strangers"
"""The holder of all requests that show no key where one is needed; no key has this id."""


class Admitted(NamedTuple):
    """What the head of a request says: who sends it, and how large its body may be.

    ``holder`` is whose shares the request draws on: a key's, or those of all who show none. It is None where
    keys are not needed: then every connection stands for itself.
    """

    holder: str | None
    body_bytes_max: int


class Admission(Protocol):
    """Decides by the head of a request whether its body is wanted."""

    def admit(self, request: Request) -> Admitted:
        """Return who sends a request of which only the head has arrived, or raise the refusal."""
        ...

    @property
    def keys_required(self) -> bool:
        """Whether a request needs a key."""
        ...

    def holder(self, request: Request) -> str | None:
        """Return whose shares a request draws on; nothing is counted or refused."""
        ...


BodyLimit = Callable[[Request], int]
"""Tells from a request without its body how large that may be, or raises the refusal."""


class AdmitAll:
    """For an application without keys: everybody may send a body up to a fixed size."""

    keys_required = False

    def __init__(self, body_bytes_max: int) -> None:
        self._admitted = Admitted(None, body_bytes_max)

    def admit(self, request: Request) -> Admitted:
        """Admit the request."""
        return self._admitted

    def holder(self, request: Request) -> str | None:
        """Return None."""
