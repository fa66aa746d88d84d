"""How a node gives partitions to other nodes: for balance, as the operator wishes, and when it stops.

Whoever gets a partition has prepared for it: it has read the catalog of what its owner has just flushed. A
node that cannot, such as one that does not reach the bucket, would leave the partition without an owner. So
a partition stays where it is until the other node is ready; only a node that stops gives everything away.
"""

import asyncio
from typing import TYPE_CHECKING

import structlog

from durable_sessions.cluster.heartbeat import NodeHeartbeat, PartitionBeat
from durable_sessions.errors import DurableSessionsError
from durable_sessions.log.shared import boottime
from durable_sessions.node.owned_partition import OwnedPartition

if TYPE_CHECKING:
    from durable_sessions.node.cluster_node import ClusterNode

logger = structlog.get_logger(__name__)

STABLE_SECONDS = 10.0
"""For how long the same nodes must have been there before partitions move for balance."""
PREPARE_SECONDS_MAX = 15.0
"""How long a node may take to prepare for a partition; a node that stops waits that long for all of them."""
RETRY_SECONDS = 60.0
"""How long a partition stays where it is after a node did not get ready for it."""
STOP_SECONDS_MAX = 30.0
AT_A_TIME_MAX = 2
"""How many partitions a node that stops gives up at a time."""


class HandOvers:
    """Gives partitions of one node to others."""

    def __init__(self, node: "ClusterNode") -> None:
        self._node = node
        self._moving: asyncio.Task[None] | None = None
        # By partition: for whom it stays, and until when.
        self._stays: dict[int, tuple[str, float]] = {}

    def balance(self) -> None:
        """Move one partition to the node that should own it, if the same nodes were there for a while."""
        node, now = self._node, boottime()
        if self._moving is not None or node.draining or now - node.names_since < STABLE_SECONDS:
            return
        for number in node.by_weight():
            owned, to = node.owned.get(number), node.assigned.get(number)
            if owned is None or owned.serving is None or to is None or to == node.id:
                self._stays.pop(number, None)
                node.note(_move(number))
                continue
            stays_from, until = self._stays.get(number, ("", 0.0))
            if to != stays_from or now >= until:
                self._moving = asyncio.create_task(self._move(owned, to), name="hand-over")
                return

    async def _move(self, owned: OwnedPartition, to: str) -> None:
        number = owned.id.number
        try:
            obstacle = await self._obstacle(owned, to, boottime() + PREPARE_SECONDS_MAX)
            if obstacle:
                self._stays[number] = to, boottime() + RETRY_SECONDS
                self._node.note(_move(number), f"partition {owned.id.digits} stays here: {obstacle}")
                logger.warning("not_handed_over", partition=owned.id.digits, reason=obstacle)
            elif self._node.serving(number) is not None:
                self._node.note(_move(number))
                await self._give(owned, to)
        except (DurableSessionsError, OSError) as error:
            logger.warning("not_handed_over", partition=owned.id.digits, reason=str(error) or repr(error))
        except Exception:
            logger.exception("not_handed_over", partition=owned.id.digits)
        finally:
            owned.moving_to = ""
            self._moving = None

    async def _obstacle(self, owned: OwnedPartition, to: str, deadline: float) -> str:
        """Flush, and wait until a node has the catalog of that; say what is in the way, '' if nothing is."""
        node = self._node
        owned.moving_to = to
        try:
            async with asyncio.timeout(max(0.0, deadline - boottime())):
                is_flushed = await owned.flush()
                await node.tell()
        except TimeoutError:
            is_flushed = False
        if not is_flushed:
            return "what it has cannot be flushed"
        while True:
            heir = node.members.node(to, boottime())
            if heir is None:
                return "the node that should own it is gone"
            if heir.draining or heir.no_bucket:
                return f"{heir.name} is stopping, or does not reach the bucket"
            said = heir.partition(owned.id.number)
            if said is not None and said.catalog >= owned.engine.archive.manifest.number:
                return ""
            if boottime() >= deadline:
                return f"{heir.name} did not get ready for it in time"
            await asyncio.sleep(node.timing.beat / 5)

    async def _give(self, owned: OwnedPartition, to: str) -> None:
        """Give a partition to another node: from the first line on requests wait for that one."""
        node, number, began = self._node, owned.id.number, boottime()

        async def released() -> None:
            given = PartitionBeat(number, epoch=owned.epoch, tail=owned.log.ends_at or 0, released_to=to)
            node.released[number] = given
            node.operations.handed_over(boottime() - began)
            await node.tell()

        await owned.hand_over(to, released)
        logger.info("handed_over", partition=owned.id.digits, to=to, seconds=round(boottime() - began, 3))

    async def all(self) -> None:
        """Give up everything, the keys first; what nobody can take is closed with all that is durable."""
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await self._node.tell()
                if self._moving is not None:
                    await asyncio.gather(self._moving, return_exceptions=True)
                turns, deadline = asyncio.Semaphore(AT_A_TIME_MAX), boottime() + PREPARE_SECONDS_MAX
                await asyncio.gather(*(self._leave(one, turns, deadline) for one in self._node.by_weight()))
        except (DurableSessionsError, OSError, TimeoutError) as error:
            logger.warning("not_handed_over", reason=str(error) or repr(error))

    async def _leave(self, number: int, turns: asyncio.Semaphore, deadline: float) -> None:
        async with turns:
            owned = self._node.owned.get(number)
            if owned is None or owned.serving is None:
                return
            heirs = await self._node.heirs(number)
            heir = await self._readiest(owned, heirs, deadline)
            if self._node.serving(number) is None:
                return  # it was lost meanwhile
            if heir is None:
                await owned.close()
            else:
                await self._give(owned, heir.node)

    async def _readiest(
        self, owned: OwnedPartition, heirs: list[NodeHeartbeat], deadline: float
    ) -> NodeHeartbeat | None:
        """Return the first node that gets ready for a partition, or else the one that should own it."""
        for heir in heirs:
            # Half of the time that is left: the rest is for the next node, and for other partitions.
            now = boottime()
            obstacle = await self._obstacle(owned, heir.node, now + (deadline - now) / 2)
            if not obstacle:
                return heir
            logger.warning("heir_not_ready", partition=owned.id.digits, reason=obstacle)
        return heirs[0] if heirs else None

    async def close(self) -> None:
        """End the move that is under way."""
        if self._moving is not None:
            self._moving.cancel()
            await asyncio.gather(self._moving, return_exceptions=True)


def _move(number: int) -> str:
    """Return under which name a problem with a move is noted."""
    return f"move {number}"
