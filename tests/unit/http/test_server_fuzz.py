"""Whatever strangers send, the server goes on serving others."""

import asyncio
import itertools
import socket
import threading
from collections.abc import Awaitable, Iterator

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.message import Answer, Request, Response
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.limits import Limits

from .conftest import echo
from .raw import HOST, chunked, get, post

GOOD = [
    get(b"/a?b=c"),
    post(b"hello", b"/x", b"Content-Type: text/plain"),
    b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"abc", b"d" * 20),
    b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1;a=b\r\nx\r\n0\r\nT: 1\r\n\r\n",
    get(b"/", b"Connection: close"),
    get(b"/", b"Connection: Upgrade", b"Upgrade: h2c"),
    post(b"abc", b"/", b"Expect: 100-continue"),
    b"GET / HTTP/1.0\r\n\r\n",
    b"HEAD http://example/a HTTP/1.1\r\n" + HOST + b"\r\n",
]
PIECES = [
    *(b"\r\n", b"\r\n\r\n", b"\x00", b" ", b":", b"HTTP/1.1", b"Content-Length: 5\r\n", b"GET ", b"\xff"),
    *(
        b"Transfer-Encoding: chunked\r\n",
        b"Host: b\r\n",
        b"Upgrade: x\r\nConnection: upgrade\r\n",
        b"0\r\n\r\n",
    ),
]


class Background:
    """A server in a thread of its own, so that tests can use plain sockets."""

    def __init__(self) -> None:
        self.port = 0
        self.problems: list[object] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: uvloop.run(self._main()))
        self._thread.start()
        assert self._ready.wait(10)

    async def _main(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.problems.append(context))
        limits = Limits(
            append_body_bytes_max=1000, header_bytes_max=500, header_count_max=20, target_bytes_max=200
        )
        self._server = HttpServer(answer, limits, answer_format=ANSWER_FORMAT)
        await self._server.start("127.0.0.1", 0)
        self.port = self._server.port
        self._loop, self._stop = loop, asyncio.Event()
        self._ready.set()
        await self._stop.wait()
        await self._server.shutdown(0)
        assert self._server.request_bytes == 0

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)


def answer(request: Request) -> Answer | Awaitable[Answer]:
    return later(request) if request.query else echo(request)


async def later(request: Request) -> Response:
    await asyncio.sleep(0)
    return echo(request)


@pytest.fixture(scope="module")
def background() -> Iterator[Background]:
    background = Background()
    yield background
    background.close()
    assert background.problems == []


def exchange(port: int, portions: list[bytes]) -> bytes:
    """Send everything, then return whatever comes until the server is done with us."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        received = b""
        try:
            for portion in portions:
                sock.sendall(portion)
            sock.shutdown(socket.SHUT_WR)
            while data := sock.recv(65536):
                received += data
        except OSError:
            pass
        return received


def still_serves(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        sock.sendall(get(b"/alive", b"Connection: close"))
        received = b""
        while data := sock.recv(65536):
            received += data
    return received.endswith(b"GET /alive ? \n")


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    data = bytearray(b"".join(draw(st.lists(st.sampled_from(GOOD), min_size=1, max_size=4))))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["insert", "delete", "flip", "repeat"])):
            case "insert":
                data[at:at] = draw(st.sampled_from(PIECES) | st.binary(max_size=20))
            case "delete":
                del data[at : at + draw(st.integers(1, 20))]
            case "flip" if at < len(data):
                data[at] ^= draw(st.integers(1, 255))
            case _:
                data[at:at] = bytes(data[at : at + 30]) * draw(st.integers(1, 30))
    return bytes(data)


def portions(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges) if start != end]


FUZZ = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(data=st.binary(max_size=3000), cuts=st.lists(st.integers(0, 3000), max_size=4))
def test_random_bytes(background: Background, data: bytes, cuts: list[int]) -> None:
    received = exchange(background.port, portions(data, cuts))
    assert received == b"" or received.startswith(b"HTTP/1.1 ")
    assert still_serves(background.port)
    assert background.problems == []


@FUZZ
@given(data=mutated(), cuts=st.lists(st.integers(0, 3000), max_size=4))
def test_mutated_requests(background: Background, data: bytes, cuts: list[int]) -> None:
    received = exchange(background.port, portions(data, cuts))
    assert received == b"" or received.startswith(b"HTTP/1.1 ")
    assert b"internal" not in received
    assert still_serves(background.port)
    assert background.problems == []


@FUZZ
@given(
    requests=st.lists(st.sampled_from(GOOD[:4]), min_size=1, max_size=30),
    cuts=st.lists(st.integers(0, 10_000), max_size=6),
)
def test_good_requests_in_any_portions(
    background: Background, requests: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(requests) + get(b"/last", b"Connection: close")
    with socket.create_connection(("127.0.0.1", background.port), timeout=10) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for portion in portions(data, cuts):
            sock.sendall(portion)
        received = b""
        while more := sock.recv(65536):
            received += more
    assert received.count(b"HTTP/1.1 200 OK") == len(requests) + 1
    bodies = [reply.split(b"\r\n\r\n", 1)[1] for reply in received.split(b"HTTP/1.1 200 OK")[1:]]
    expected = {GOOD[0]: b"GET /a ? b=c\n", GOOD[1]: b"POST /x ? \nhello"}
    expected |= {GOOD[2]: b"POST / ? \nabc" + b"d" * 20, GOOD[3]: b"POST / ? \nx"}
    assert bodies == [*(expected[request] for request in requests), b"GET /last ? \n"]
