"""What workspaces hold in other partitions, as far as these were heard: quotas are of the whole server."""

import asyncio
from typing import NamedTuple, Protocol

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.api.neighbours import Neighbours, on_behalf_of
from durable_sessions.http.carrier.message import Request
from durable_sessions.limits import Limits
from durable_sessions.storage.counts import WorkspaceHeld
from durable_sessions.streams.stream import SYSTEM_WORKSPACE

USAGE = b"/internal/usage"
"""Where a partition says what workspaces hold in it."""
Held = dict[str, WorkspaceHeld]


class _UsageAsked(NamedTuple):
    """Who asks, and whether it has heard everything so far."""

    asker: int
    since_last: bool


class HeldQuotas(Protocol):
    """The quotas of a partition."""

    def held_here(self) -> Held:
        """Return what each workspace holds in this partition."""
        ...

    def hear(self, partition: int, changes: Held) -> None:
        """Take what workspaces hold in another partition now."""
        ...

    def forget_heard(self, partition: int) -> None:
        """Forget what another partition has said."""
        ...


class UsageExchange:
    """Asks all other partitions again and again; only what has changed is sent.

    ``quotas`` says what workspaces hold here, and is told what they hold elsewhere.
    """

    def __init__(self, quotas: HeldQuotas, neighbours: Neighbours, limits: Limits) -> None:
        self._quotas = quotas
        self._neighbours = neighbours
        self._seconds = limits.usage_seconds
        self._said: dict[int, Held] = {}
        self._heard: set[int] = set()

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            for other in self._neighbours.others:
                await self._ask(other)
            await asyncio.sleep(self._seconds)

    async def _ask(self, other: int) -> None:
        asked = _UsageAsked(self._neighbours.own.number, other in self._heard)
        try:
            changes: Held = await self._neighbours.call(
                other, USAGE, on_behalf_of(SYSTEM_WORKSPACE), asked, Held
            )
        except DurableSessionsError:
            self._heard.discard(other)  # what was said may be lost: everything is asked for again
            return
        if not asked.since_last:
            self._quotas.forget_heard(other)
            self._heard.add(other)
        self._quotas.hear(other, changes)

    async def answer(self, request: Request, caller: Caller) -> Held:
        """Return what has changed since the asker was answered last, or everything."""
        asked = msgspec.msgpack.decode(request.body, type=_UsageAsked)
        now = self._quotas.held_here()
        before = self._said.get(asked.asker, {}) if asked.since_last else {}
        # What was answered counts as heard: if the answer is lost, the asker asks for everything.
        self._said[asked.asker] = now
        # A workspace that holds nothing any more is said once, as zero.
        gone = {workspace: WorkspaceHeld(0, 0) for workspace in before if workspace not in now}
        return gone | {workspace: held for workspace, held in now.items() if before.get(workspace) != held}
