"""Adapters: what a framework's calls cost with ours, beside the framework's own stores in the same run."""

import contextlib
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from bench import feeding, frameworks, postgres
from bench.figures import Figures, Result, Row, interleave, say
from bench.frameworks import Loop, Run, newest, timed
from bench.options import Options
from bench.place import Place
from bench.postgres import Postgres
from bench.report import Claim, Column, Part, Table, figure
from bench.server import Server, ours
from bench.slots import Connection

LONG, SHORT = 1_000, 100
LISTED, BESIDE = 61, 20_000
KEPT_STEPS = 100
ITEMS = 200
SEARCHED = 20_000
PER_REQUEST = 200
WORD = "boundary"
PROJECT, OTHER_PROJECT = "-home-ann-shop", "-home-ann-other"
CALLS = (Column("p50 ms", "p50_ms", "{:.2f}".format), Column("p99 ms", "p99_ms", "{:.2f}".format))
BYTES = (Column("KiB", "kib"),)

PUT, COLD, COLD_SHORT, WARM = (
    "LangGraph `put`",
    f"LangGraph cold `get_tuple`, {LONG:,} checkpoints",
    f"LangGraph cold `get_tuple`, {SHORT} checkpoints",
    f"LangGraph warm `get_tuple`, {LONG:,} checkpoints",
)
BARE = "the events of a `put`, sent bare"
LIST, LIST_MANY = (
    f"Claude `list_sessions` of {LISTED}",
    f"Claude `list_sessions` of {LISTED}, in a workspace of {BESIDE:,} more",
)
APPEND, LOAD = "Claude `append` of 10", "Claude `load` of 1,000"
ADD, GET = "OpenAI `add_items` of 2", "OpenAI `get_items(20)`"
OVER_MCP, OVER_HTTP = "`search_events` over MCP (stdio)", "the same search over HTTP"
THEIR_POSTGRES, THEIR_SQLITE = "PostgreSQL", "SQLite file"


class Rows:
    """The rows of one framework after the other, on servers that are there for all of them."""

    def __init__(self, server: Server, many: Server, peer: Postgres, folder: Path, options: Options) -> None:
        self._server = server
        self._many = many
        self._peer = peer
        self._folder = folder
        self._seconds = options.seconds / 2  # there are many rows, and each call takes milliseconds
        self._beside = options.scaled(BESIDE, 1_000)
        self._searched = options.scaled(SEARCHED, 2_000)
        self._open = contextlib.ExitStack()

    def __enter__(self) -> "Rows":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def langgraph(self) -> Iterator[Row]:
        """Yield what a graph does at each step, and when it opens a thread."""
        from durable_sessions import Client
        from durable_sessions.adapters.langgraph import DurableSaver

        client = self._open.enter_context(Client(self._server.url))
        saver = DurableSaver(client)
        others = {
            THEIR_POSTGRES: frameworks.postgres_saver(self._peer),
            THEIR_SQLITE: frameworks.sqlite_saver(self._folder / "run.sqlite"),
        }
        say("filling threads")
        for one in (saver, *others.values()):
            Run(one, "long").steps(LONG)
        Run(saver, "short").steps(SHORT)
        body = _body_of_put(saver)
        bare = Connection(self._server.url)
        path = "/v1/sessions/bare/events"
        yield self._ours(PUT, _repeated(Run(saver, "put").put))
        yield self._ours(BARE, lambda: bare.request("POST", path, body))
        yield self._ours(WARM, lambda: newest(saver, "long"))
        yield self._ours(COLD, lambda: newest(DurableSaver(client), "long"))
        yield self._ours(COLD_SHORT, lambda: newest(DurableSaver(client), "short"))
        for name, one in others.items():
            process = self._peer.process if name == THEIR_POSTGRES else None
            for what, act in ((PUT, _repeated(Run(one, "put").put)), (WARM, _reader(one))):
                yield Row(f"{what}: {name}", self._timing(act), process)

    def claude(self) -> Iterator[Row]:
        """Yield what the Claude Agent SDK does with transcripts."""
        from durable_sessions.adapters.claude import DurableSessionStore

        say(f"filling a workspace with {self._beside:,} sessions")
        self._fill_workspace()
        for server, peer in ((self._server, self._peer), (self._many, None)):
            loop = self._loop()
            store = DurableSessionStore(url=server.url)
            stores = {"": store}
            if peer is not None:
                stores[f": {THEIR_POSTGRES}"] = loop.run(frameworks.postgres_store(peer))
            for name, one in stores.items():
                process = self._peer.process if name else server
                loop.run(_transcripts(one))
                if peer is None:
                    yield Row(LIST_MANY, loop.timing(_listing(one), self._seconds), process)
                    continue
                for what, act in _of_claude(one):
                    yield Row(f"{what}{name}", loop.timing(act, self._seconds), process)

    def openai(self) -> Iterator[Row]:
        """Yield what the OpenAI Agents SDK does with a conversation."""
        from agents import SQLiteSession
        from durable_sessions.adapters.openai_agents import DurableSession

        file = self._folder / "conversations.sqlite"
        for name in ("", f": {THEIR_SQLITE}"):
            loop = self._loop()
            kept, grown = (
                SQLiteSession(one, file) if name else DurableSession(one, url=self._server.url)
                for one in ("kept", "grown")
            )
            loop.run(kept.add_items(frameworks.items(ITEMS)))
            process = None if name else self._server
            get, add = _of_openai(kept, grown)
            yield Row(f"{GET}{name}", loop.timing(get, self._seconds), process)
            yield Row(f"{ADD}{name}", loop.timing(add, self._seconds), process)

    def mcp(self) -> Iterator[Row]:
        """Yield a search by way of ``ds mcp``, and the request that it makes."""
        path = "/v1/sessions/searched/events"
        bodies = (
            json.dumps({"events": [_said(number) for number in range(first, first + PER_REQUEST)]}).encode()
            for first in range(0, self._searched, PER_REQUEST)
        )
        feeding.send(self._server.url, (feeding.post(path, body) for body in bodies), lanes=1)
        connection = Connection(self._server.url)
        query = f"/v1/search?q={WORD}&limit=11&hits=5"
        connection.request("GET", query)
        loop = self._loop()

        def over_mcp() -> Figures:
            found: Figures = loop.run(_over_mcp(self._server.url, self._seconds))
            return found

        yield Row(OVER_MCP, over_mcp, self._server)
        yield self._ours(OVER_HTTP, lambda: connection.request("GET", query))

    def _ours(self, name: str, act: Callable[[], object]) -> Row:
        return Row(name, self._timing(act), self._server)

    def _timing(self, act: Callable[[], object]) -> Callable[[], Figures]:
        return lambda: timed(act, self._seconds)

    def _loop(self) -> Loop:
        loop = Loop()
        self._open.callback(loop.close)
        return loop

    def _fill_workspace(self) -> None:
        """Fill a workspace with transcripts of another project, as the adapter stores them."""
        held = {"type": "claude.summary", "slot": "claude.summary", "searchable": False, "data": {}}

        def requests() -> Iterator[bytes]:
            for number in range(self._beside):
                parts = {"project_key": OTHER_PROJECT, "session_id": str(number)}
                metadata = {"adapter": "claude", "namespace": "claude", **parts}
                body = {"events": [held], "session": {"metadata": metadata}}
                path = f"/v1/sessions/claude:{OTHER_PROJECT}:{number}/events"
                yield feeding.post(path, json.dumps(body).encode())

        feeding.send(self._many.url, requests())
        self._many.flush()


def run(place: Place, options: Options) -> Part:
    """Measure the adapters beside the stores of their frameworks."""
    problem = frameworks.missing() or postgres.missing()
    if problem:
        return Part(
            "Adapters", [], [Claim("adapters ÷ the frameworks' own stores", None, None, skipped=problem)]
        )
    with contextlib.ExitStack() as stack:
        server, many = (stack.enter_context(ours(place)) for _ in range(2))
        peer = stack.enter_context(postgres.postgres(place))
        rows = stack.enter_context(Rows(server, many, peer, place.fresh("sqlite"), options))
        listed = [*rows.langgraph(), *rows.claude(), *rows.openai(), *rows.mcp()]
        results = interleave(listed, options.rounds)
    kept = _kept(place)
    note = (
        "All stores sync before they answer: SQLite with its defaults, PostgreSQL as above. Savers and "
        "stores of ours keep an HTTP connection, those of PostgreSQL one of theirs; SQLite is in the "
        f"process. A checkpoint has {frameworks.WINDOW} messages of about 280 bytes. Cold is a new saver "
        "on an open connection; the savers of LangGraph keep nothing, so that theirs are always cold."
    )
    tables = [
        Table("Calls of frameworks, one after the other", CALLS, results),
        Table(f"A LangGraph run of {KEPT_STEPS} steps with all its messages, and its writes", BYTES, kept),
    ]
    return Part("Adapters", tables, _claims(results, kept), [note])


def _claims(results: list[Result], kept: list[Result]) -> list[Claim]:
    def p50(name: str) -> float | None:
        return figure(results, name, "p50_ms")

    def over(
        what: str, must: float | None = None, aim: float | None = None, *, peer: str, beside: str = ""
    ) -> Claim:
        theirs = p50(f"{beside or what}: {peer}")
        return Claim(f"{what} ÷ {peer}", p50(what), theirs, must, aim, at_most=True)

    def within(what: str, beside: str, must: float, aim: float) -> Claim:
        return Claim(f"{what} ÷ {beside}", p50(what), p50(beside), must, aim, at_most=True)

    def kib(name: str) -> float | None:
        return figure(kept, name, "kib")

    return [
        over(COLD, 6, 3, peer=THEIR_POSTGRES, beside=WARM),
        over(COLD, peer=THEIR_SQLITE, beside=WARM),
        within(COLD, COLD_SHORT, 1.5, 1.1),
        over(PUT, 2, 1.2, peer=THEIR_POSTGRES),
        over(PUT, peer=THEIR_SQLITE),
        within(PUT, BARE, 1.5, 1.2),
        over(WARM, 2, 1.2, peer=THEIR_POSTGRES),
        over(LIST, 4, 2, peer=THEIR_POSTGRES),
        within(LIST_MANY, LIST, 1.5, 1.1),
        over(APPEND, peer=THEIR_POSTGRES),
        over(LOAD, peer=THEIR_POSTGRES),
        over(GET, 6, 3, peer=THEIR_SQLITE),
        over(ADD, 4, 2, peer=THEIR_SQLITE),
        Claim("bytes in the log ÷ SQLite file", kib(IN_LOG), kib(THEIR_SQLITE), 1.35, 1.1, at_most=True),
        Claim("bytes in the bucket ÷ SQLite file", kib(IN_BUCKET), kib(THEIR_SQLITE), 0.8, 0.5, at_most=True),
        within(OVER_MCP, OVER_HTTP, 2, 1.3),
    ]


IN_LOG, IN_BUCKET = "ours, in the log", "ours, in the bucket"


def _kept(place: Place) -> list[Result]:
    """Return how many bytes one run of a graph leaves, whose state grows with each step."""
    from durable_sessions import Client
    from durable_sessions.adapters.langgraph import DurableSaver

    file = place.fresh("kept") / "run.sqlite"
    theirs = frameworks.sqlite_saver(file)
    Run(theirs, "kept", window=None).steps(KEPT_STEPS)
    theirs.conn.execute("pragma wal_checkpoint(truncate)")
    with ours(place) as server, Client(server.url) as client:
        before = server.log_bytes()
        Run(DurableSaver(client), "kept", window=None).steps(KEPT_STEPS)
        logged = server.log_bytes() - before
        server.flush()
        events = (server.data / "bucket" / "events").rglob("*.parquet")
        flushed = sum(one.stat().st_size for one in events)
    found = {IN_LOG: logged, IN_BUCKET: flushed, THEIR_SQLITE: file.stat().st_size}
    return [Result(name, [{"kib": size / 1_024}]) for name, size in found.items()]


def _body_of_put(saver: Any) -> Any:
    """Return the body of the request that a put makes, without what makes its events be stored once."""

    class Recorder:
        body = b""

        def session(self, _: str, **__: object) -> "Recorder":
            return self

        def append_body(self, body: bytes) -> None:
            self.body = body

    recorder = Recorder()
    next(saver._plans.put(saver.serde, *Run(saver, "body").steps(frameworks.WINDOW).next())).call(recorder)
    body = json.loads(recorder.body)
    return {"events": [{name: one[name] for name in one if name != "id"} for one in body["events"]]}


def _repeated(put: Callable[[], None]) -> Callable[[], None]:
    """Return a put on a thread whose state has its full size."""
    for _ in range(frameworks.WINDOW):
        put()
    return put


def _reader(saver: Any) -> Callable[[], None]:
    return lambda: newest(saver, "long")


async def _transcripts(store: Any) -> None:
    for number in range(LISTED):
        key = {"project_key": PROJECT, "session_id": f"s{number}"}
        await store.append(key, frameworks.entries(3))
    for _ in range(10):
        await store.append({"project_key": "-long", "session_id": "long"}, frameworks.entries(100))


def _listing(store: Any) -> Callable[[], Awaitable[object]]:
    async def listed() -> None:
        assert len(await store.list_sessions(PROJECT)) == LISTED

    return listed


def _of_claude(store: Any) -> Iterator[tuple[str, Callable[[], Awaitable[object]]]]:
    async def append() -> None:
        await store.append({"project_key": "-grown", "session_id": "grown"}, frameworks.entries(10))

    async def load() -> None:
        assert len(await store.load({"project_key": "-long", "session_id": "long"})) == 1_000

    yield LIST, _listing(store)
    yield APPEND, append
    yield LOAD, load


def _of_openai(
    kept: Any, grown: Any
) -> tuple[Callable[[], Awaitable[object]], Callable[[], Awaitable[object]]]:
    async def get() -> None:
        assert len(await kept.get_items(20)) == 20

    async def add() -> None:
        await grown.add_items(frameworks.items(2))

    return get, add


async def _over_mcp(url: str, seconds: float) -> Figures:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    command = ["-m", "durable_sessions", "mcp", "--url", url]
    async with Client(StdioServerParameters(command=sys.executable, args=command)) as agent:

        async def search() -> None:
            answer = await agent.call_tool("search_events", {"query": WORD})
            assert not answer.is_error
            assert answer.structured_content
            assert answer.structured_content["hits"]

        return await frameworks.timed_async(search, seconds)


def _said(number: int) -> dict[str, object]:
    text = f"The test of part {number} fails at the {WORD if number % 10 == 0 else 'start'} of its range."
    return {"type": "agent.message", "content": [{"type": "text", "text": text}]}
