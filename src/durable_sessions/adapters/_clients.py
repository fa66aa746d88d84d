"""The clients of an adapter: the one it was given, or one of its own for each event loop."""

import asyncio
import os
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import anyio.to_thread

from durable_sessions.adapters._plans import Plan, carry_out, carry_out_async
from durable_sessions.client import AsyncClient, Client
from durable_sessions.client.options import RETRIES, TIMEOUT_SECONDS, Options

T = TypeVar("T")


class AdapterClients:
    """Carries out plans, by a sync client or by an async one of the loop that runs.

    Frameworks make stores before there is an event loop, and call them from several. A client that was given
    is used where it can be; all others have the same address and key, and are closed with the adapter.
    """

    def __init__(
        self,
        client: Client | AsyncClient | None = None,
        *,
        url: str | None = None,
        api_key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        retries: int = RETRIES,
    ) -> None:
        if client is not None and (url is not None or api_key is not None):
            raise ValueError("Give a client, or url and api_key; not both.")
        self._options = Options.chosen(url, api_key, timeout, retries) if client is None else client.options
        self._given = client
        self.url = self._options.url
        self._guard = Lock()
        self._process = os.getpid()
        self._sync: Client | None = None
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncClient] = WeakKeyDictionary()

    def run(self, plan: Plan[T]) -> T:
        """Carry out a plan and wait for it."""
        return carry_out(plan, self._sync_client())

    async def arun(self, plan: Plan[T]) -> T:
        """Carry out a plan on the running loop; one that is not asyncio's waits in a thread."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return await anyio.to_thread.run_sync(carry_out, plan, self._sync_client())
        return await carry_out_async(plan, self._async_client(loop))

    def close(self) -> None:
        """Close the sync client, if the adapter made it."""
        with self._guard:
            made, self._sync = self._sync, None
        if made is not None and made is not self._given:
            made.close()

    async def aclose(self) -> None:
        """Close what the adapter made for the running loop, and its sync client."""
        self.close()
        try:
            made = self._by_loop.pop(asyncio.get_running_loop(), None)
        except RuntimeError:
            return
        if made is not None and made is not self._given:
            await made.close()

    def _sync_client(self) -> Client:
        with self._guard:
            self._after_fork()
            if self._sync is None:
                given = self._given
                self._sync = given if isinstance(given, Client) else self._make(Client)
            return self._sync

    def _async_client(self, loop: asyncio.AbstractEventLoop) -> AsyncClient:
        with self._guard:
            self._after_fork()
            client = self._by_loop.get(loop)
            if client is None:
                given = self._given if not self._by_loop else None  # it belongs to the first loop
                client = given if isinstance(given, AsyncClient) else self._make(AsyncClient)
                self._by_loop[loop] = client
            return client

    def _after_fork(self) -> None:
        """Leave the connections of the parent process to it."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._given = self._sync = None
            self._by_loop = WeakKeyDictionary()

    def _make(self, kind: Callable[..., Any]) -> Any:
        chosen = self._options
        return kind(
            chosen.url,
            chosen.api_key,
            timeout=chosen.timeout,
            retries=chosen.retries,
            principal=chosen.principal,
        )
