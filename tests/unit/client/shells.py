"""The sync and the async client behind one interface, so that one test holds for both."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from durable_sessions import AsyncClient, Client
from tests.unit.client.stub import Stub


class Shell:
    """One of the two clients. Calls are given as functions: the sync client runs in a thread.

    So a server in the event loop of the test can answer both.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_async = name == "async"

    def make(self, *arguments: Any, **options: Any) -> Any:
        """Return a client that is made with these arguments."""
        return (AsyncClient if self.is_async else Client)(*arguments, **options)

    def client(self, stub: Stub, retries: int = 3) -> Any:
        """Return a client of a stub."""
        return stub.async_client(retries) if self.is_async else stub.client(retries)

    async def run(self, call: Callable[[], Any]) -> Any:
        """Return the result of a call."""
        if not self.is_async:
            return await asyncio.to_thread(call)
        outcome = call()
        return await outcome if isinstance(outcome, Awaitable) else outcome

    async def all(self, items: Callable[[], Any]) -> list[Any]:
        """Return all that an iterator yields."""
        if self.is_async:
            return [item async for item in items()]
        return await asyncio.to_thread(lambda: list(items()))

    async def first(self, iterator: Any) -> Any:
        """Return the next item of an iterator."""
        return await anext(iterator) if self.is_async else await asyncio.to_thread(next, iterator)

    async def leave(self, iterator: Any) -> None:
        """End an iterator before its end."""
        if self.is_async:
            await iterator.aclose()
        else:
            await asyncio.to_thread(iterator.close)
