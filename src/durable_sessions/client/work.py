"""A session under a lease, for programs without an event loop."""

import logging
import secrets
from collections.abc import Iterable, Mapping
from threading import Event as Signal
from threading import Lock, Thread
from typing import Any

from durable_sessions.client import work_calls
from durable_sessions.client.artifact import Artifact
from durable_sessions.client.call import ApiCall
from durable_sessions.client.calls import UNSET, Appended
from durable_sessions.client.context import Context
from durable_sessions.client.errors import ClientError, ConflictError, SessionLeaseLostError
from durable_sessions.client.placement import PlacedSession
from durable_sessions.client.producer import ProducerCache
from durable_sessions.client.session import Session
from durable_sessions.client.tool import WorkCall
from durable_sessions.client.tool_record import Effect, ToolRecord, begun
from durable_sessions.client.transport import Transport
from durable_sessions.client.work_calls import AskedQuestion, SessionLease

_LOG = logging.getLogger(__name__)
RENEWALS_PER_LEASE = 3
"""When one renewal fails, the next is still in time."""
CLOSED = "stream_closed"
TAKEN_OVER = "the lease of %s was taken over by another worker"


class Work(PlacedSession):
    """A session that this worker holds: every append states the epoch of the lease.

    As a context manager it renews the lease in the background and releases it at the end. When another worker
    has taken over, the next append or context raises SessionLeaseLostError, which ends the block: stop then,
    since the other one goes on.
    """

    def __init__(
        self,
        id: str,  # noqa: A002
        transport: Transport,
        producers: ProducerCache[Lock],
        incarnation: str | None,
        lease: SessionLease,
    ) -> None:
        super().__init__(id, transport, producers, incarnation, lease.epoch)
        self.lease = lease
        self._lost: SessionLeaseLostError | None = None
        self._ended = Signal()
        self._renewing: Thread | None = None

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

    def __enter__(self) -> "Work":
        self._renewing = Thread(target=self._renew, name=f"renew {self.id}", daemon=True)
        self._renewing.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._renewing is not None:
            self._renewing.join()
        try:
            self.leave()
            self.release()
        except ConflictError as error:
            if error.code != CLOSED:  # the work has ended the session, and with it the lease
                raise
        except SessionLeaseLostError:
            _LOG.warning(TAKEN_OVER, self.id)

    def context(
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
        return super().context(budget_tokens=budget_tokens, q=q, at=at, types=types, see_all=see_all)

    def renew(self) -> str:
        """Give the lease its full time again; return when it expires."""
        return self._transport.send(work_calls.renew(self.id, self.epoch))

    def release(self, reason: str | None = None) -> str:
        """Give the session back; return where it ends."""
        return self._transport.send(work_calls.release(self.id, self.epoch, reason))

    def fact(self, key: str, value: Any, *, kind: str = "fact") -> Appended:
        """Record something that survives every compaction; its ``kind`` is fact, decision or goal."""
        return self.append(work_calls.fact(key, value, kind))

    def retract(self, key: str, reason: str | None = None) -> Appended:
        """Take a fact back."""
        return self.append(work_calls.retract(key, reason))

    def checkpoint(
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
        return self.append(work_calls.checkpoint(units, next, instructions, done, git, state))

    def checkpoint_due(self, *, every: int = 100) -> bool:
        """Say whether this many events, or more, have come since the last checkpoint, or the beginning."""
        state = self.state()
        return bool(state["events_since_checkpoint"] >= every)

    def tool(
        self,
        name: str,
        input: Mapping[str, Any],  # noqa: A002 - the name on the wire
        *,
        effect: Effect | None = None,
        key: str | None = None,
        id: str | None = None,  # noqa: A002
    ) -> WorkCall:
        """Return a call of a tool, to be used as a context manager: the session knows of it before it runs.

        ``effect`` is none, read_only, idempotent or non_idempotent: it says whether a call that has no result
        can be run again. ``key`` is the idempotency key by which the world outside knows a repeat. With an
        ``id`` of yours, a call that is in the session is not appended again.
        """
        record = ToolRecord(name, input, effect, key)
        if id is not None:
            record.id = id
        return WorkCall(self, record)

    def retry(self, call: Mapping[str, Any]) -> WorkCall:
        """Return one of the ``unfinished`` calls, to run it again, or to append the result that it had."""
        return WorkCall(self, begun(call))

    def ask(
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
        asked = self.append(work_calls.ask(name, question, about, options, blocking=blocking))
        return AskedQuestion.of(asked, name)

    def route(
        self, to: str, *, reason: str, needs: Iterable[str] = (), see: Mapping[str, Any] | None = None
    ) -> Appended:
        """Say which principal gets the session next, and which features must pass before.

        ``see`` narrows its context: ``types``, ``last``, ``from``, ``facts``.
        """
        return self.append(work_calls.route(to, reason, needs, see))

    def _store(self, call: ApiCall[Artifact]) -> str:
        """Store an artifact, and return its digest."""
        stored = self._transport.send(call)
        return stored.sha256

    def _left_behind(self) -> Mapping[str, Any] | None:
        if self._placement is not None:
            return None  # what the state said when it was woken is told already
        known: Mapping[str, Any] | None = self.lease.state["sandbox"]
        return known

    def _renew(self) -> None:
        while not self._ended.wait(self.lease.seconds / RENEWALS_PER_LEASE):
            try:
                self.renew()
            except SessionLeaseLostError as error:
                self._lost = error
                return
            except ClientError as error:
                _LOG.warning("the lease of %s was not renewed: %s", self.id, error)


def woken(
    session: Session,
    worker: str | None,
    seconds: int,
    *,
    exclusive: bool = True,
    force: bool = False,
) -> Work:
    """Wake a session: no other worker has it from now on, and one that had it is fenced."""
    call = work_calls.wake(session.id, worker, seconds, exclusive=exclusive, force=force)
    lease = session._transport.send(session.pinned(call))
    return Work(session.id, session._transport, session._cache, session.incarnation, lease)
