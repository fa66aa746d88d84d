"""Connections on their way between two processes: offered, accepted, confirmed, or left where they were."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from durable_sessions.access.caller import Caller, Role
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.message import HandOver, Request, Response
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.node.handover import HandOverReceiver, HandOverSender
from tests.support.descriptors import open_sockets
from tests.support.waiting import until
from tests.unit.http.raw import Peer, get, post

pytestmark = pytest.mark.anyio
CALLER = Caller("w", "p", Role.WRITER, "key_1")


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


class Machine:
    """An entrance and an owner, which both have their own port."""

    entrance: HttpServer
    owner: HttpServer
    receiver: HandOverReceiver
    sender: HandOverSender

    def __init__(self, path: Path) -> None:
        self.path = path
        self.callers: list[object] = []
        self.forwarded = 0

    def enter(self, request: Request) -> HandOver | Response:
        if request.path == b"/here":
            return Response(200, [], b"here")
        request.caller = CALLER
        return HandOver(self.sender.give, self.forward)

    def forward(self) -> Response:
        self.forwarded += 1
        return Response(200, [], b"forwarded")

    def own(self, request: Request) -> Response:
        self.callers.append(request.caller)
        return Response(200, [], b"owner " + bytes(request.body))


Start = Callable[..., Awaitable[Machine]]


@pytest.fixture
async def start(anyio_backend: object) -> AsyncIterator[Start]:
    machines: list[Machine] = []
    before = open_sockets()
    with TemporaryDirectory(prefix="ds") as directory:

        async def begin(**limits: Any) -> Machine:
            bounds = replace(DEFAULT_LIMITS, **{"hand_over_seconds_max": 3600.0, **limits})
            machine = Machine(Path(directory) / "hand-over")
            machine.entrance = HttpServer(machine.enter, bounds, answer_format=ANSWER_FORMAT)
            machine.owner = HttpServer(machine.own, bounds, answer_format=ANSWER_FORMAT)
            machine.sender = HandOverSender(machine.path, bounds)
            machine.receiver = HandOverReceiver(machine.owner, bounds)
            await machine.entrance.start("127.0.0.1", 0)
            await machine.owner.start("127.0.0.1", 0)
            machine.receiver.listen(machine.path)
            machines.append(machine)
            return machine

        yield begin
        for machine in machines:
            await machine.entrance.shutdown(0)
            machine.sender.close()
            await machine.receiver.close()
            await machine.owner.shutdown(0)
            assert not machine.path.exists()
    await until(lambda: open_sockets() <= before)


async def test_a_connection_moves_with_its_request(start: Start) -> None:
    machine = await start()
    async with await Peer.connect(machine.entrance.port) as peer:
        for i in range(5):
            assert (await peer.ask(post(b"%d" % i))).body == b"owner %d" % i
        assert machine.callers == [CALLER, None, None, None, None], "later requests are its own"
        assert machine.entrance.open_connections == 0
    assert (machine.entrance.handed_over_total, machine.owner.adopted_total) == (1, 1)


async def test_many_at_the_same_time(start: Start) -> None:
    machine = await start()

    async def client(i: int) -> None:
        async with await Peer.connect(machine.entrance.port) as peer:
            assert (await peer.ask(get(b"/here"))).body == b"here"
            for turn in range(3):
                body = b"%d %d" % (i, turn)
                assert (await peer.ask(post(body))).body == b"owner " + body

    await asyncio.gather(*[client(i) for i in range(100)])
    assert machine.owner.adopted_total == machine.entrance.handed_over_total == 100


@pytest.mark.parametrize("state", ["never there", "dead", "gone while offered"])
async def test_without_a_receiver_requests_are_forwarded(start: Start, state: str) -> None:
    machine = await start()
    await machine.receiver.close()
    if state == "dead":  # its socket is still there
        left = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        left.bind(str(machine.path))
        left.close()
    elif state == "gone while offered":
        left = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        left.bind(str(machine.path))
        left.listen()
    async with await Peer.connect(machine.entrance.port) as peer:
        await peer.send(get())
        if state == "gone while offered":
            left.setblocking(False)
            taken = await until(lambda: _accepted(left))
            assert taken is not None
            taken.close()
            left.close()
        assert (await peer.reply()).body == b"forwarded"
        assert (await peer.ask(get(b"/here"))).body == b"here"
    machine.path.unlink(missing_ok=True)


def _accepted(listener: socket.socket) -> socket.socket | None:
    try:
        return listener.accept()[0]
    except BlockingIOError:
        return None


async def test_an_offer_is_withdrawn_from_a_receiver_that_is_slow(start: Start) -> None:
    """It wakes up later, as after SIGSTOP, and must not serve what has been forwarded meanwhile."""
    machine = await start(hand_over_seconds_max=0.05)
    loop = asyncio.get_running_loop()
    listener = machine.receiver._listener
    assert listener is not None
    loop.remove_reader(listener.fileno())
    async with await Peer.connect(machine.entrance.port) as peer:
        assert (await peer.ask(post(b"once"))).body == b"forwarded"
        loop.add_reader(listener.fileno(), machine.receiver._accept)
        await until(lambda: machine.receiver._channels)
        await asyncio.sleep(0.05)
        assert (await peer.ask(get(b"/here"))).body == b"here"
        assert (machine.forwarded, machine.callers) == (1, [])
    assert machine.owner.adopted_total == 0


async def test_an_owner_without_room_declines(start: Start) -> None:
    machine = await start(connections_max=1)
    async with await Peer.connect(machine.owner.port) as own:
        await own.ask(get())
        async with await Peer.connect(machine.entrance.port) as peer:
            assert (await peer.ask(get())).body == b"forwarded"
    await until(lambda: machine.owner.open_connections == 0)
    async with await Peer.connect(machine.entrance.port) as peer:
        assert (await peer.ask(get())).body == b"owner "


async def test_an_owner_that_shuts_down_declines(start: Start) -> None:
    machine = await start()
    await machine.owner.shutdown(0)
    async with await Peer.connect(machine.entrance.port) as peer:
        assert (await peer.ask(get())).body == b"forwarded"


async def test_an_owner_without_descriptors_declines(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel then drops the descriptor that was sent."""
    receive = socket.recv_fds

    def drop(*arguments: Any) -> Any:
        message, found, flags, address = receive(*arguments)
        for descriptor in found:
            os.close(descriptor)
        return message, [], flags, address

    machine = await start()
    monkeypatch.setattr(socket, "recv_fds", drop)
    async with await Peer.connect(machine.entrance.port) as peer:
        assert (await peer.ask(get())).body == b"forwarded"


async def test_a_large_request_is_forwarded(start: Start) -> None:
    machine = await start(hand_over_bytes_max=2000)
    async with await Peer.connect(machine.entrance.port) as peer:
        assert (await peer.ask(post(b"x" * 2001))).body == b"forwarded"
    async with await Peer.connect(machine.entrance.port) as peer:
        assert (await peer.ask(post(b"x", b"/?" + b"x" * 2000))).body == b"forwarded"
    async with await Peer.connect(machine.entrance.port) as peer:
        assert (await peer.ask(post(b"x" * 1500))).body == b"owner " + b"x" * 1500


async def test_as_many_offers_as_the_limit_and_no_more(start: Start) -> None:
    machine = await start(hand_overs_max=2)
    listener = machine.receiver._listener
    assert listener is not None
    asyncio.get_running_loop().remove_reader(listener.fileno())
    peers = [await Peer.connect(machine.entrance.port) for _ in range(3)]
    for peer in peers[:2]:
        await peer.send(get())
    await until(lambda: machine.sender._channel and machine.sender._channel.offers == 2)
    assert (await peers[2].ask(get())).body == b"forwarded"
    asyncio.get_running_loop().add_reader(listener.fileno(), machine.receiver._accept)
    for peer in peers[:2]:
        assert (await peer.reply()).body == b"owner "
    for peer in peers:
        await peer.close()


async def test_a_client_that_leaves_while_its_connection_is_offered(start: Start) -> None:
    machine = await start()
    for _ in range(20):
        async with await Peer.connect(machine.entrance.port) as peer:
            await peer.send(get())
    await until(lambda: machine.entrance.open_connections == machine.owner.open_connections == 0)


async def test_garbage_is_declined_and_harms_nobody(start: Start) -> None:
    machine = await start()
    for message in (b"x", b"\1" + bytes(8) + b"garbage", b"\4" + bytes(8), b"\x63" + bytes(8)):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.connect(str(machine.path))
        socket.send_fds(sock, [message], [sock.fileno()])
        await asyncio.sleep(0.01)
        sock.close()
    async with await Peer.connect(machine.entrance.port) as peer:
        assert (await peer.ask(get())).body == b"owner "


async def test_the_receiver_starts_again_and_takes_on(start: Start) -> None:
    machine = await start()
    for _ in range(3):
        async with await Peer.connect(machine.entrance.port) as peer:
            assert (await peer.ask(get())).body == b"owner "
        await machine.receiver.close()
        async with await Peer.connect(machine.entrance.port) as peer:
            assert (await peer.ask(get())).body == b"forwarded"
        machine.receiver = HandOverReceiver(machine.owner, DEFAULT_LIMITS)
        machine.receiver.listen(machine.path)
