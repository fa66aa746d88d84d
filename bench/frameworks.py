"""What agents do to the stores of their frameworks: to ours, and to the framework's own."""

import asyncio
import importlib.util
import itertools
import sqlite3
import sys
import tarfile
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.figures import Figures, percentile
from bench.postgres import Postgres

NEEDED = (
    "agents",
    "asyncpg",
    "claude_agent_sdk",
    "langgraph.checkpoint.postgres",
    "langgraph.checkpoint.sqlite",
)
_MESSAGE = "The test of part {0} fails at the end of its range, since the last element is left out. " * 3
WINDOW = 20
_NUMBERS = itertools.count()


def missing() -> str:
    """Return what must be installed before frameworks can be measured, or nothing."""
    for name in NEEDED:
        try:
            if importlib.util.find_spec(name) is None:
                return _HOW
        except ModuleNotFoundError:
            return _HOW
    return "" if _examples() is not None else _HOW


_HOW = "make test-adapters, then .venv-adapters/bin/python -m bench adapters"


def timed(act: Callable[[], object], seconds: float) -> Figures:
    """Return how long a call takes, from calls one after the other."""
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        act()
        taken.append(time.perf_counter() - begin)
    return _figures(taken)


async def timed_async(act: Callable[[], Awaitable[object]], seconds: float) -> Figures:
    """Return how long an awaited call takes, from calls one after the other."""
    await act()
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        await act()
        taken.append(time.perf_counter() - begin)
    return _figures(taken)


def _figures(taken: list[float]) -> Figures:
    taken.sort()
    return {"p50_ms": 1_000 * percentile(taken, 0.5), "p99_ms": 1_000 * percentile(taken, 0.99)}


class Run:
    """A run of a graph on one thread: each step puts a checkpoint with its messages, and a write."""

    def __init__(self, saver: Any, thread: str, *, window: int | None = WINDOW) -> None:
        self.saver = saver
        self.config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        self._window = window
        self._messages: list[str] = []
        self._versions: dict[str, Any] = {}
        self._step = 0

    def steps(self, count: int) -> "Run":
        """Do so many steps."""
        for _ in range(count):
            self.put()
            self.write()
        return self

    def put(self) -> None:
        """Put the next checkpoint."""
        self.config = self.saver.put(*self.next())

    def write(self) -> None:
        """Put the write of a task beside the last checkpoint."""
        self.saver.put_writes(self.config, [("messages", self._messages[-1])], str(uuid.uuid4()))

    def next(self) -> tuple[Any, ...]:
        """Return what the next checkpoint is put with."""
        from langgraph.checkpoint.base import empty_checkpoint

        self._step += 1
        self._messages.append(_MESSAGE.format(self._step))
        kept = self._messages if self._window is None else self._messages[-self._window :]
        new = {
            name: self.saver.get_next_version(self._versions.get(name), None) for name in ("messages", "step")
        }
        self._versions.update(new)
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": list(kept), "step": self._step}
        checkpoint["channel_versions"] = dict(self._versions)
        return self.config, checkpoint, {"source": "loop", "step": self._step, "parents": {}}, new


def newest(saver: Any, thread: str) -> None:
    """Read the newest checkpoint of a thread, which must be there."""
    assert saver.get_tuple({"configurable": {"thread_id": thread}}) is not None


def sqlite_saver(file: Path) -> Any:
    """Return LangGraph's saver for SQLite, on a file."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    saver = SqliteSaver(sqlite3.connect(file, check_same_thread=False))
    saver.setup()
    return saver


def postgres_saver(server: Postgres) -> Any:
    """Return LangGraph's saver for PostgreSQL, on a connection of its own."""
    import psycopg
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg.rows import dict_row

    connection = psycopg.connect(server.url, autocommit=True, prepare_threshold=0, row_factory=dict_row)
    saver = PostgresSaver(connection)
    saver.setup()
    return saver


async def postgres_store(server: Postgres) -> Any:
    """Return the store for PostgreSQL that the Claude Agent SDK has as an example."""
    import asyncpg

    folder = _examples()
    assert folder is not None
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    from postgres_session_store import PostgresSessionStore

    store = PostgresSessionStore(await asyncpg.create_pool(server.url))
    await store.create_schema()
    return store


def entries(count: int) -> list[Any]:
    """Return entries of a transcript that nobody has stored yet."""
    return [
        {
            "type": "user",
            "uuid": str(uuid.uuid4()),
            "timestamp": "2026-11-18T09:00:00.000Z",
            "message": {"role": "user", "content": _MESSAGE.format(next(_NUMBERS))},
        }
        for _ in range(count)
    ]


def items(count: int) -> list[Any]:
    """Return items of a conversation."""
    return [{"role": "user", "content": _MESSAGE.format(number)} for number in range(count)]


class Loop:
    """An event loop that stays from one measurement to the next, with what was made on it."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def run(self, work: Any) -> Any:
        """Run a coroutine to its end."""
        return self._runner.run(work)

    def timing(self, act: Callable[[], Awaitable[object]], seconds: float) -> Callable[[], Figures]:
        """Return what measures a call on this loop."""

        def measure() -> Figures:
            found: Figures = self.run(timed_async(act, seconds))
            return found

        return measure

    def close(self) -> None:
        """Close it."""
        self._runner.close()


def _examples() -> Path | None:
    """Unpack the examples of the Claude Agent SDK beside its archive, which `make test-adapters` loads."""
    folder = Path(sys.prefix) / "upstream"
    for archive in folder.glob("claude_agent_sdk-*.tar.gz"):
        found = folder / archive.name.removesuffix(".tar.gz") / "examples" / "session_stores"
        if not found.exists():
            with tarfile.open(archive) as packed:
                packed.extractall(folder, filter="data")
        return found
    return None
