"""The applications of all partitions of a server, as a router asks them."""

import asyncio
from collections.abc import Awaitable
from typing import Protocol

from durable_sessions.http.api.app import Application
from durable_sessions.http.carrier.message import Answer, Request


class Partitions(Protocol):
    """The applications of all partitions, those of other processes too."""

    def ask(self, partition: int, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request with the application of a partition."""
        ...

    def route(self, partition: int, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a client's request; its connection may move to the process that has the partition."""
        ...

    @property
    def app(self) -> Application:
        """The application of a partition of this process, for requests that any can answer."""
        ...


async def answered(answer: Answer | Awaitable[Answer]) -> Answer:
    """Return an answer, when it is there."""
    return answer if isinstance(answer, Answer) else await answer


async def gathered(partitions: Partitions, numbers: list[int], request: Request) -> list[Answer]:
    """Return the answers of several partitions to the same request."""
    return await asyncio.gather(*(answered(partitions.ask(number, request)) for number in numbers))
