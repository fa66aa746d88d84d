"""A request to append events to a session, and its answer, as plain data."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from durable_sessions.errors import DurableSessionsError
from durable_sessions.sessions.conditions import Conditions
from durable_sessions.sessions.drafts import Draft
from durable_sessions.sessions.record import Record
from durable_sessions.streams import append
from durable_sessions.streams.stream import Producer

JSON = "application/json"


@dataclass(slots=True)
class Batch:
    """A request to append events, to close the session, or both; ``terms`` are the stream's own conditions.

    With ``creates`` a missing session is created. With ``unique`` a different event under an existing id is
    refused; otherwise the stored one stays, and the answer says so. ``digests`` are those of stored events
    that were read for the comparison, by the stream's tag and position. ``may_judge`` says that the caller is
    an evaluator, ``epoch`` is the lease that it states, ``calls`` are events known to be tool calls, and
    ``lives`` the incarnations of the sessions that an event refers to, by its index. ``unresolved`` are the
    refusals of events that refer to what is not there, which count only for those that are new.
    ``conditions`` must hold at the tip; with them there may be no events, which only tests them. ``session``
    is the record of a session that this append creates, and ``opening`` what it begins with, in front of the
    events. ``cost`` is a limit on cost that counts from behind these events on.
    """

    drafts: Sequence[Draft]
    actor: str
    terms: append.Append
    key: str | None = None
    check: int = 0
    creates: bool = True
    unique: bool = False
    digests: dict[tuple[str, int], int] = field(default_factory=dict)
    may_judge: bool = False
    epoch: int | None = None
    calls: Container[str] = ()
    lives: Mapping[int, list[str | None]] = field(default_factory=dict)
    unresolved: Mapping[int, DurableSessionsError] = field(default_factory=dict)
    conditions: Conditions | None = None
    session: Record | None = None
    opening: Sequence[Draft] = ()
    cost: float | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def is_test(self) -> bool:
        """Whether it only asks if its conditions hold."""
        return self.conditions is not None and not self.drafts and not self.terms.close


@dataclass(slots=True, eq=False)
class Repeats:
    """Which events of a request are stored already, by index, and which of these have another body.

    ``unread`` are the positions of stored events that must be read before they can be compared.
    """

    repeated: list[int] = field(default_factory=list)
    differ: list[int] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)


NO_REPEATS = Repeats()
"""Shared by most requests; never changed."""


@dataclass(slots=True)
class Stored:
    """The answer to an append: for each event its bytes if it is new, else its position.

    ``life`` is the incarnation of the session. If ``repeats`` has unread events, nothing was appended: read
    them and decide again.
    """

    tail: int
    closed: bool
    events: list[bytes | int] = field(default_factory=list)
    producer: Producer | None = None
    duplicate: bool = False
    life: str = ""
    repeats: Repeats = NO_REPEATS
