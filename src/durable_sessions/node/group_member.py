"""What ties a worker to the others of its group: links, connections that move, keys and owed records."""

import asyncio
from collections.abc import Awaitable

from durable_sessions.access.key_follower import KeyFollower
from durable_sessions.access.key_publisher import KeyPublisher
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.api.internal import ROOT
from durable_sessions.http.carrier.message import Answer, Request
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.node.handover import HandOverReceiver
from durable_sessions.node.link_answerer import PartitionHandler, PlainAppends
from durable_sessions.node.link_server import LinkServer
from durable_sessions.node.process_parts import ProcessParts
from durable_sessions.node.rate_exchange import RATES, RateExchange
from durable_sessions.node.system_calls import (
    SystemCalls,
    SystemLink,
    TakeRecord,
    boot_seconds,
    follower_name,
)
from durable_sessions.node.worker_group import WorkerGroup
from durable_sessions.partition_id import SYSTEM
from durable_sessions.streams.outbox import OwedRecord


class GroupMember:
    """One worker among others. The one with the system partition publishes the keys, all others follow it.

    ``answer`` answers requests that other workers pass on, and ``plain`` takes plain appends among them.
    ``take`` takes a record for the system partition.
    """

    def __init__(
        self,
        group: WorkerGroup,
        process: ProcessParts,
        answer: PartitionHandler,
        plain: PlainAppends,
        take: TakeRecord,
    ) -> None:
        limits = process.limits
        self._group = group
        self._process = process
        self._answer_for_partition = answer
        self.links = group.links(limits)
        self.senders = group.senders(limits)
        self._link_server = LinkServer(
            self._answer, [group.secret], limits, refuse=ANSWER_FORMAT.refuse, plain=plain
        )
        self._receiver: HandOverReceiver | None = None
        self._calls: SystemCalls | None = None
        self._system: SystemLink | None = None
        process.health.forwarded = lambda: sum(link.counts.forwarded for link in self.links.values())
        self._rates = RateExchange(process.keys, self.links.values, process.ids.token(""), process.limits)
        if group.worker.owns(SYSTEM):
            publisher = KeyPublisher(process.keys, process.ids, limits, boot_seconds)
            self._calls = SystemCalls(publisher, take)
        else:
            self._system = SystemLink(self.links[group.worker.owner(SYSTEM)])

    async def listen(self, server: HttpServer) -> None:
        """Accept links and connections of other workers; on return the keys are known here."""
        await self._link_server.listen(self._group.address)
        self._receiver = HandOverReceiver(server, self._process.limits)
        self._receiver.listen(self._group.hand_overs)
        self._process.supervisor.start("rates", self._rates.run)
        if self._system is not None:
            await self._follow_keys(self._system)

    async def _follow_keys(self, system: SystemLink) -> None:
        name = follower_name(str(self._group.worker.number), self._process.ids.token(""))
        follower = KeyFollower(
            name, self._process.keys, system.acknowledge, boot_seconds, self._process.limits
        )
        self._process.health.keys_proof_age_seconds = lambda: follower.confirmed_seconds_ago
        self._process.supervisor.start("keys", lambda: follower.run(system.follow))
        await follower.confirmed()

    async def deliver(self, record: OwedRecord) -> None:
        """Give a record to the worker that has the system partition."""
        assert self._system is not None, "the worker that has the system partition takes its own"
        await self._system.deliver(record)

    def _answer(self, partition: int, request: Request) -> Answer | Awaitable[Answer]:
        if request.path.startswith(ROOT):
            if request.path == RATES:
                return self._rates.answer(request)
            called = None if self._calls is None else self._calls.answer(request)
            if called is not None:
                return called
        return self._answer_for_partition(partition, request)

    async def close(self) -> None:
        """Take nothing more from other workers, and ask them nothing more."""
        if self._receiver is not None:
            await self._receiver.close()
        for sender in self.senders.values():
            sender.close()
        # What this worker asks ends first, for the others end at the same moment: no link seems to be lost.
        await asyncio.gather(*(link.close() for link in self.links.values()))
        await self._link_server.close()
