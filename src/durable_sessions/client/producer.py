"""Exactly once: the numbers that tell a repeated append from a new one.

An append is sent with a producer id, an epoch and a sequence number; the server stores each number once.
What happens to the numbers:

- An append that is acknowledged uses up its number.
- One that is refused does not: everything is as it was before.
- One whose outcome is unknown, because the caller gave up waiting, is remembered. If the next append has the
  same content, it is that append, sent again under its number. If its content differs, it begins a new epoch:
  the server then refuses anything of the old epoch that is still in transit, so it cannot arrive late.
- A session that was deleted and created again knows no producer. The numbers belong to the life of the
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
"""How many sessions a client remembers its numbers of; handles that are in use keep their own."""

L = TypeVar("L")


class _Number(NamedTuple):
    """What an append is sent under; ``unresolved`` is what was sent so and may have been stored."""

    epoch: int
    seq: int
    unresolved: bytes | None = None


class SessionProducer:
    """The numbers of one writer of one session; its appends must not overlap.

    ``life`` is the life of the session that has taken them, None before one has.
    """

    def __init__(self, life: str | None = None) -> None:
        self.life = life
        self._id = ""
        self._process = -1
        self._number = self._before = _Number(0, 0)
        self._renew()

    def begin(self, body: bytes, if_match: str | None = None) -> dict[str, str]:
        """Return the headers of an append, which is unresolved from now on."""
        if self._process != os.getpid():  # after a fork two processes must not share their numbers
            self._renew()
        # The condition counts as content: the same events under another If-Match are another append.
        said = blake2b(f"{if_match}\n".encode() + body).digest()
        self._before = now = self._number
        if now.unresolved not in (None, said):
            now = _Number(now.epoch + 1, 0)
        self._number = now._replace(unresolved=said)
        return {"Producer-Id": self._id, "Producer-Epoch": str(now.epoch), "Producer-Seq": str(now.seq)}

    def accepted(self, life: str | None) -> None:
        """Take note that the append is stored, in which life of the session."""
        self._number = _Number(self._number.epoch, self._number.seq + 1)
        self.life = self.life or life

    def failed(self, error: ClientError) -> ClientError:
        """Take note that the append was refused or got no answer; return the error to raise."""
        if isinstance(error, ApiError) and error.code == "producer_gap":
            self.forget()
            # A server that expects 0 does not know this producer: it is another session under the same id.
            return _replaced(error) if error.details.get("expected_seq") == 0 else error
        if isinstance(error, SessionReplacedError):
            self.forget()
            return error
        repeats = self._before == self._number
        if repeats and not error.certain:
            error.outcome_unknown = True  # an earlier call may have had it stored
        if not error.outcome_unknown:
            # Certainly not stored, so its number is free. An earlier append that is unresolved stays so.
            self._number = self._number._replace(unresolved=None) if repeats else self._before
        return error

    def forget(self) -> None:
        """Be a producer of no life in particular: the one that took the numbers is gone."""
        self.life = None
        self._renew()

    def _renew(self) -> None:
        """Be another producer, which the server has never heard of."""
        self._id, self._process = secrets.token_hex(16), os.getpid()
        self._number = _Number(0, 0)


def _replaced(gap: ApiError) -> SessionReplacedError:
    """Return what it means that a session has never heard of a producer that it has taken appends of."""
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
class Line(Generic[L]):
    """A producer, and the lock that keeps its appends in line."""

    producer: SessionProducer
    lock: L
    other: SessionProducer | None = None

    def of(self, life: str | None) -> SessionProducer:
        """Return the producer for a life of the session; one of another life has numbers of its own."""
        if life is None or self.producer.life in (None, life):
            return self.producer
        if self.other is None or self.other.life != life:
            self.other = SessionProducer(life)
        return self.other

    def accepted(self, producer: SessionProducer, life: str | None) -> None:
        """Take note that an append of a producer is stored, so that its life is the one that goes on."""
        producer.accepted(life)
        if producer is not self.producer:
            self.producer, self.other = producer, None

    def ended(self, life: str | None) -> None:
        """Take note that a life of the session is over."""
        if life is None or self.producer.life in (None, life):
            self.producer.forget()


class Lines(Generic[L]):
    """The lines of a client, one for each session, the ones used last."""

    def __init__(self, make_lock: Callable[[], L]) -> None:
        self._make_lock = make_lock
        self._lines: OrderedDict[str, Line[L]] = OrderedDict()
        self._guard = Lock()

    def of(self, session: str) -> Line[L]:
        """Return the line of a session; all handles of a client share it."""
        with self._guard:
            line = self._lines.get(session)
            if line is None:
                line = self._lines[session] = Line(SessionProducer(), self._make_lock())
                if len(self._lines) > PRODUCERS_MAX:
                    self._lines.popitem(last=False)
            self._lines.move_to_end(session)
            return line
