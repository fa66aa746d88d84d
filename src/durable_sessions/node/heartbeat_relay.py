"""Heartbeats over links, for a node that hears nothing on their usual way: so it still finds the owners.

Only a node that is cut off asks. It hears what the others have heard; they do not hear it, so that what it
owned is taken over as it must be, while it goes on as a router.
"""

import asyncio
from collections.abc import Callable, Collection

import msgspec

from durable_sessions.cluster.channels import Hear
from durable_sessions.cluster.heartbeat import Timing
from durable_sessions.cluster.members import ClusterMembers
from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.api.internal import ROOT
from durable_sessions.http.carrier.message import Request, Response
from durable_sessions.log.shared import boottime
from durable_sessions.node.link import NodeLink
from durable_sessions.partition_id import SYSTEM

BEATS = ROOT + b"beats"
"""Where a node is asked for the heartbeats that it has heard."""
_BEATS = msgspec.msgpack.Decoder(list[bytes])


class HeartbeatRelay:
    """Asks other nodes for heartbeats while none comes; ``links`` returns those to all others now."""

    def __init__(
        self, members: ClusterMembers, links: Callable[[], Collection[NodeLink]], hear: Hear, timing: Timing
    ) -> None:
        self._members = members
        self._links = links
        self._hear = hear
        self._timing = timing
        self._heard_at = boottime()

    def heard(self) -> None:
        """Note that a heartbeat has come on its usual way, maybe the own one."""
        self._heard_at = boottime()

    @property
    def is_cut_off(self) -> bool:
        """Whether nothing has come for so long that others may have been missed."""
        return boottime() - self._heard_at >= self._timing.suspect

    async def run(self) -> None:
        """Ask all others again and again while this node is cut off, until cancelled."""
        while True:
            await asyncio.sleep(self._timing.beat)
            if self.is_cut_off:
                await asyncio.gather(*(self._ask(link) for link in self._links()))

    async def _ask(self, link: NodeLink) -> None:
        try:
            async with asyncio.timeout(self._timing.suspect):
                answer = await link.ask(SYSTEM, Request(b"GET", BEATS, b"", {}, b""))
        except (DurableSessionsError, TimeoutError):
            return  # it is asked again soon
        if isinstance(answer, Response) and answer.status == 200:
            for beat in _BEATS.decode(answer.body):
                self._hear(beat)

    def answer(self) -> Response:
        """Tell another node of all that live, this one included."""
        beats = [beat.encode() for beat in self._members.live(boottime())]
        return Response(200, [], msgspec.msgpack.encode(beats))
