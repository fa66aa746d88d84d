"""``ds mcp`` as it is started: on standard input, and over HTTP with many callers."""

import asyncio
import json
import zlib
from collections.abc import Iterator

import httpx2
import pytest

from durable_sessions.testing import BackgroundServer, server
from tests.mcp.conftest import HttpServer, over_stdio, serve_http
from tests.mcp.test_tools import READING, WRITING
from tests.support.commands import Commands
from tests.support.keys import BOOTSTRAP, make_secret

pytestmark = pytest.mark.anyio
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@pytest.fixture(scope="module")
def http(running: BackgroundServer) -> Iterator[HttpServer]:
    yield from serve_http(running.url)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundServer]:
    with server(tmp_path_factory.mktemp("guarded"), api_key=BOOTSTRAP) as running:
        yield running


@pytest.fixture(scope="module")
def guarded_http(guarded: BackgroundServer) -> Iterator[HttpServer]:
    # The key of the process itself is never used for callers.
    yield from serve_http(guarded.url, "--write", DURABLE_SESSIONS_API_KEY=BOOTSTRAP)


async def test_both_transports_do_the_same(running: BackgroundServer, http: HttpServer) -> None:
    answers = []
    for opened in (over_stdio(running.url), http.tools()):
        async with opened as tools:
            assert await tools.names() == READING
            found = await tools.call("search_events", query="refused is:error")
            assert "There is no session" in await tools.refused("read_events", session_id="nowhere")
            answers.append((found["hits"], await tools.call("read_events", session_id="deploy")))
    assert answers[0] == answers[1]


async def test_each_caller_has_its_own_key(guarded: BackgroundServer, guarded_http: HttpServer) -> None:
    secrets = {team: await make_secret(guarded.url, "writer", team) for team in ("red", "blue")}
    reader = await make_secret(guarded.url, "reader", "red")

    async def work(team: str) -> None:
        async with guarded_http.tools(secrets[team]) as tools:
            assert await tools.names() == READING | WRITING
            made = httpx2.post(
                f"{guarded.url}/v1/sessions/log/events",
                json={"type": "user.message", "content": f"{team} only"},
                headers={"Authorization": f"Bearer {secrets[team]}"},
            )
            assert made.status_code == 204
            for _ in range(5):
                [hit] = (await tools.call("search_events", query="only"))["hits"]
                assert hit["snippet"] == f"{team} only"
            await tools.call("append_note", session_id="log", text="done")

    await asyncio.gather(work("red"), work("blue"))
    async with guarded_http.tools(reader) as tools:
        assert await tools.names() == READING, "a reader has no tools that write"
        assert "role writer" in await tools.refused("append_note", session_id="log", text="x")
    async with guarded_http.tools("dsk_unknown") as tools:
        assert await tools.names() == READING
        assert "key" in await tools.refused("list_sessions")


def test_without_a_key_nobody_enters(guarded_http: HttpServer) -> None:
    for headers in (
        {},
        {"Authorization": "Basic abc"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer \xff"},
    ):
        encoded = {name.encode(): value.encode("latin-1") for name, value in {**HEADERS, **headers}.items()}
        answer = httpx2.post(guarded_http.url, json=LIST, headers=encoded)
        assert answer.status_code == 401, headers
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:3000"}, 200),
        ({"Origin": "http://evil.example", "Authorization": "Bearer dsk_any"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "[::1"}, 403),
        ({"Host": "localhost:1"}, 200),
        ({"Content-Type": "text/plain"}, 400),
        ({"Accept": "text/html"}, 406),
    ],
)
def test_foreign_pages_and_names_are_refused(http: HttpServer, headers: dict[str, str], status: int) -> None:
    answer = httpx2.post(http.url, json=LIST, headers={**HEADERS, **headers})
    assert answer.status_code == status, answer.text


def test_hostile_bodies_do_no_harm(http: HttpServer) -> None:
    deep = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001
    )
    bomb = zlib.compress(b" " * 50_000_000)
    bodies = [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        deep,
        bomb,
        json.dumps([LIST] * 3).encode(),
        b"x" * 2_000_000,
    ]
    for body in bodies:
        answer = httpx2.post(http.url, content=body, headers={**HEADERS, "Content-Encoding": "gzip"})
        assert 400 <= answer.status_code < 500, (body[:40], answer.status_code)
    assert httpx2.post(http.url, content=b"x" * 2_000_000, headers=HEADERS).status_code == 413
    assert httpx2.post(http.url, json=LIST, headers=HEADERS).status_code == 200


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["--http", "0.0.0.0:0"], 1, "wants no key"),
        (["--http", "port"], 2, "--http takes a port"),
        (["--http", "1", "--api-key", "secret"], 2, "each caller sends a key of its own"),
        (["--allowed-host", "x"], 2, "go with --http"),
        (["--bytes", "10"], 2, "--bytes"),
    ],
)
def test_wrong_words_are_explained(
    running: BackgroundServer, words: list[str], status: int, told: str
) -> None:
    done = Commands(running.url).run("mcp", *words, status=status)
    assert told in done.stderr
