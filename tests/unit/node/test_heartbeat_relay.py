"""A node that hears nothing asks the others over their links; one that hears does not."""

import asyncio
from typing import Any, cast

import pytest

from durable_sessions.cluster.heartbeat import NodeHeartbeat, PartitionBeat, Timing
from durable_sessions.cluster.members import ClusterMembers
from durable_sessions.errors import LinkDownError
from durable_sessions.http.carrier.message import Request, Response
from durable_sessions.log.shared import boottime
from durable_sessions.node.heartbeat_relay import BEATS, HeartbeatRelay
from durable_sessions.node.link import NodeLink
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

QUICK = Timing(beat=0.005, quiet=0.05, suspect=0.05, dead=60.0, proof=45.0)
OWNER = NodeHeartbeat("b", "b", "", number=7, partitions=(PartitionBeat(3, owns=True, epoch=12),))


class Link:
    """A link to a node that answers with what it has heard; None if it is down."""

    def __init__(self, other: HeartbeatRelay | None) -> None:
        self._other = other
        self.asked = 0

    async def ask(self, partition: int, request: Request) -> Response:
        assert request.path == BEATS
        self.asked += 1
        if self._other is None:
            raise LinkDownError(reason="it is down")
        return self._other.answer()


class Member:
    """A node, what it has heard, and its links."""

    def __init__(self, *links: Link) -> None:
        self.links = links
        self.members = ClusterMembers(QUICK)
        found = cast(Any, lambda: cast("list[NodeLink]", self.links))
        self.relay = HeartbeatRelay(self.members, found, self.hear, QUICK)

    def hear(self, data: bytes) -> None:
        beat = NodeHeartbeat.decode(data)
        assert beat is not None
        self.members.hear(beat, boottime(), 0)

    def owner(self) -> str | None:
        found = self.members.owner(3, boottime())
        return None if found is None else found.beat.name


async def test_who_is_cut_off_hears_of_owners_and_nobody_hears_of_it() -> None:
    other = Member()
    other.hear(OWNER.encode())
    alone = Member(Link(None), Link(other.relay))
    alone.hear(NodeHeartbeat("a", "a", "", number=1).encode())
    running = asyncio.create_task(alone.relay.run())
    await until(lambda: alone.owner() == "b")
    running.cancel()
    assert [beat.name for beat in other.members.live(boottime())] == ["b"]


async def test_who_hears_does_not_ask() -> None:
    link = Link(None)
    hearing = Member(link)
    hearing.relay.heard()
    hearing.relay._heard_at += 60  # however slow this machine is
    running = asyncio.create_task(hearing.relay.run())
    await asyncio.sleep(10 * QUICK.beat)
    assert (hearing.relay.is_cut_off, link.asked) == (False, 0)
    hearing.relay._heard_at -= 120
    await until(lambda: hearing.relay.is_cut_off and link.asked)
    running.cancel()
