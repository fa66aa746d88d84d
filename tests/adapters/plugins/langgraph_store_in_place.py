"""For the tests of LangGraph's SQLite stores: our store in the place of both."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from uuid import uuid1

from langgraph.store import sqlite
from langgraph.store.sqlite import aio

from durable_sessions.adapters.langgraph_store import DurableStore


class Store(DurableStore):
    """A fresh store, made as the tests make those of SQLite."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__(url=os.environ["ADAPTER_SERVER"], namespace=f"u{uuid1().hex}")

    @classmethod
    @contextmanager
    def from_conn_string(cls, _: str, **__: Any) -> Iterator["Store"]:
        """Yield a store."""
        store = cls()
        yield store
        store.close()

    def setup(self) -> None:
        """Make tables: there are none."""


class AsyncStore(Store):
    """The same, for the async tests."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, _: str, **__: Any) -> AsyncIterator["AsyncStore"]:  # type: ignore[override]
        """Yield a store."""
        store = cls()
        yield store
        await store.aclose()

    async def setup(self) -> None:  # type: ignore[override]
        """Make tables: there are none."""


sqlite.SqliteStore = Store
sqlite.AsyncSqliteStore = aio.AsyncSqliteStore = AsyncStore
