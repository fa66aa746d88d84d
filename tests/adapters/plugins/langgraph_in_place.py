"""For the tests of LangGraph: our saver in the place of its SQLite savers."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from uuid import uuid1

from langgraph.checkpoint import sqlite
from langgraph.checkpoint.sqlite import aio

from durable_sessions.adapters.langgraph import DurableSaver


class Saver(DurableSaver):
    """A fresh saver, made as the tests make those of SQLite."""

    def __init__(self, *arguments: Any, serde: Any = None) -> None:
        # Not uuid4, which the tests replace.
        super().__init__(url=os.environ["ADAPTER_SERVER"], namespace=f"u{uuid1().hex}", serde=serde)

    @classmethod
    @contextmanager
    def from_conn_string(cls, _: str) -> Iterator["Saver"]:
        """Yield a saver."""
        saver = cls()
        yield saver
        saver.close()


class AsyncSaver(Saver):
    """The same, for the async tests."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, _: str) -> AsyncIterator["AsyncSaver"]:  # type: ignore[override]
        """Yield a saver."""
        saver = cls()
        yield saver
        await saver.aclose()


sqlite.SqliteSaver = Saver
aio.AsyncSqliteSaver = AsyncSaver
