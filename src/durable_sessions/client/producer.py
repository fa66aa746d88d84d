"""Exactly once: the sequence numbers by which the server tells a repeated append from a new one.

An append is sent with a producer id, an epoch and a sequence number; the server stores each number once.
What happens to the numbers:

- An append that is acknowledged uses up its number.
- One that is refused does not: everything is as it was before.
- One whose outcome is unknown, because the caller gave up waiting, is remembered. If the next append has the
  same content, it is that append, sent again under its number. If its content differs, it begins a new epoch:
  the server then refuses anything of the old epoch that is still in transit, so it cannot arrive late.
- A session that was deleted and created again knows no producer. The numbers belong to the incarnation of the
  session that accepted the first of them. They are never used in another, and no append is repeated there.
"""

import os
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

from durable_sessions.client.errors import ApiError, ClientError, SessionReplacedError

PRODUCERS_MAX = 1_024
"""For how many sessions a client remembers sequence numbers; a handle in use keeps its own beyond that."""

L = TypeVar("L")


class _Number(NamedTuple):
    """The number of the next append; ``unresolved`` is the digest of one sent under it without an answer."""

    epoch: int
    seq: int
    unresolved: bytes | None = None


class SessionProducer:
    """The sequence numbers of one writer of one session; its appends must not overlap.

    ``incarnation`` is the one of the session that accepted the first append, None before that.
    """

    def __init__(self, incarnation: str | None = None) -> None:
        self.incarnation = incarnation
        self._id = ""
        self._process = -1
        self._number = self._before = _Number(0, 0)
        self._renew()

    def begin(self, body: bytes, if_match: str | None = None) -> dict[str, str]:
        """Return the headers of an append, whose outcome is unknown from now on.

        A caller that is cancelled or interrupted reports nothing further, and the number stays unresolved.
        """
        if self._process != os.getpid():  # after a fork two processes must not share their numbers
            self._renew()
        # The condition counts as content: the same events under another If-Match are another append.
        digest = blake2b(f"{if_match}\n".encode() + body).digest()
        self._before = now = self._number
        if now.unresolved not in (None, digest):
            now = _Number(now.epoch + 1, 0)
        self._number = now._replace(unresolved=digest)
        return {"Producer-Id": self._id, "Producer-Epoch": str(now.epoch), "Producer-Seq": str(now.seq)}

    def accepted(self, incarnation: str | None) -> None:
        """Note that the append is stored, and in which incarnation of the session."""
        self._number = _Number(self._number.epoch, self._number.seq + 1)
        self.incarnation = self.incarnation or incarnation

    def failed(self, error: ClientError) -> ClientError:
        """Note that the append was refused or got no answer; return the error to raise."""
        if isinstance(error, ApiError) and error.code == "producer_gap":
            self.forget()
            # A server that expects 0 does not know this producer: it is another session under the same id.
            return _replaced(error) if error.details.get("expected_seq") == 0 else error
        if isinstance(error, SessionReplacedError):
            self.forget()
            return error
        # The number was the same before: this append was a repetition of one whose outcome is unknown.
        repeats = self._before == self._number
        if repeats and not error.certain:
            error.outcome_unknown = True  # an earlier call may have had it stored
        if not error.outcome_unknown:
            # Certainly not stored, so its number is free. An earlier append that is unresolved stays so.
            self._number = self._number._replace(unresolved=None) if repeats else self._before
        return error

    def forget(self) -> None:
        """Start over under a new id: the incarnation that accepted the numbers is gone."""
        self.incarnation = None
        self._renew()

    def _renew(self) -> None:
        """Become a producer that the server has never seen."""
        self._id, self._process = secrets.token_hex(16), os.getpid()
        self._number = _Number(0, 0)


def _replaced(gap: ApiError) -> SessionReplacedError:
    """Return the error for a session that does not know a producer whose appends it has accepted."""
    error = SessionReplacedError(
        gap.status,
        gap.type,
        "The session was deleted, and its id given to another, which has not taken this append.",
        gap.request_id,
        gap.details,
    )
    error.__cause__ = gap
    return error


@dataclass(slots=True)
class SessionProducers(Generic[L]):
    """The producer that a client appends to one session with, and the lock that keeps its appends in order.

    ``other`` is a producer for another incarnation: an old handle may still be in use beside a new one.
    """

    producer: SessionProducer
    lock: L
    other: SessionProducer | None = None

    def of(self, incarnation: str | None) -> SessionProducer:
        """Return the producer for an incarnation of the session; two of them never share numbers."""
        if incarnation is None or self.producer.incarnation in (None, incarnation):
            return self.producer
        if self.other is None or self.other.incarnation != incarnation:
            self.other = SessionProducer(incarnation)
        return self.other

    def accepted(self, producer: SessionProducer, incarnation: str | None) -> None:
        """Note that an append of ``producer`` is stored: its incarnation is the one that exists."""
        producer.accepted(incarnation)
        if producer is not self.producer:
            self.producer, self.other = producer, None

    def ended(self, incarnation: str | None) -> None:
        """Note that an incarnation of the session was deleted."""
        if incarnation is None or self.producer.incarnation in (None, incarnation):
            self.producer.forget()


class ProducerCache(Generic[L]):
    """The producers of a client by session, of the sessions used last."""

    def __init__(self, make_lock: Callable[[], L]) -> None:
        self._make_lock = make_lock
        self._sessions: OrderedDict[str, SessionProducers[L]] = OrderedDict()
        self._guard = Lock()

    def of(self, session: str) -> SessionProducers[L]:
        """Return the producers of a session; all handles of a client share them."""
        with self._guard:
            producers = self._sessions.get(session)
            if producers is None:
                producers = self._sessions[session] = SessionProducers(SessionProducer(), self._make_lock())
                if len(self._sessions) > PRODUCERS_MAX:
                    self._sessions.popitem(last=False)
            self._sessions.move_to_end(session)
            return producers
