"""What workers ask of the one that has the system partition: its table of keys, and to take owed records.

These requests go over links only. No client can send them: a router never passes such a path on.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

import msgspec

from durable_sessions.access.key_publisher import KeyPublisher
from durable_sessions.errors import DurableSessionsError, LinkDownError
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.api.internal import ROOT
from durable_sessions.http.carrier.handler_failures import close_iterator
from durable_sessions.http.carrier.message import Answer, Request, Response, StreamingResponse
from durable_sessions.partition_id import SYSTEM
from durable_sessions.streams.outbox import OwedRecord

_FOLLOW, _SEEN, _TAKE = ROOT + b"keys/follow", ROOT + b"keys/seen", ROOT + b"outbox/take"
_NAME_SEPARATOR = "-"

TakeRecord = Callable[[OwedRecord], Awaitable[None]]
"""Takes a record for the system partition; returns when it is durable there."""


def boot_seconds() -> float:
    """Return the seconds since the machine was started, those in which it slept included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def follower_name(process: str, token: str) -> str:
    """Return the name under which a process follows the keys; ``token`` is new each time that it begins.

    Who follows with the same ``process`` and another token has taken the place of the one before.
    """
    return f"{process}{_NAME_SEPARATOR}{token}"


class SystemCalls:
    """Answers the calls, in the worker that has the system partition; ``take`` takes an owed record."""

    def __init__(self, publisher: KeyPublisher, take: TakeRecord) -> None:
        self._publisher = publisher
        self._take = take
        self._followers: dict[str, str] = {}  # the last name of each worker, by its number

    def answer(self, request: Request) -> Answer | Awaitable[Answer] | None:
        """Answer a call; None if the request is none."""
        if request.path == _TAKE:
            return self._taken(request)
        if request.path == _SEEN:
            return Response(200, [], self._publisher.acknowledge(request.body))
        if request.path == _FOLLOW:
            return StreamingResponse(200, [], self._follow(request.body.decode()))
        return None

    def _follow(self, name: str) -> AsyncIterator[bytes]:
        # A worker is started again only after its process has ended: nobody has to wait for that one.
        number = name.partition(_NAME_SEPARATOR)[0]
        before = self._followers.get(number, name)
        self._followers[number] = name
        if before != name:
            self._publisher.gone(before)
        return self._publisher.follow(name)

    async def _taken(self, request: Request) -> Answer:
        try:
            await self._take(msgspec.msgpack.decode(request.body, type=OwedRecord))
        except DurableSessionsError as error:
            return ANSWER_FORMAT.refuse(request.path, error, request.id)
        return Response(204, [])


class SystemAsker(Protocol):
    """A way to whoever has the system partition, such as a link."""

    def ask(self, partition: int, request: Request) -> Awaitable[Answer]:
        """Send a request to the owner of a partition."""
        ...


class SystemLink:
    """Makes the calls, over the link to the process that has the system partition."""

    def __init__(self, link: SystemAsker) -> None:
        self._link = link

    async def follow(self, name: str) -> AsyncIterator[bytes]:
        """Yield the table of keys and its changes, as lines."""
        answer = await self._ask(_FOLLOW, name.encode())
        if not isinstance(answer, StreamingResponse):
            raise _refused(answer)
        try:
            async for chunk in answer.chunks:
                yield chunk
        finally:
            await close_iterator(answer.chunks)

    async def acknowledge(self, seen: bytes) -> bytes:
        """Tell which version of the table this worker has; return which one there is."""
        answer = await self._ask(_SEEN, seen)
        if not isinstance(answer, Response) or answer.status != 200:
            raise _refused(answer)
        return answer.body

    async def deliver(self, record: OwedRecord) -> None:
        """Give the system partition a record; on return it is durable there."""
        answer = await self._ask(_TAKE, msgspec.msgpack.encode(record))
        if answer.status != 204:
            raise _refused(answer)

    async def _ask(self, path: bytes, body: bytes) -> Answer:
        return await self._link.ask(SYSTEM, Request(b"POST", path, b"", {}, body))


def _refused(answer: Answer) -> LinkDownError:
    return LinkDownError(reason=f"the worker with the system partition answered {answer.status}")
