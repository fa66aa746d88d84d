"""The other partitions of this server, as the parts of one partition ask them."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from durable_sessions.access.caller import Caller, Role
from durable_sessions.errors import LinkDownError, OutcomeUnknownError
from durable_sessions.http.carrier.message import Answer, Request, Response
from durable_sessions.partition_id import PartitionId
from durable_sessions.streams.partition_map import home_partition

Ask = Callable[[int, Request], Awaitable[Answer]]
"""Answers a request with the application of a partition, of this process or of another."""


class Neighbours:
    """All partitions as one of them, ``own``, sees them."""

    def __init__(self, own: PartitionId, ask: Ask) -> None:
        self.own = own
        self._ask = ask

    @property
    def others(self) -> list[int]:
        """The numbers of the other partitions, without the system partition."""
        return [number for number in range(self.own.of) if number != self.own.number]

    def home(self, workspace: str, path: str) -> int:
        """Return the partition that a path belongs to."""
        return home_partition(workspace, path, self.own.of)

    def is_home(self, workspace: str, path: str) -> bool:
        """Say whether a path belongs to this partition."""
        return self.home(workspace, path) == self.own.number

    async def call(self, partition: int, path: bytes, caller: Caller, asked: object, answer: Any) -> Any:
        """Ask a partition, in the name of a caller, for an ``answer`` of a type.

        Raises LinkDownError if it does not answer: this is for what no client can see, or may be done again.
        """
        given = await self._answer(b"POST", partition, path, caller, asked)
        if given.status != 200:
            raise _no_answer(partition, given)
        return msgspec.msgpack.decode(given.body, type=answer)

    async def read(self, partition: int, path: bytes, caller: Caller, asked: object, answer: Any) -> Any:
        """Ask a partition for what it has, as ``call`` does; if the link is lost, it is asked again."""
        given = await self._answer(b"GET", partition, path, caller, asked)
        if given.status != 200:
            raise _no_answer(partition, given)
        return msgspec.msgpack.decode(given.body, type=answer)

    async def change(self, partition: int, path: bytes, caller: Caller, asked: object, answer: Any) -> Any:
        """Have a partition change something that clients see.

        Raises LinkDownError if it certainly did not, and OutcomeUnknownError if that is not known.
        """
        given = await self._answer(b"POST", partition, path, caller, asked)
        if given.status == 200:
            return msgspec.msgpack.decode(given.body, type=answer)
        if given.status == 500 or b"outcome_unknown" in given.body:
            raise OutcomeUnknownError(reason=f"partition {partition} answered with the status {given.status}")
        raise _no_answer(partition, given)

    async def _answer(
        self, method: bytes, partition: int, path: bytes, caller: Caller, asked: object
    ) -> Response:
        request = Request(method, path, b"", {}, msgspec.msgpack.encode(asked))
        request.caller = caller
        given = await self._ask(partition, request)
        assert isinstance(given, Response), "no partition streams its answer to another"
        return given


def _no_answer(partition: int, given: Response) -> LinkDownError:
    return LinkDownError(reason=f"partition {partition} answered with the status {given.status}")


def on_behalf_of(workspace: str) -> Caller:
    """Return the caller of what the server does for a workspace by itself."""
    return Caller(workspace, "server", Role.WRITER, None)
