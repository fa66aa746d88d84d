"""Listens for links of other processes."""

import asyncio
from collections.abc import Sequence

from durable_sessions.http.carrier.message import Refuse
from durable_sessions.limits import Limits
from durable_sessions.node.link_address import LinkAddress
from durable_sessions.node.link_answerer import (
    LinkAnswerer,
    LinkOwner,
    LinkServerCounts,
    PartitionHandler,
    PlainAppends,
)


class LinkServer:
    """Answers requests that come over links with ``handler``, for those who have one of the secrets.

    ``plain`` takes the plain appends among them; without it they are asked as requests.
    """

    def __init__(
        self,
        handler: PartitionHandler,
        secrets: Sequence[bytes],
        limits: Limits,
        *,
        refuse: Refuse,
        plain: PlainAppends | None = None,
    ) -> None:
        self._owner = LinkOwner(handler, secrets, limits, refuse, plain)
        self._address: LinkAddress | None = None
        self._server: asyncio.AbstractServer | None = None

    async def listen(self, address: LinkAddress) -> None:
        """Accept links."""
        self._server = await address.listen(lambda: LinkAnswerer(self._owner))
        self._address = address

    @property
    def counts(self) -> LinkServerCounts:
        """What has come over links since the start, and is under way now."""
        return self._owner.counts

    def traffic(self) -> tuple[int, int]:
        """Return the bytes received and sent since the start."""
        counts, connections = self._owner.counts, self._owner.connections
        return (
            counts.bytes_in + sum(one.bytes_in for one in connections),
            counts.bytes_out + sum(one.bytes_out for one in connections),
        )

    async def close(self) -> None:
        """Accept no more links, cancel what is under way, and wait until it has cleaned up."""
        if self._server is not None:
            self._server.close()
        running = [task for one in self._owner.connections for task in one.tasks]
        for connection in tuple(self._owner.connections):
            connection.close()
        if running:
            await asyncio.wait(running, timeout=self._owner.limits.clean_up_seconds_max)
        if self._server is not None:
            await self._server.wait_closed()
        if self._address is not None:
            self._address.forget()
