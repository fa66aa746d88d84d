"""Plain appends over a link: taken, declined, refused, and lost with the link."""

from dataclasses import replace
from typing import Any

import pytest

from durable_sessions.access.caller import Caller, Role
from durable_sessions.errors import DurableSessionsError, OutcomeUnknownError, PartitionStoppedError
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.message import Response
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.node import link_handshake
from durable_sessions.node.link import NodeLink
from durable_sessions.node.link_address import UnixAddress
from durable_sessions.node.link_frames import PlainFrame
from durable_sessions.node.link_server import LinkServer
from durable_sessions.storage.door import Told
from tests.support.waiting import until

from .conftest import SECRET
from .test_link import echo, request

pytestmark = pytest.mark.anyio
LINES = b"Stream-Next-Offset: 1\r\n"
ANN = Caller("default", "ann", Role.WRITER, "key_1")


def append(target: str = "/v1/stream/s", body: bytes = b"x") -> PlainFrame:
    return PlainFrame(1, b"req_1", ANN, "text/plain", target.encode(), body)


class Client:
    """What a client that waits is told."""

    request_id = b"req_1"
    is_settled = True

    def __init__(self) -> None:
        self.told: list[object] = []

    def durable(self, lines: bytes) -> None:
        self.told.append(lines)

    def failed(self, error: DurableSessionsError) -> None:
        self.told.append(error)

    def refused(self, answer: Response) -> None:
        self.told.append(answer)

    def declined(self, body: bytes) -> None:
        self.told.append(("declined", body))


class Owner:
    """Takes what it is sent and keeps it waiting; or takes nothing, or fails."""

    def __init__(self) -> None:
        self.waiting: list[tuple[PlainFrame, Told[bytes]]] = []
        self.takes = True
        self.fails: Exception | None = None

    def take_sent(self, sent: PlainFrame, told: Told[bytes]) -> bool:
        if self.fails is not None:
            raise self.fails
        if self.takes:
            self.waiting.append((sent, told))
        return self.takes

    def refuse_sent(self, sent: PlainFrame, error: DurableSessionsError) -> Response:
        if self.fails is not None:
            raise self.fails
        return ANSWER_FORMAT.refuse(sent.path, error, sent.id)


class Pair:
    """A link to an owner that takes plain appends, open."""

    def __init__(self, address: UnixAddress, owner: Owner | None, **limits: Any) -> None:
        bounds = replace(DEFAULT_LIMITS, **limits)
        self.server = LinkServer(echo, [SECRET], bounds, refuse=ANSWER_FORMAT.refuse, plain=owner)
        self.link = NodeLink(address, [SECRET], bounds)
        self._address = address

    async def __aenter__(self) -> "Pair":
        await self.server.listen(self._address)
        assert not self.link.ask_plain(append(), Client()), "it is not open yet"
        assert (await self.link.ask(0, request())).status == 200
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.link.close()
        await self.server.close()
        assert self.server.counts.open_requests == 0
        assert self.link.open_requests == 0


async def test_an_append_is_told_durable(address: UnixAddress) -> None:
    owner, clients = Owner(), [Client() for _ in range(3)]
    async with Pair(address, owner) as pair:
        sent = [append(f"/v1/stream/{number}") for number in range(3)]
        assert all(pair.link.ask_plain(one, client) for one, client in zip(sent, clients, strict=True))
        await until(lambda: len(owner.waiting) == 3)
        assert [one for one, _ in owner.waiting] == sent
        assert (pair.link.open_requests, pair.server.counts.open_requests) == (3, 3)
        for _, told in reversed(owner.waiting):
            told.durable(LINES)
        await until(lambda: all(client.told for client in clients))
        assert [client.told for client in clients] == [[LINES]] * 3
        assert pair.link.counts.forwarded == 4
        assert pair.link._asker is not None
        assert pair.link._asker.bytes_held == 0


@pytest.mark.parametrize("owner", [None, Owner()], ids=["it takes none", "not this one"])
async def test_what_an_owner_does_not_take_is_handled(address: UnixAddress, owner: Owner | None) -> None:
    if owner is not None:
        owner.takes = False
    client = Client()
    async with Pair(address, owner) as pair:
        assert pair.link.ask_plain(append(body=b"the body"), client)
        await until(lambda: client.told)
        assert client.told == [("declined", b"the body")]


async def test_an_append_that_failed_is_refused_by_its_owner(address: UnixAddress) -> None:
    owner, client = Owner(), Client()
    async with Pair(address, owner) as pair:
        pair.link.ask_plain(append(), client)
        await until(lambda: owner.waiting)
        owner.waiting[0][1].failed(PartitionStoppedError(reason="of a test"))
        await until(lambda: client.told)
    (answer,) = client.told
    assert isinstance(answer, Response)
    assert answer.status == 503
    assert b"partition_stopped" in answer.body


@pytest.mark.parametrize("when", ["taking", "refusing"])
async def test_a_fault_of_the_owner_is_an_answer(address: UnixAddress, when: str) -> None:
    owner, client = Owner(), Client()
    async with Pair(address, owner) as pair:
        if when == "taking":
            owner.fails = RuntimeError("a fault")
        pair.link.ask_plain(append(), client)
        if when == "refusing":
            await until(lambda: owner.waiting)
            owner.fails = RuntimeError("a fault")
            owner.waiting[0][1].failed(PartitionStoppedError(reason="of a test"))
        await until(lambda: client.told)
        (answer,) = client.told
        assert isinstance(answer, Response)
        assert answer.status == 500
        owner.fails = None
        assert pair.link.ask_plain(append(), Client()), "the link goes on"
        await until(lambda: owner.waiting)
        owner.waiting[-1][1].durable(LINES)


async def test_of_a_sent_append_nobody_knows_the_outcome_and_an_unsent_one_is_handled(
    address: UnixAddress,
) -> None:
    owner, sent, unsent = Owner(), Client(), Client()
    async with Pair(address, owner) as pair:
        pair.link.ask_plain(append(), sent)
        await until(lambda: owner.waiting)
        assert pair.link.ask_plain(append(body=b"second"), unsent)
        assert pair.link._asker is not None
        pair.link._asker.drop("in the same turn")
        assert [type(error) for error in sent.told] == [OutcomeUnknownError]
        assert unsent.told == [("declined", b"second")]
        await until(lambda: pair.server.counts.open_requests == 0)
        owner.waiting[0][1].durable(LINES)  # nobody is there to be told
        assert pair.server.counts.open_requests == 0


async def test_too_many_are_not_taken(address: UnixAddress) -> None:
    owner = Owner()
    async with Pair(address, owner, link_requests_max=2, link_bytes_max=100_000) as pair:
        assert not pair.link.ask_plain(append(body=b"x" * 100_001), Client())
        clients = [Client() for _ in range(3)]
        assert [pair.link.ask_plain(append(), client) for client in clients] == [True, True, False]
        await until(lambda: len(owner.waiting) == 2)
        for _, told in owner.waiting:
            told.durable(LINES)
        await until(lambda: clients[1].told)
        assert clients[2].told == []


async def test_an_owner_of_the_version_before_is_asked_by_requests(
    address: UnixAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_handshake, "VERSION", 1)
    async with Pair(address, Owner()) as pair:
        assert not pair.link.ask_plain(append(), Client())
        assert (await pair.link.ask(0, request())).status == 200
