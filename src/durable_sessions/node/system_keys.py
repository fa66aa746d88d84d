"""The keys of a node of a cluster: its own while it owns the system partition, else a copy of the owner's."""

import asyncio
from collections.abc import Awaitable

from durable_sessions.access.key_follower import KeyFollower
from durable_sessions.access.key_publisher import KeyPublisher
from durable_sessions.http.carrier.message import Answer, Handler, Request
from durable_sessions.node.owned_partition import OwnedPartition
from durable_sessions.node.process_parts import ProcessParts
from durable_sessions.node.system_calls import (
    SystemCalls,
    SystemLink,
    TakeRecord,
    boot_seconds,
    follower_name,
)
from durable_sessions.tasks import Task


class SystemKeys:
    """Follows the keys over ``system``, or publishes them; ``node`` names this process."""

    def __init__(self, process: ProcessParts, system: SystemLink, node: str) -> None:
        self._process = process
        self._system = system
        self._node = node
        self._following: Task | None = None
        self.are_known = False
        """Whether this process has had the keys once: only then it can act as an entrance."""

    def follow(self) -> None:
        """Keep a copy of the keys of whichever node owns the system partition."""
        self._process.keys.publisher = None
        self._process.first_key.withdraw()
        process = self._process
        name = follower_name(self._node, process.ids.token(""))
        follower = KeyFollower(name, process.keys, self._system.acknowledge, boot_seconds, process.limits)
        self._process.health.keys_proof_age_seconds = lambda: follower.confirmed_seconds_ago

        async def run() -> None:
            await asyncio.gather(follower.run(self._system.follow), self._note(follower))

        self._following = self._process.supervisor.start("keys", run)

    async def _note(self, follower: KeyFollower) -> None:
        await follower.confirmed()
        self.are_known = True

    async def stop_following(self) -> None:
        """Take no more keys of another node: this one is about to have its own.

        Until it has, the copy holds for as long as it was confirmed.
        """
        if self._following is not None:
            await self._following.stop()
            self._following = None

    def publish(self, system: OwnedPartition, take: TakeRecord) -> Handler:
        """Publish the keys of the system partition, which this node owns; return what answers for it.

        That also answers the calls of the other nodes.
        """
        process, answer = self._process, system.engine.answer
        process.keys.proof = _OwnKeys(system, process.limits.key_proof_seconds)
        process.health.keys_proof_age_seconds = lambda: None
        calls = SystemCalls(KeyPublisher(process.keys, process.ids, process.limits, boot_seconds), take)
        self.are_known = True
        process.offer_first_key()

        def answer_calls(request: Request) -> Answer | Awaitable[Answer]:
            return calls.answer(request) or answer(request)

        return answer_calls


class _OwnKeys:
    """The proof that nobody else has changed the keys: that of the log which they are in."""

    def __init__(self, system: OwnedPartition, seconds: float) -> None:
        self._system = system
        self._log = system.log
        self._seconds = seconds

    def is_fresh(self) -> bool:
        """Say whether the log was still ours recently enough; another node's copy may be as old."""
        return boot_seconds() < self._log.proven_until - self._log.proof_seconds + self._seconds

    async def renew(self) -> None:
        """Prove it again, if that is possible."""
        await self._system.renew_proof()
