"""Rates of keys across workers: each tells the others how many requests it has admitted.

A request is counted where it enters. Whatever the others have admitted is taken from the same rate as soon
as it is heard, so that a client gets its whole rate through one worker or through several. Between two
tellings, each worker may admit a burst. One that does not hear the others admits only its part.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import NamedTuple

import msgspec

from durable_sessions.access.key_table import KeyTable
from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.api.internal import ROOT
from durable_sessions.http.carrier.message import Request, Response
from durable_sessions.limits import Limits
from durable_sessions.node.link import NodeLink
from durable_sessions.partition_id import SYSTEM

RATES = ROOT + b"rates"
"""Where a worker is told what others have admitted."""
Admitted = dict[str, int]
"""How many requests a process has admitted since it was started, by the id of the key."""


class _Told(NamedTuple):
    """What a process says; only keys whose number has changed since it was answered last."""

    process: str
    admitted: Admitted


_TOLD = msgspec.msgpack.Decoder(_Told)


class RateExchange:
    """Tells what this process admits, and hears what the others do.

    ``process`` names this process among all that ever were; ``links`` returns those to all others now.
    """

    def __init__(
        self, keys: KeyTable, links: Callable[[], Collection[NodeLink]], process: str, limits: Limits
    ) -> None:
        self._keys = keys
        self._links = links
        self._process = process
        self._limits = limits
        # By process: what it has said, and when. After a restart of its worker another one speaks.
        self._heard: dict[str, Admitted] = {}
        self._heard_at: dict[str, float] = {}
        keys.divide_rates(self._workers)

    @property
    def _workers(self) -> int:
        return 1 + len(self._links())

    async def run(self) -> None:
        """Tell all others again and again, until cancelled."""
        telling: dict[NodeLink, asyncio.Task[None]] = {}
        try:
            while True:
                links = self._links()
                for link in [link for link in telling if link not in links]:
                    telling.pop(link).cancel()
                for link in links:
                    if link not in telling:
                        telling[link] = asyncio.create_task(self._tell_often(link))
                await asyncio.sleep(self._limits.rate_tell_seconds)
                self._divide()
        finally:
            for task in telling.values():
                task.cancel()
            await asyncio.gather(*telling.values(), return_exceptions=True)

    async def _tell_often(self, link: NodeLink) -> None:
        told: Admitted = {}
        while True:
            changed = self._changed(told)
            body = msgspec.msgpack.encode(_Told(self._process, changed))
            try:
                answer = await link.ask(SYSTEM, Request(b"POST", RATES, b"", {}, body))
                if answer.status == 204:
                    told |= changed
            except DurableSessionsError:
                pass  # it is told everything the next time
            await asyncio.sleep(self._limits.rate_tell_seconds)

    def _changed(self, told: Admitted) -> Admitted:
        """Return the keys whose number has changed; the others of very many follow the next time."""
        changed: Admitted = {}
        for key in self._keys.all():
            if key.rate is not None and key.rate.taken != told.get(key.document.id, 0):
                changed[key.document.id] = key.rate.taken
                if len(changed) == self._limits.key_feed_slice_max:
                    break
        return changed

    def _divide(self) -> None:
        """Admit the whole rate of keys as long as it is heard what all others admit, else a part."""
        now, seconds_max = asyncio.get_running_loop().time(), self._limits.rate_heard_seconds_max
        for process, at in list(self._heard_at.items()):
            if now - at > seconds_max:
                del self._heard_at[process], self._heard[process]
        hears_all = len(self._heard) >= self._workers - 1
        self._keys.divide_rates(1 if hears_all else self._workers)

    def answer(self, request: Request) -> Response:
        """Take what another process has admitted."""
        said = _TOLD.decode(request.body)
        before = self._heard.get(said.process)
        self._heard_at[said.process] = asyncio.get_running_loop().time()
        # The first time, it is not known how much of it is long past: it counts from there on.
        known = self._heard.setdefault(said.process, {})
        if before is not None:
            for key_id, count in said.admitted.items():
                already = known.get(key_id, 0)
                # A smaller number is that of a key which was changed, and is counted anew.
                self._keys.spend(key_id, count - already if count >= already else count, self._workers)
        known |= said.admitted
        return Response(204, [])
