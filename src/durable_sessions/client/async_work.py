"""A session under a lease, for programs with an event loop."""

import asyncio
import logging
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from durable_sessions.client import work_calls
from durable_sessions.client.artifact import Artifact
from durable_sessions.client.async_placement import AsyncPlacedSession
from durable_sessions.client.async_session import AsyncSession
from durable_sessions.client.async_tool import AsyncWorkCall
from durable_sessions.client.async_transport import AsyncTransport
from durable_sessions.client.call import ApiCall
from durable_sessions.client.calls import UNSET, Appended
from durable_sessions.client.context import Context
from durable_sessions.client.errors import ClientError, ConflictError, SessionLeaseLostError
from durable_sessions.client.producer import ProducerCache
from durable_sessions.client.tool_record import Effect, ToolRecord, begun
from durable_sessions.client.work import CLOSED, RENEWALS_PER_LEASE, TAKEN_OVER
from durable_sessions.client.work_calls import AskedQuestion, SessionLease

_LOG = logging.getLogger(__name__)


class AsyncWork(AsyncPlacedSession):
    """A session that this worker holds: every append states the epoch of the lease.

    As a context manager it renews the lease in the background and releases it at the end. When another worker
    has taken over, the block is cancelled and raises SessionLeaseLostError: the other one goes on.
    """

    def __init__(
        self,
        id: str,  # noqa: A002
        transport: AsyncTransport,
        producers: ProducerCache[asyncio.Lock],
        incarnation: str | None,
        lease: SessionLease,
    ) -> None:
        super().__init__(id, transport, producers, incarnation, lease.epoch)
        self.lease = lease
        self._lost: SessionLeaseLostError | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._block: asyncio.Task[Any] | None = None
        self._cancelling = 0

    @property
    def epoch(self) -> int:
        """The epoch of the lease."""
        return self.lease.epoch

    @property
    def is_lost(self) -> bool:
        """Whether a renewal found that another worker has the session."""
        return self._lost is not None

    @property
    def unfinished(self) -> list[dict[str, Any]]:
        """The tool calls without a result, each with advice, as they were when the session was woken."""
        return self.lease.unfinished

    async def __aenter__(self) -> "AsyncWork":
        self._renewing = asyncio.create_task(self._renew(), name=f"renew {self.id}")
        self._block = asyncio.current_task()
        self._cancelling = 0 if self._block is None else self._block.cancelling()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
        if self._lost is not None:
            try:
                await self._end_block(self._lost, error)
            finally:
                await self._abandon()
            return
        try:
            await self.leave()
            await self.release()
        except ConflictError as error:
            if error.code != CLOSED:  # the work has ended the session, and with it the lease
                raise
        except SessionLeaseLostError:
            _LOG.warning(TAKEN_OVER, self.id)

    async def _end_block(self, lost: SessionLeaseLostError, error: BaseException | None) -> None:
        """Raise that the lease was lost, in place of the cancellation by which that ended the block."""
        _LOG.warning(TAKEN_OVER, self.id)
        block, self._block = self._block, None
        if block is None or block.uncancel() > self._cancelling:
            return  # somebody else has cancelled the block, too: that goes on
        if isinstance(error, asyncio.CancelledError):
            raise lost from error
        if error is None:
            # The block has ended by itself; the cancellation that is on its way must not reach what follows.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)

    async def context(
        self,
        *,
        budget_tokens: int | None = None,
        q: str | None = None,
        at: str | int | None = None,
        types: str | Iterable[str] | None = None,
        see_all: bool = False,
    ) -> Context:
        """Return what a model should see next, as ``Session.context`` does, while the lease is held.

        A turn costs more than a request: with a lease that is known to be lost none is begun.
        """
        if self._lost is not None:
            raise self._lost
        return await super().context(budget_tokens=budget_tokens, q=q, at=at, types=types, see_all=see_all)

    async def renew(self) -> str:
        """Give the lease its full time again; return when it expires."""
        return await self._transport.send(work_calls.renew(self.id, self.epoch))

    async def release(self, reason: str | None = None) -> str:
        """Give the session back; return where it ends."""
        return await self._transport.send(work_calls.release(self.id, self.epoch, reason))

    async def fact(self, key: str, value: Any, *, kind: str = "fact") -> Appended:
        """Record something that survives every compaction; its ``kind`` is fact, decision or goal."""
        return await self.append(work_calls.fact(key, value, kind))

    async def retract(self, key: str, reason: str | None = None) -> Appended:
        """Take a fact back."""
        return await self.append(work_calls.retract(key, reason))

    async def checkpoint(
        self,
        *,
        units: int,
        next: str,  # noqa: A002 - the name on the wire
        instructions: str,
        done: Iterable[str] = (),
        git: Mapping[str, str] | None = None,
        state: Any = UNSET,
    ) -> Appended:
        """Say where this worker stands and what the next one should do.

        ``git`` has ``commit`` and perhaps ``branch``; ``state`` is any JSON of yours.
        """
        return await self.append(work_calls.checkpoint(units, next, instructions, done, git, state))

    async def checkpoint_due(self, *, every: int = 100) -> bool:
        """Say whether this many events, or more, have come since the last checkpoint, or the beginning."""
        state = await self.state()
        return bool(state["events_since_checkpoint"] >= every)

    def tool(
        self,
        name: str,
        input: Mapping[str, Any],  # noqa: A002 - the name on the wire
        *,
        effect: Effect | None = None,
        key: str | None = None,
        id: str | None = None,  # noqa: A002
    ) -> AsyncWorkCall:
        """Return a call of a tool, to be used as a context manager: the session knows of it before it runs.

        ``effect`` is none, read_only, idempotent or non_idempotent: it says whether a call that has no result
        can be run again. ``key`` is the idempotency key by which the world outside knows a repeat. With an
        ``id`` of yours, a call that is in the session is not appended again.
        """
        record = ToolRecord(name, input, effect, key)
        if id is not None:
            record.id = id
        return AsyncWorkCall(self, record)

    def retry(self, call: Mapping[str, Any]) -> AsyncWorkCall:
        """Return one of the ``unfinished`` calls, to run it again, or to append the result that it had."""
        return AsyncWorkCall(self, begun(call))

    async def ask(
        self,
        question: str,
        *,
        about: str | None = None,
        options: Iterable[str] | None = None,
        blocking: bool = True,
        id: str | None = None,  # noqa: A002
    ) -> AskedQuestion:
        """Ask somebody else for a decision; until then no worker can go on, unless ``blocking`` is false."""
        name = id or f"ask_{secrets.token_hex(12)}"
        asked = await self.append(work_calls.ask(name, question, about, options, blocking=blocking))
        return AskedQuestion.of(asked, name)

    async def route(
        self, to: str, *, reason: str, needs: Iterable[str] = (), see: Mapping[str, Any] | None = None
    ) -> Appended:
        """Say which principal gets the session next, and which features must pass before.

        ``see`` narrows its context: ``types``, ``last``, ``from``, ``facts``.
        """
        return await self.append(work_calls.route(to, reason, needs, see))

    async def _store(self, call: ApiCall[Artifact]) -> str:
        """Store an artifact, and return its digest."""
        stored = await self._transport.send(call)
        return stored.sha256

    def _left_behind(self) -> Mapping[str, Any] | None:
        if self._placement is not None:
            return None  # what the state said when it was woken is told already
        known: Mapping[str, Any] | None = self.lease.state["sandbox"]
        return known

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self.lease.seconds / RENEWALS_PER_LEASE)
            try:
                await self.renew()
            except SessionLeaseLostError as error:
                self._lost = error
                if self._block is not None:
                    self._block.cancel()
                return
            except ClientError as error:
                _LOG.warning("the lease of %s was not renewed: %s", self.id, error)


async def woken(
    session: AsyncSession,
    worker: str | None,
    seconds: int,
    *,
    exclusive: bool = True,
    force: bool = False,
) -> AsyncWork:
    """Wake a session: no other worker has it from now on, and one that had it is fenced."""
    call = work_calls.wake(session.id, worker, seconds, exclusive=exclusive, force=force)
    lease = await session._transport.send(session.pinned(call))
    return AsyncWork(session.id, session._transport, session._cache, session.incarnation, lease)
