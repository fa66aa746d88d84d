"""A node asks the owners of partitions, and repeats what certainly did not happen."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from typing import Any, cast

import pytest

from durable_sessions.cluster.heartbeat import NodeHeartbeat
from durable_sessions.errors import PartitionMovedError
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.message import Answer, Later, Request, Response
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.node.cluster_partitions import ENTRANCE, ClusterPartitions
from durable_sessions.node.link_address import TcpAddress
from durable_sessions.node.link_server import LinkServer
from durable_sessions.node.partitions import answered

pytestmark = pytest.mark.anyio

SECRET = b"0123456789abcdef0123456789abcdef"
PARTITION = 7
LIMITS = replace(DEFAULT_LIMITS, link_hold_seconds_max=0.3)


class Owner:
    """A node that answers what it is told to, and notes what it was asked."""

    def __init__(self) -> None:
        self.address = TcpAddress("127.0.0.1", 0)
        self.asked: list[bytes] = []
        self.answers: list[Answer] = []
        self.cuts = 0
        self.url = ""
        self._server = LinkServer(self._answer, [SECRET], LIMITS, refuse=ANSWER_FORMAT.refuse)

    async def start(self) -> "Owner":
        await self._server.listen(self.address)
        return self

    async def _answer(self, _: int, request: Request) -> Answer:
        self.asked.append(request.path)
        if self.cuts:
            self.cuts -= 1
            for connection in tuple(self._server._owner.connections):
                connection.close()
            await asyncio.sleep(60)
        return self.answers.pop(0) if self.answers else Response(200, [], b"owner")

    @property
    def beat(self) -> NodeHeartbeat:
        return NodeHeartbeat("b", "b", str(self.address), self.url)

    async def close(self) -> None:
        await self._server.close()


class Own:
    """A partition of this node, which answers as it is told to."""

    def __init__(self, answer: Answer | Awaitable[Answer]) -> None:
        self._answer = answer

    def answer(self, _: Request) -> Answer | Awaitable[Answer]:
        return self._answer


class World:
    """What a node knows: who owns the partition, itself or another one."""

    def __init__(self, owner: Owner) -> None:
        self.other = owner
        self.known = True
        self.own: Own | None = None
        self.front: Own | None = None
        self.url = "https://a.example"
        self.partitions = ClusterPartitions(cast(Any, self), [SECRET], LIMITS)

    def owner(self, partition: int) -> NodeHeartbeat | None:
        return self.other.beat if self.known else None

    def serving(self, partition: int) -> Own | None:
        own, self.own = self.own, None  # once: then it has lost the partition
        return own

    def enter(self, request: Request) -> Answer | Awaitable[Answer] | None:
        return None if self.front is None else self.front.answer(request)

    async def ask(self, method: bytes = b"GET", **headers: bytes) -> Response:
        named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
        request = Request(method, b"/v1/stream/x", b"", named, b"{}")
        answer = await answered(self.partitions.ask(PARTITION, request))
        assert isinstance(answer, Response)
        return answer


@pytest.fixture
async def world() -> AsyncIterator[World]:
    owner = await Owner().start()
    world = World(owner)
    yield world
    await world.partitions.close()
    await owner.close()


def moved() -> Response:
    return ANSWER_FORMAT.refuse(b"/v1/stream/x", PartitionMovedError(), b"")


async def test_the_owner_answers(world: World) -> None:
    assert (await world.ask()).body == b"owner"


@pytest.mark.parametrize("method", [b"GET", b"POST", b"PUT", b"DELETE"])
async def test_what_the_log_has_moved_from_under_is_asked_again(world: World, method: bytes) -> None:
    world.other.answers = [moved(), moved()]
    assert (await world.ask(method)).body == b"owner"
    assert len(world.other.asked) == 3


async def test_without_an_owner_requests_wait_and_are_then_refused(world: World) -> None:
    world.known = False
    answer = await world.ask(b"POST")
    assert answer.status == 503
    assert b"partition_unavailable" in answer.body
    waiting = asyncio.create_task(world.ask(b"POST"))
    await asyncio.sleep(0.05)
    world.known = True
    assert (await waiting).body == b"owner"


async def test_who_becomes_the_owner_answers_what_has_waited_for_one(world: World) -> None:
    world.known = False
    request = Request(b"GET", b"/v1/stream/x", b"", {}, b"")
    waiting = asyncio.create_task(world.partitions.forward(ENTRANCE, request))
    await asyncio.sleep(0.05)
    world.front = Own(Response(200, [], b"this node"))
    answer = await waiting
    assert isinstance(answer, Response)
    assert answer.body == b"this node"


async def test_no_more_wait_than_the_limit_allows(world: World) -> None:
    world.known = False
    world.partitions._limits = replace(LIMITS, link_held_requests_max=2)
    answers = await asyncio.gather(*(world.ask() for _ in range(3)))
    assert sum(b"overloaded" in answer.body for answer in answers) == 1


@pytest.mark.parametrize(
    ("method", "headers", "repeated"),
    [
        (b"GET", {}, True),
        (b"POST", {}, False),
        (b"PUT", {}, False),
        (b"POST", {"producer_id": b"p"}, True),
        (b"POST", {"idempotency_key": b"k"}, False),  # which means nothing to a stream
    ],
)
async def test_after_a_lost_link_only_what_takes_effect_once_is_repeated(
    world: World, method: bytes, headers: dict[str, bytes], repeated: bool
) -> None:
    world.other.cuts = 1
    answer = await world.ask(method, **headers)
    if repeated:
        assert answer.body == b"owner"
    else:
        assert b"outcome_unknown" in answer.body
    assert len(world.other.asked) == 1 + repeated


async def test_the_own_answer_of_a_node_that_lost_the_partition_is_the_next_owners(world: World) -> None:
    async def late() -> Answer:
        return moved()

    future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    future.set_result(moved())
    for answer in (moved(), late(), Later(future, lambda asked: asked.result())):
        world.own = Own(answer)
        assert (await world.ask(b"POST")).body == b"owner"
    world.own = Own(Response(200, [], b"own"))
    assert (await world.ask(b"POST")).body == b"own"


async def test_links_to_nodes_that_are_gone_are_closed(world: World) -> None:
    await world.ask()
    address = str(world.other.address)
    (kept,) = await world.partitions.keep_links([address])
    assert kept.is_open
    assert await world.partitions.keep_links([]) == []
    assert world.partitions.link(address) is not kept


# Redirects ----------------------------------------------------------------------------


async def routed(world: World, *, query: bytes = b"", may_redirect: bool = True) -> Response:
    request = Request(b"POST", b"/v1/stream/x%20y", query, {}, b"{}")
    request.may_redirect = may_redirect
    answer = await answered(world.partitions.route(PARTITION, request))
    assert isinstance(answer, Response)
    return answer


async def test_a_client_that_may_follow_is_sent_to_the_owner(world: World) -> None:
    world.other.url = "https://b.example/ds"
    answer = await routed(world, query=b"offset=-1")
    location = b"https://b.example/ds/v1/stream/x%20y?offset=-1"
    assert (answer.status, answer.headers) == (307, [(b"Location", location)])
    assert world.other.asked == []


async def test_what_is_not_of_a_client_is_passed_on(world: World) -> None:
    world.other.url = "https://b.example"
    assert (await routed(world, may_redirect=False)).body == b"owner"


async def test_behind_one_address_requests_are_passed_on(world: World) -> None:
    world.other.url = world.url
    assert (await routed(world)).body == b"owner"


async def test_without_an_owner_there_is_nowhere_to_go(world: World) -> None:
    world.known = False
    assert (await routed(world)).status == 503
