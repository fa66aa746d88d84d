"""The application under ASGI: the messages, and two real servers."""

import asyncio
import contextlib
import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.asgi import Message, asgi_app
from durable_sessions.http.carrier.message import OWN, Answer, Handler, Request, Response, StreamingResponse
from durable_sessions.limits import Limits
from tests.support.waiting import PATIENCE_SECONDS

from .conftest import echo

ROOT = Path(__file__).parents[3]
LIMITS = Limits(append_body_bytes_max=1000)

closed: list[str] = []  # the endless answers that have been cleaned up


async def ticks() -> AsyncIterator[bytes]:
    try:
        for number in range(1000):
            yield b"data: %d\n\n" % number
            await asyncio.sleep(0.02)
    finally:
        closed.append("ticks")


async def three() -> AsyncIterator[bytes]:
    for number in range(3):
        yield b"%d" % number
        await asyncio.sleep(0)


def handler(request: Request) -> Answer | Awaitable[Answer]:
    match request.path:
        case b"/ticks":
            return StreamingResponse(200, [(b"Content-Type", b"text/event-stream")], ticks())
        case b"/three":
            return StreamingResponse(200, [], three())
        case b"/empty":
            return Response(204, [(b"Stream-Next-Offset", b"1")])
        case b"/closed":
            return Response(200, [], b"%d" % len(closed))
        case b"/later":
            return later(request)
        case b"/wait":
            return wait_for_ever()
    return echo(request)


async def later(request: Request) -> Response:
    await asyncio.sleep(0.01)
    return echo(request)


async def wait_for_ever() -> Response:
    try:
        await asyncio.sleep(60)
    finally:
        closed.append("wait")
    return Response(204, [])


app = asgi_app(handler, LIMITS, answer_format=ANSWER_FORMAT)


# Real servers ---------------------------------------------------------------------------

SERVERS = {
    "uvicorn": ["uvicorn", "--loop", "uvloop", "--http", "httptools", "--log-level", "warning"],
    "granian": ["granian", "--interface", "asgi", "--no-ws", "--log-level", "warning"],
}


@pytest.fixture(scope="module", params=SERVERS)
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = int(sock.getsockname()[1])
    command = [*SERVERS[request.param], "--host", "127.0.0.1", "--port", str(port), f"{__name__}:app"]
    with subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT) as process:
        try:
            _wait_for(port, process)
            yield port
        finally:
            process.terminate()
            process.wait(10)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        assert process.poll() is None
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise TimeoutError


@contextlib.contextmanager
def connected(port: int) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        yield connection
    finally:
        connection.close()


def test_requests_and_answers(port: int) -> None:
    with connected(port) as connection:
        for path in ("/a%20b%2Fc?x=%31", "/later?x=%31"):
            connection.request("POST", path, b"hello", {"X-One": "1"})
            answer = connection.getresponse()
            raw_path, _, query = path.partition("?")
            assert answer.read() == f"POST {raw_path} ? {query}\nhello".encode()
            for name, value in ANSWER_FORMAT.common_headers[OWN]:
                assert answer.headers.get_all(name.decode()) == [value.decode()]
            assert len(answer.headers.get_all("Date") or []) == 1
            assert answer.headers["Content-Type"] == "text/plain"


def test_no_body(port: int) -> None:
    with connected(port) as connection:
        connection.request("HEAD", "/x")
        answer = connection.getresponse()
        assert (answer.read(), answer.headers["Content-Length"]) == (b"", str(len("HEAD /x ? \n")))
        connection.request("POST", "/empty", b"1")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (204, b"")
        assert "Content-Length" not in answer.headers
        assert answer.headers["Stream-Next-Offset"] == "1"


def test_a_chunked_request_and_a_chunked_answer(port: int) -> None:
    with connected(port) as connection:
        connection.request("POST", "/x", iter([b"abc", b"def"]))
        assert connection.getresponse().read() == b"POST /x ? \nabcdef"
        connection.request("GET", "/three")
        assert connection.getresponse().read() == b"012"


@pytest.mark.parametrize("is_chunked", [True, False])
def test_a_body_that_is_too_large(port: int, is_chunked: bool) -> None:
    with connected(port) as connection:
        for size, status in ((1000, 200), (1001, 413)):
            body = iter([b"x" * (size - 1), b"x"]) if is_chunked else b"x" * size
            connection.request("POST", "/x", body)
            answer = connection.getresponse()
            assert answer.status == status
            body_read = answer.read()
        assert json.loads(body_read)["error"]["code"] == "body_too_large"


@pytest.mark.parametrize("path", ["/ticks", "/wait"])
def test_a_peer_that_leaves_ends_its_answer(port: int, path: str) -> None:
    def closed_count() -> int:
        with connected(port) as connection:
            connection.request("GET", "/closed")
            return int(connection.getresponse().read())

    before = closed_count()
    with connected(port) as connection:
        connection.request("GET", path)
        if path == "/ticks":
            assert connection.getresponse().read(9) == b"data: 0\n\n"
        else:
            time.sleep(0.2)
    deadline = time.monotonic() + 5
    while closed_count() == before:
        assert time.monotonic() < deadline
        time.sleep(0.05)


# Messages -------------------------------------------------------------------------------

SCOPE: Message = {
    "type": "http",
    "method": "POST",
    "path": "/a b",
    "raw_path": b"/a%20b",
    "query_string": b"q",
    "headers": [(b"accept", b"a"), (b"x", b"1"), (b"accept", b"b")],
}
BODY: Message = {"type": "http.request", "body": b"hello"}


class Driver:
    """Plays the server's part."""

    def __init__(self, *incoming: Message) -> None:
        self.incoming = list(incoming)
        self.sent: list[Message] = []
        self.disconnect = asyncio.Event()

    async def receive(self) -> Message:
        if self.incoming:
            return self.incoming.pop(0)
        await self.disconnect.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        await asyncio.sleep(0)


async def run(handler: Handler, *incoming: Message, **scope: object) -> list[Message]:
    driver = Driver(*incoming)
    await asgi_app(handler, LIMITS, answer_format=ANSWER_FORMAT)(
        {**SCOPE, **scope}, driver.receive, driver.send
    )
    return driver.sent


@pytest.mark.anyio
async def test_a_request_is_put_together() -> None:
    seen: list[Request] = []

    def look(request: Request) -> Response:
        seen.append(request)
        return Response(204, [(b"Some-Name", b"1")])

    pieces = [{**BODY, "more_body": True}, {"type": "http.request", "body": b" you"}]
    sent = await run(look, *pieces)
    await run(look, BODY, raw_path=None)
    assert seen[0].headers == {b"accept": b"a, b", b"x": b"1"}
    assert (seen[0].path, seen[0].query, seen[0].body) == (b"/a%20b", b"q", b"hello you")
    assert seen[1].path == b"/a%20b"
    assert (b"some-name", b"1") in sent[0]["headers"]
    assert all(name == name.lower() for name, _ in sent[0]["headers"])


@pytest.mark.anyio
async def test_a_request_that_breaks_off_is_not_answered() -> None:
    assert await run(handler, {**BODY, "more_body": True}, {"type": "http.disconnect"}) == []


@pytest.mark.anyio
async def test_the_body_is_limited_before_and_while_it_is_read() -> None:
    headers = [(b"content-length", b"1001")]
    assert (await run(handler, headers=headers))[0]["status"] == 413
    pieces = [{**BODY, "body": b"x" * 1000, "more_body": True}, BODY]
    assert (await run(handler, *pieces))[0]["status"] == 413


@pytest.mark.anyio
async def test_the_application_may_tell_the_length_for_head() -> None:
    sent = await run(lambda _: Response(200, [(b"Content-Length", b"12")]), BODY, method="HEAD")
    assert [value for name, value in sent[0]["headers"] if name == b"content-length"] == [b"12"]


@pytest.mark.anyio
async def test_a_stream_ends_with_the_connection() -> None:
    before = len(closed)
    driver = Driver(BODY)
    serving = asyncio.create_task(
        _serve(app({**SCOPE, "raw_path": b"/ticks"}, driver.receive, driver.send))  # as a server would
    )
    await asyncio.sleep(0.05)
    driver.disconnect.set()
    await asyncio.wait_for(serving, PATIENCE_SECONDS)
    assert len(closed) == before + 1
    assert driver.sent[-1]["more_body"]


async def _serve(serving: Awaitable[None]) -> None:
    await serving


@pytest.mark.anyio
async def test_a_cancelled_server_takes_its_answers_with_it() -> None:
    before = len(closed)
    driver = Driver(BODY)
    serving = asyncio.create_task(_serve(app({**SCOPE, "raw_path": b"/wait"}, driver.receive, driver.send)))
    await asyncio.sleep(0.02)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert len(closed) == before + 1


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["HEAD", "GET"])
async def test_a_stream_without_a_body(method: str) -> None:
    status = 200 if method == "HEAD" else 304
    chunks = three()
    sent = await run(lambda _: StreamingResponse(status, [], chunks), BODY, method=method)
    assert [message.get("body") for message in sent] == [None, b""]


@pytest.mark.anyio
async def test_handlers_that_fail() -> None:
    def now(request: Request) -> Response:
        raise ValueError("bad")

    async def soon(request: Request) -> Response:
        raise ValueError("bad")

    async def broken() -> AsyncIterator[bytes]:
        yield b"x"
        raise ValueError("broken")

    for failing in (now, soon):
        with capture_logs() as logs:
            sent = await run(failing, BODY)
        assert sent[0]["status"] == 500
        assert logs[0]["event"] == "handler_failed"
    with pytest.raises(ValueError, match="broken"):
        await run(lambda _: StreamingResponse(200, [], broken()), BODY)


@pytest.mark.anyio
async def test_lifespan() -> None:
    calls: list[str] = []

    async def startup() -> None:
        calls.append("startup")

    async def shutdown() -> None:
        calls.append("shutdown")
        raise ValueError("stuck")

    events = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    driver = Driver(*events)
    await asgi_app(handler, answer_format=ANSWER_FORMAT)({"type": "lifespan"}, driver.receive, driver.send)
    assert [message["type"] for message in driver.sent] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]
    driver = Driver(*events)
    served = asgi_app(handler, startup=startup, shutdown=shutdown, answer_format=ANSWER_FORMAT)
    with pytest.raises(ValueError, match="stuck"):
        await served({"type": "lifespan"}, driver.receive, driver.send)
    assert driver.sent[-1] == {"type": "lifespan.shutdown.failed", "message": "stuck"}
    assert calls == ["startup", "shutdown"]


@pytest.mark.anyio
async def test_other_scopes_are_refused() -> None:
    driver = Driver()
    with pytest.raises(ValueError, match="websocket"):
        await app({"type": "websocket"}, driver.receive, driver.send)


@pytest.mark.anyio
async def test_every_answer_has_a_name_and_the_application_knows_it() -> None:
    seen: list[bytes] = []

    def note(request: Request) -> Response:
        seen.append(request.id)
        return Response(204, [])

    app = asgi_app(note, LIMITS, answer_format=ANSWER_FORMAT)
    names = []
    for _ in range(2):
        driver = Driver(BODY)
        await app(SCOPE, driver.receive, driver.send)
        sent = driver.sent
        names += [value for name, value in sent[0]["headers"] if name == b"request-id"]
    assert names == seen
    assert len(set(names)) == 2


@pytest.mark.anyio
async def test_a_body_may_be_larger_where_the_application_says_so() -> None:
    app = asgi_app(echo, LIMITS, body_limit=lambda request: 2_000, answer_format=ANSWER_FORMAT)
    for size, status in ((2_000, 200), (2_001, 413)):
        for headers in ([(b"content-length", b"%d" % size)], []):
            driver = Driver({**BODY, "body": b"x" * size})
            await app({**SCOPE, "headers": headers}, driver.receive, driver.send)
            assert driver.sent[0]["status"] == status
