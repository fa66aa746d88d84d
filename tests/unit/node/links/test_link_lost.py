"""Links that are lost, refused or never there: each request knows whether it may have been carried out."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from durable_sessions.errors import LinkDownError, LinkLostError
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.message import Request, Response
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.node import link_handshake
from durable_sessions.node.link import NodeLink
from durable_sessions.node.link_address import UnixAddress
from durable_sessions.node.link_frames import (
    ANSWER,
    BODY,
    CANCEL,
    CREDIT,
    CREDIT_PAYLOAD,
    END,
    HEADER,
    HELLO,
    PROOF,
    REQUEST,
    AnswerFrame,
    RequestFrame,
    encode,
    encode_request,
    frame,
)
from durable_sessions.node.link_handshake import Handshake
from durable_sessions.node.link_server import LinkServer
from tests.support.waiting import until

from .conftest import SECRET, Connect
from .test_link import echo, request

pytestmark = pytest.mark.anyio
MIB = 1024 * 1024


def link_to(address: UnixAddress, secrets: Sequence[bytes] = (), **limits: Any) -> NodeLink:
    return NodeLink(address, secrets or [SECRET], replace(DEFAULT_LIMITS, **limits))


# Lost ---------------------------------------------------------------------------------


async def test_a_request_that_was_sent_has_an_unknown_outcome(connect: Connect) -> None:
    async def handler(partition: int, asked: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    pair = await connect(handler)
    asked = pair.link.ask(0, request())
    await until(lambda: pair.server.counts.open_requests == 1)
    await pair.server.close()
    with pytest.raises(LinkLostError):
        await asked
    assert not pair.link.is_open
    assert pair.link.counts.lost == 1


async def test_a_request_whose_body_was_not_sent_whole_was_certainly_not_carried_out(
    connect: Connect,
) -> None:
    pair = await connect(echo)
    await pair.link.ask(0, request())
    large = pair.link.ask(0, request(body=b"x" * 64 * MIB))
    await until(lambda: pair.server.counts.open_requests == 1)
    await pair.server.close()
    with pytest.raises(LinkDownError):
        await large


async def test_a_request_that_never_left_was_certainly_not_carried_out(
    connect: Connect, address: UnixAddress
) -> None:
    pair = await connect(echo)
    await pair.link.ask(0, request())
    asker = pair.link._asker
    assert asker is not None
    asked = pair.link.ask(0, request())
    asker.drop("in the same turn")
    with pytest.raises(LinkDownError):
        await asked


async def test_a_link_comes_back_with_its_owner(connect: Connect, address: UnixAddress) -> None:
    pair = await connect(echo)
    await pair.link.ask(0, request())
    await pair.server.close()
    await until(lambda: not pair.link.is_open)
    asked = [pair.link.ask(0, request(body=b"%d" % i)) for i in range(10)]
    await asyncio.sleep(0.1)
    again = LinkServer(echo, [SECRET], DEFAULT_LIMITS, refuse=ANSWER_FORMAT.refuse)
    await again.listen(address)
    answers = await asyncio.gather(*asked)
    assert [answer.body for answer in answers if isinstance(answer, Response)] == [
        b"%d" % i for i in range(10)
    ]
    assert pair.link.counts.opened == 2
    await pair.link.close()
    await again.close()


async def test_requests_wait_for_a_link_for_a_limited_time(address: UnixAddress) -> None:
    link = link_to(address, link_hold_seconds_max=0.2)
    with capture_logs() as logs:
        with pytest.raises(LinkDownError):
            await link.ask(0, request())
        with pytest.raises(LinkDownError):
            await link.ask(0, request())
    assert [line["event"] for line in logs] == ["link_down"], "once, not for each try"
    await link.close()


async def test_as_many_requests_wait_as_the_limits_say(address: UnixAddress) -> None:
    link = link_to(address, link_held_requests_max=2, link_held_bytes_max=1000)
    waiting = [link.ask(0, request()), link.ask(0, request())]
    with pytest.raises(LinkDownError, match="too many"):
        await link.ask(0, request())
    waiting[0].cancel()
    await link.close()
    with pytest.raises(LinkDownError):
        await waiting[1]
    with pytest.raises(LinkDownError, match="stopping"):
        await link.ask(0, request())
    link = link_to(address, link_held_requests_max=10, link_held_bytes_max=1000)
    size = request().size()
    fits = link.ask(0, request(body=b"x" * (1000 - size)))
    with pytest.raises(LinkDownError, match="too many"):
        await link.ask(0, request())
    await link.close()
    with pytest.raises(LinkDownError):
        await fits


async def test_an_owner_that_does_not_speak_is_given_up(address: UnixAddress) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        ended.append(True)

    ended: list[bool] = []
    server = await asyncio.start_unix_server(serve, str(address))
    link = link_to(address, link_hold_seconds_max=0.1, link_open_seconds_max=0.1)
    with pytest.raises(LinkDownError, match="in time"):
        await link.ask(0, request())
    await link.close()
    await until(lambda: ended)
    server.close()


async def test_an_owner_that_falls_silent_is_given_up(address: UnixAddress) -> None:
    """It takes requests and shows no sign of life: as if its machine were gone."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handshake = Handshake(SECRET)
        length, _, _ = HEADER.unpack(await reader.readexactly(HEADER.size))
        writer.write(frame(HELLO, 0, handshake.greet_back(await reader.readexactly(length))))
        length, _, _ = HEADER.unpack(await reader.readexactly(HEADER.size))
        handshake.check_asker(await reader.readexactly(length))
        writer.write(frame(PROOF, 0, handshake.owner_proof()))
        while await reader.read(1000):
            pass
        writer.close()
        ended.append(True)

    ended: list[bool] = []
    server = await asyncio.start_unix_server(serve, str(address))
    link = link_to(address, link_silence_seconds_max=0.2)
    with pytest.raises(LinkLostError, match="nothing was heard"):
        await link.ask(0, request())
    await link.close()
    await until(lambda: ended)
    server.close()


async def test_an_owner_that_takes_its_time_is_not_given_up(connect: Connect) -> None:
    async def handler(partition: int, asked: Request) -> Response:
        await asyncio.sleep(1)
        return echo(partition, asked)

    pair = await connect(handler, link_silence_seconds_max=0.4)
    answer = await pair.link.ask(0, request(body=b"patience"))
    assert isinstance(answer, Response)
    assert answer.body == b"patience"


# Refused ------------------------------------------------------------------------------


async def test_a_wrong_secret_is_refused_on_both_sides(connect: Connect, address: UnixAddress) -> None:
    pair = await connect(echo)
    stranger = link_to(address, [b"w" * 32], link_hold_seconds_max=0.1)
    with capture_logs() as logs, pytest.raises(LinkDownError) as failure:
        await stranger.ask(0, request())
    assert pair.server.counts.requests == 0
    assert pair.server.counts.refused >= 1
    refusals = [line for line in logs if line["event"] == "link_refused"]
    assert "secret" in refusals[0]["problem"]
    said = str(failure.value) + str(logs)
    assert SECRET.decode() not in said
    assert "w" * 32 not in said
    await stranger.close()
    await pair.link.ask(0, request())


async def test_the_asking_side_checks_the_owner_too(address: UnixAddress) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length, _, _ = HEADER.unpack(await reader.readexactly(HEADER.size))
        writer.write(frame(HELLO, 0, Handshake(b"w" * 32).greet_back(await reader.readexactly(length))))
        length, _, _ = HEADER.unpack(await reader.readexactly(HEADER.size))
        await reader.readexactly(length)
        writer.write(frame(PROOF, 0, b"p" * 32))
        got.append(await reader.read())
        writer.close()

    got: list[bytes] = []
    server = await asyncio.start_unix_server(serve, str(address))
    link = link_to(address, link_hold_seconds_max=0.1)
    with pytest.raises(LinkDownError, match="secret"):
        await link.ask(0, request())
    await link.close()
    await until(lambda: got)
    assert set(got) == {b""}, "it has seen no request"
    server.close()


def test_a_short_secret_is_not_taken() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Handshake(b"s" * 31)


OLD, NEW = b"o" * 32, b"n" * 32


@pytest.mark.parametrize(
    ("owner", "asker"),
    [
        ([OLD], [NEW, OLD]),
        ([NEW, OLD], [OLD]),
        ([NEW, OLD], [NEW, OLD]),
        ([NEW], [NEW, OLD]),
        ([NEW, OLD], [NEW]),
    ],
)
async def test_while_a_secret_is_replaced_any_that_both_have_will_do(
    address: UnixAddress, owner: list[bytes], asker: list[bytes]
) -> None:
    server = LinkServer(echo, owner, DEFAULT_LIMITS, refuse=ANSWER_FORMAT.refuse)
    await server.listen(address)
    link = link_to(address, asker)
    assert isinstance(await link.ask(0, request()), Response)
    await link.close()
    await server.close()


@pytest.mark.parametrize(("owner", "asker"), [([OLD], [NEW]), ([NEW], [OLD]), ([OLD, SECRET], [NEW])])
async def test_without_a_secret_that_both_have_nothing_is_asked(
    address: UnixAddress, owner: list[bytes], asker: list[bytes]
) -> None:
    server = LinkServer(echo, owner, DEFAULT_LIMITS, refuse=ANSWER_FORMAT.refuse)
    await server.listen(address)
    link = link_to(address, asker, link_hold_seconds_max=0.1)
    with pytest.raises(LinkDownError):
        await link.ask(0, request())
    assert server.counts.requests == 0
    await link.close()
    await server.close()


def test_an_owner_of_an_older_version_is_shown_one_proof() -> None:
    asker, owner = Handshake(NEW, OLD), Handshake(NEW)
    older = link_handshake._GREETING.pack(b"DSLK", 2, 2, os.urandom(32))
    owner._greetings = asker.greet() + older
    asker.greeted(older)
    assert asker.version == 2
    assert len(asker.asker_proof()) == 32
    owner.check_asker(asker.asker_proof())
    asker.check_owner(owner.owner_proof())


async def test_another_version_is_refused_by_name(
    connect: Connect, address: UnixAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = await connect(echo)
    monkeypatch.setattr(Handshake, "greet", _greet_from_the_future)
    link = link_to(address, link_hold_seconds_max=0.1)
    with (
        capture_logs() as logs,
        pytest.raises(LinkDownError, match=f"up to version {link_handshake.VERSION}"),
    ):
        await link.ask(0, request())
    assert any(line["event"] == "link_refused" and "version" in line["problem"] for line in logs)
    await link.close()
    assert pair.server.counts.requests == 0


def _greet_from_the_future(self: Handshake) -> bytes:
    version = link_handshake.VERSION + 1
    greeting = link_handshake._GREETING.pack(b"DSLK", version, version, os.urandom(32))
    self._greetings += greeting
    return greeting


# Garbage ------------------------------------------------------------------------------


class Stranger:
    """Writes exactly the bytes it is told to, after a proper opening if that is wanted."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def open(self) -> None:
        handshake = Handshake(SECRET)
        self.writer.write(frame(HELLO, 0, handshake.greet()))
        handshake.greeted((await self.frame())[2])
        self.writer.write(frame(PROOF, 0, handshake.asker_proof()))
        handshake.check_owner((await self.frame())[2])

    async def frame(self) -> tuple[int, int, bytes]:
        length, stream, kind = HEADER.unpack(await self.reader.readexactly(HEADER.size))
        return kind, stream, await self.reader.readexactly(length)

    async def is_dropped(self) -> None:
        try:
            await self.reader.read()
        except ConnectionError:
            pass


@pytest.fixture
async def stranger(connect: Connect, address: UnixAddress) -> AsyncIterator[Stranger]:
    """A stranger at an owner whose other links go on."""
    pair = await connect(echo, link_requests_max=100, link_bytes_max=100 * MIB)
    await pair.link.ask(0, request())
    reader, writer = await asyncio.open_unix_connection(str(address))
    yield Stranger(reader, writer)
    assert isinstance(await pair.link.ask(0, request()), Response)
    assert pair.link.counts.opened == 1
    writer.close()
    try:
        await writer.wait_closed()
    except ConnectionError:
        pass


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\0" * 100,
        os.urandom(1000),
        frame(REQUEST, 1, encode_request(0, request(), 100)),
        frame(PROOF, 0, b"p" * 32),
        frame(HELLO, 0, b""),
        frame(HELLO, 0, b"x" * 40),
        HEADER.pack(2**32 - 1, 0, HELLO),
    ],
)
async def test_garbage_before_the_opening(stranger: Stranger, garbage: bytes) -> None:
    stranger.writer.write(garbage)
    stranger.writer.write_eof()
    await stranger.is_dropped()


_REQUEST = frame(REQUEST, 1, encode_request(0, request(), 100))
_LARGE = frame(REQUEST, 1, encode_request(0, request(body=b"x" * 200), 100))


def _announced(length: int, stream: int = 1) -> bytes:
    head = RequestFrame(0, 0, b"", b"PUT", b"/", b"", {}, None, length, b"x")
    return frame(REQUEST, stream, encode(head))


@pytest.mark.parametrize(
    "garbage",
    [
        frame(99, 1),
        frame(HELLO, 0),
        frame(END, 1),
        frame(ANSWER, 1, encode(AnswerFrame(0, 200, [], 0, b""))),
        frame(REQUEST, 1, b""),
        frame(REQUEST, 1, b"\xc1" * 10),
        frame(REQUEST, 1, encode({"partition": 1})),
        frame(REQUEST, 0, encode_request(0, request(), 100)),
        _REQUEST + _REQUEST,
        frame(BODY, 1, b"x"),
        frame(CREDIT, 5, CREDIT_PAYLOAD.pack(1)),
        frame(CREDIT, 1, b"x"),
        _LARGE + frame(BODY, 1, b"x" * 101),
        _LARGE + frame(BODY, 1, b""),
        _announced(65 * MIB),
        _announced(64 * MIB) + _announced(64 * MIB, 2),
        _announced(0),
        frame(CANCEL, 7),
        HEADER.pack(256 * 1024 + 1, 1, REQUEST),
    ],
)
async def test_garbage_after_the_opening_drops_the_link_and_nothing_else(
    stranger: Stranger, garbage: bytes
) -> None:
    await stranger.open()
    stranger.writer.write(garbage)
    await stranger.is_dropped()


async def test_more_requests_than_the_limit_drop_the_link(connect: Connect, address: UnixAddress) -> None:
    async def handler(partition: int, asked: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    pair = await connect(handler, link_requests_max=3)
    reader, writer = await asyncio.open_unix_connection(str(address))
    stranger = Stranger(reader, writer)
    await stranger.open()
    for stream in range(1, 4):
        writer.write(frame(REQUEST, stream, encode_request(0, request(), 100)))
    await until(lambda: pair.server.counts.open_requests == 3)
    writer.write(frame(REQUEST, 4, encode_request(0, request(), 100)))
    await stranger.is_dropped()
    await until(lambda: pair.server.counts.open_requests == 0)
    writer.close()


@pytest.mark.parametrize("cut", [1, HEADER.size, HEADER.size + 5, len(_REQUEST) - 1])
async def test_a_truncated_request_is_not_carried_out(stranger: Stranger, cut: int) -> None:
    await stranger.open()
    stranger.writer.write(_REQUEST[:cut])
    stranger.writer.write_eof()
    await stranger.is_dropped()


async def test_a_peer_that_never_opens_is_dropped(connect: Connect, address: UnixAddress) -> None:
    await connect(echo, link_open_seconds_max=0.1)
    reader, writer = await asyncio.open_unix_connection(str(address))
    assert await reader.read() == b""
    writer.close()


async def test_an_asker_that_does_not_read_is_not_read_from(connect: Connect, address: UnixAddress) -> None:
    """Its answers would pile up at the owner otherwise."""
    pair = await connect(lambda partition, asked: Response(200, [], b"x" * 60_000))
    sock = socket.socket(socket.AF_UNIX)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, str(address))
    reader, writer = await asyncio.open_unix_connection(sock=sock, limit=1024)
    stranger = Stranger(reader, writer)
    await stranger.open()
    asked = 0
    try:
        async with asyncio.timeout(1):
            while asked < 19_000:
                asked += 1
                writer.write(frame(REQUEST, asked, encode_request(0, request(body=b"x" * 1000), 2000)))
                await writer.drain()
    except TimeoutError:
        pass
    assert asked < 19_000
    assert pair.server.counts.requests < 200, "64 a turn, until 256 KiB of answers are waiting"
    writer.transport.abort()
    await asyncio.sleep(0)
