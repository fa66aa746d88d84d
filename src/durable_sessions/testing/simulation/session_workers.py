"""Workers of simulated sessions: they claim them, work under leases, are late, and take over from others.

A worker keeps the epochs that it was granted, and goes on using old ones: what it sends under these must
never stand behind the claim of another.
"""

import asyncio
import random

import msgspec

from durable_sessions.sessions import drafts
from durable_sessions.sessions.batch import Batch
from durable_sessions.sessions.graph.rules import Appender
from durable_sessions.sessions.store import session_key
from durable_sessions.sessions.wake import WakeRequest
from durable_sessions.streams.append import Append
from durable_sessions.streams.stream import Key
from durable_sessions.testing import history
from durable_sessions.testing.history import Outcome, SentWork, ShownWork
from durable_sessions.testing.simulation.clients import Book
from durable_sessions.testing.simulation.process import Process
from durable_sessions.testing.simulation.recorded_calls import RecordedCalls, act

SESSIONS_MAX = 2
PRINCIPALS = ("ann", "bob")
"""Fewer than workers: who has the same key takes over from itself."""
LEASE_SECONDS = (1, 2, 4)
WORK_TYPES = ("agent.message", "agent.tool_use", "agent.tool_result", "span.model_request_end", "note")
LATE_SECONDS = (0.0, 0.01, 1.0, 6.0)


class _Stored(msgspec.Struct):
    id: str
    type: str
    actor: str = ""
    epoch: int | None = None
    worker: str | None = None


class WorkCalls(RecordedCalls):
    """The calls on sessions."""

    def __init__(self, client: str, book: Book) -> None:
        super().__init__(client, book.recorder, book.problems)

    async def wake(self, process: Process, session: str, wanted: history.WakeOperation) -> Outcome:
        """Claim a session."""

        async def perform() -> Outcome:
            by = Appender(wanted.principal, may_judge=True)
            request = WakeRequest(by, wanted.worker, wanted.seconds, force=wanted.force)
            granted = await process.works.wake(_key(session), request)
            return history.LeaseGranted(granted.lease.epoch)

        return await self.record(process.partition, session, wanted, perform)

    async def work(
        self, process: Process, session: str, wanted: history.WorkOperation, late_seconds: float = 0.0
    ) -> Outcome:
        """Append events; the request is on its way for a while."""

        async def perform() -> Outcome:
            if late_seconds:
                await asyncio.sleep(late_seconds)
            body = msgspec.json.encode([_event(one) for one in wanted.events])
            batch = Batch(
                drafts.parse(body, process.machine.limits),
                wanted.principal,
                Append(body, "application/json"),
                may_judge=True,
                epoch=wanted.epoch,
            )
            stored = await process.sessions.append_named(_key(session), batch, len(body))
            return history.AppendAcknowledged(stored.tail, bool(stored.repeats.repeated))

        return await self.record(process.partition, session, wanted, perform)

    async def renew(self, process: Process, session: str, epoch: int, principal: str) -> Outcome:
        """Renew a lease."""

        async def perform() -> Outcome:
            process.works.renew(process.sessions.find(_key(session)), epoch, principal)
            return history.Done()

        return await self.record(
            process.partition, session, history.RenewOperation(epoch, principal), perform
        )

    async def release(self, process: Process, session: str, epoch: int, principal: str) -> Outcome:
        """Release a lease."""

        async def perform() -> Outcome:
            await process.works.release(_key(session), epoch, None, Appender(principal, may_judge=False))
            return history.Done()

        return await self.record(
            process.partition, session, history.ReleaseOperation(epoch, principal), perform
        )

    async def read(self, process: Process, session: str) -> Outcome:
        """Read a session from its first event to its last."""

        async def perform() -> Outcome:
            durable = process.sessions.find(_key(session))
            shown = []
            async for _, event in process.sessions.events.range(durable, 0, durable.tail):
                said = msgspec.json.decode(event, type=_Stored)
                shown.append(ShownWork(said.id, said.type, said.actor, said.epoch, said.worker))
            return history.SessionShown(tuple(shown))

        return await self.record(process.partition, session, history.ReadSessionOperation(), perform)


class SimulatedWorker:
    """Works until its process ends, and goes on with the next one; what it knows it keeps."""

    def __init__(self, name: str, seed: str, book: Book, pause_seconds: float) -> None:
        self.name = name
        self._calls = WorkCalls(name, book)
        self._book = book
        self._random = random.Random(f"{seed}/{name}")
        self._principal = self._random.choice(PRINCIPALS)
        self._pause_seconds = pause_seconds
        self._count = 0
        self._granted: list[tuple[str, int]] = []
        self._unanswered: list[tuple[str, history.WorkOperation]] = []

    async def run(self, process: Process) -> None:
        """Make one call after the other."""
        actions = (
            (self._wake, 12),
            (self._work, 45),
            (self._work_late, 10),
            (self._work_without_lease, 8),
            (self._repeat, 10),
            (self._renew, 6),
            (self._release, 4),
            (self._stop, 4),
            (self._resume, 6),
            (self._hang_up, 5),
        )
        await act(self._random, self._pause_seconds, actions, process)

    # What it does -----------------------------------------------------------------------

    async def _wake(self, process: Process) -> None:
        session = self._session()
        self._count += 1
        wanted = history.WakeOperation(
            f"{self.name}-{self._count}",
            self._principal,
            self._random.choice(LEASE_SECONDS),
            force=self._random.random() < 0.1,
        )
        done = await self._calls.wake(process, session, wanted)
        if isinstance(done, history.LeaseGranted):
            self._granted.append((session, done.epoch))
        elif isinstance(done, history.CallRefused) and done.code == "session_not_found":
            await self._work_without_lease(process)

    async def _work(self, process: Process) -> None:
        if self._granted:
            session, epoch = self._granted[-1] if self._random.random() < 0.7 else self._some_lease()
            await self._send(process, session, self._events(), epoch)

    async def _work_late(self, process: Process) -> None:
        """Send something that takes its time to arrive, and go on meanwhile."""
        if self._granted:
            session, epoch = self._some_lease()
            late = self._random.choice(LATE_SECONDS) * self._random.random()
            action = self._random.choice((self._wake, self._work, self._release))
            await asyncio.gather(self._send(process, session, self._events(), epoch, late), action(process))

    async def _work_without_lease(self, process: Process) -> None:
        await self._send(process, self._session(), self._events(), None)

    async def _repeat(self, process: Process) -> None:
        """Send again what was not answered: it may be stored, or may not be taken any more."""
        if self._unanswered:
            session, wanted = self._unanswered.pop(self._random.randrange(len(self._unanswered)))
            await self._sent(process, session, wanted)

    async def _renew(self, process: Process) -> None:
        if self._granted:
            await self._calls.renew(process, *self._some_lease(), self._principal)

    async def _release(self, process: Process) -> None:
        if self._granted:
            await self._calls.release(process, *self._some_lease(), self._principal)

    async def _stop(self, process: Process) -> None:
        await self._send(process, self._session(), (self._event("ds.session.paused"),), None)

    async def _resume(self, process: Process) -> None:
        await self._send(process, self._session(), (self._event("ds.session.resumed"),), None)

    async def _hang_up(self, process: Process) -> None:
        """Make a call and not wait for its answer."""
        action = self._random.choice((self._wake, self._work, self._release, self._resume))
        try:
            async with asyncio.timeout(self._random.choice((0.0, 0.001, 0.01))):
                await action(process)
        except TimeoutError:
            return

    async def _send(
        self,
        process: Process,
        session: str,
        events: tuple[SentWork, ...],
        epoch: int | None,
        late_seconds: float = 0.0,
    ) -> None:
        await self._sent(
            process, session, history.WorkOperation(events, self._principal, epoch), late_seconds
        )

    async def _sent(
        self, process: Process, session: str, wanted: history.WorkOperation, late_seconds: float = 0.0
    ) -> None:
        done: Outcome = history.Unknown()
        try:
            done = await self._calls.work(process, session, wanted, late_seconds)
        finally:
            if isinstance(done, history.Unknown):
                self._unanswered.append((session, wanted))

    def _session(self) -> str:
        known = self._book.sessions
        if len(known) < SESSIONS_MAX and (not known or self._random.random() < 0.1):
            known.append(f"{self._book.prefix}run{len(known)}")
        return self._random.choice(known)

    def _some_lease(self) -> tuple[str, int]:
        return self._random.choice(self._granted[-4:])

    def _events(self) -> tuple[SentWork, ...]:
        many = self._random.choice((1, 1, 2, 3))
        return tuple(self._event(self._random.choice(WORK_TYPES)) for _ in range(many))

    def _event(self, kind: str) -> SentWork:
        self._count += 1
        return SentWork(f"{self.name}.{self._count}", kind)


def _event(sent: SentWork) -> dict[str, str]:
    event = {"id": sent.id, "type": sent.type}
    return {**event, "reason": "told to"} if sent.type == "ds.session.paused" else event


def _key(session: str) -> Key:
    return session_key("default", session)
