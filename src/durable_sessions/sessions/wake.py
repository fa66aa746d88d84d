"""Decides who works on a session: waking it, renewing and releasing the lease, ending it."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from durable_sessions.errors import (
    GateClosedError,
    NotRoutedError,
    SessionArchivedError,
    SessionClaimedError,
    SessionNotFoundError,
    StreamClosedError,
)
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.sessions import append, record, repeats
from durable_sessions.sessions.batch import JSON, Batch, Stored
from durable_sessions.sessions.change import By
from durable_sessions.sessions.drafts import Draft
from durable_sessions.sessions.graph import rules, strict
from durable_sessions.sessions.graph.control import Control
from durable_sessions.sessions.graph.lease import Lease, lost
from durable_sessions.sessions.graph.rules import Appender
from durable_sessions.sessions.leases import LeaseTimes
from durable_sessions.sessions.session_lookup import (
    present,
    require_incarnation,
    require_tail,
    session_of,
    usable,
)
from durable_sessions.streams import offsets
from durable_sessions.streams.append import Append
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.times import rfc3339


@dataclass(frozen=True, slots=True)
class WakeRequest:
    """A request for the session; ``force`` takes it from whoever holds it.

    ``if_tail`` has the tails of which one must be the session's, so that of several who have seen it free,
    one gets it.
    """

    by: Appender
    worker: str
    seconds: int
    exclusive: bool = True
    force: bool = False
    incarnation: str | None = None
    if_tail: frozenset[int] | None = None


class Once(NamedTuple):
    """A key by which a repeat of a request is recognised, and the checksum of its body."""

    key: str
    check: int


@dataclass(frozen=True, slots=True)
class GrantedLease:
    """The answer: the lease, and the end behind the claim and its companion."""

    lease: Lease
    tail: int
    life: str


def wake(
    state: State, key: Key, request: WakeRequest, times: LeaseTimes, now_ms: int, limits: Limits, ids: Ids
) -> tuple[list[Effect], GrantedLease]:
    """Give the session to a worker, under the next epoch; or refuse, in the order that the contract has."""
    stream = open_session(state, key, request.incarnation, now_ms)
    assert not isinstance(stream, Stored), "waking has no key: a repeat takes over from itself"
    if request.if_tail is not None:
        require_tail(stream, request.if_tail)
    control = Control(stream.attributes, limits)
    rules.require_going(control, "worker")
    _require_route(control, request.by)
    held = control.core.lease
    # It may have expired all the same; whether it has, the times in memory say, not the log.
    if held is not None and not held.released:
        _require_free(stream, control, held, request, times, now_ms)
    epoch = control.core.epoch + 1
    claim = {
        "type": "ds.lease.claimed",
        "epoch": epoch,
        "worker": request.worker,
        "seconds": request.seconds,
        "exclusive": request.exclusive,
    }
    effects, stored = _write(state, stream, claim, request.by, now_ms, limits, ids)
    times.renew(stream.id, epoch, now_ms)
    lease = Lease(
        epoch, request.worker, request.by.principal, request.seconds, request.exclusive, claimed_ms=now_ms
    )
    return effects, GrantedLease(lease, stored.tail, stored.life)


def release(
    state: State,
    key: Key,
    epoch: int,
    reason: str | None,
    by: Appender,
    now_ms: int,
    limits: Limits,
    ids: Ids,
    once: Once | None = None,
    stated: int | None = None,
    incarnation: str | None = None,
) -> tuple[list[Effect], Stored]:
    """Give the session back; ``stated`` is the epoch under which this is sent, if it says one."""
    stream = open_session(state, key, incarnation, now_ms, once)
    if isinstance(stream, Stored):
        return [], stream
    control = Control(stream.attributes, limits)
    if stated is not None:
        held(control, stated, by.principal)
    lease = held(control, epoch, by.principal)
    said: dict[str, Any] = {"type": "ds.lease.released", "epoch": epoch, "worker": lease.worker}
    if reason is not None:
        said["reason"] = reason
    return _write(state, stream, said, by, now_ms, limits, ids, once=once)


def end(
    state: State,
    key: Key,
    outcome: str,
    reason: str | None,
    by: Appender,
    wanted: By,
    now_ms: int,
    limits: Limits,
    ids: Ids,
    once: Once | None = None,
) -> tuple[list[Effect], Stored]:
    """Close a session with its outcome, if it is as it is wanted."""
    stream = open_session(state, key, wanted.incarnation, now_ms, once)
    if isinstance(stream, Stored):
        return [], stream
    if wanted.if_missing:
        raise present(stream)
    if wanted.if_tail is not None:
        require_tail(stream, wanted.if_tail)
    said: dict[str, Any] = {"type": "ds.session.ended", "outcome": outcome}
    if reason is not None:
        said["reason"] = reason
    return _write(state, stream, said, by, now_ms, limits, ids, close=True, once=once)


def held(control: Control, epoch: int, principal: str) -> Lease:
    """Return the lease of an epoch, or refuse who does not hold it any more."""
    lease = control.core.lease
    if lease is None or lease.released or lease.epoch != epoch or lease.principal != principal:
        raise lost(lease, epoch, control.core.epoch, principal)
    return lease


def open_session(
    state: State, key: Key, incarnation: str | None, now_ms: int, once: Once | None = None
) -> StreamRecord | Stored:
    """Return a session that takes events, or refuse: none of these creates one.

    A request that was carried out before is answered as the first time, also if the session was closed since.
    """
    stream = usable(state, key, now_ms, [])
    if stream is None:
        raise SessionNotFoundError(session=session_of(key))
    if incarnation is not None:
        require_incarnation(stream, incarnation)
    if once is not None:
        repeated = repeats.of_key(state, stream, once.key, once.check)
        # Before anything else is refused: what was done stays done, whatever became of the session since.
        if repeated is not None:
            return repeated
    if record.ARCHIVED in stream.attributes:
        raise SessionArchivedError(session=session_of(key))
    if stream.closed:
        raise StreamClosedError(tail=offsets.encode(stream.tail))
    return stream


def _require_route(control: Control, by: Appender) -> None:
    route = control.core.route
    if route is None:
        return
    if route.to != by.principal:
        raise NotRoutedError(to=route.to, principal=by.principal)
    failing = route.needs if control.outcome is None else control.outcome.failing(route.needs)
    if failing:
        raise GateClosedError(features=failing)


def _require_free(
    stream: StreamRecord, control: Control, held: Lease, request: WakeRequest, times: LeaseTimes, now_ms: int
) -> None:
    """Refuse if another principal holds the session and is alive; who is forced out must be so by a judge."""
    if held.principal == request.by.principal:
        return
    expires_ms = times.expires_ms(stream.id, held)
    if request.force:
        rules.require_role(request.by)
    elif expires_ms > now_ms:
        is_same = held.worker == held.principal
        raise SessionClaimedError(
            holder=held.worker if is_same else f"{held.worker} ({held.principal})",
            worker=held.worker,
            principal=held.principal,
            expires_at=rfc3339(expires_ms),
            retry_after_seconds=max(1, -(-(expires_ms - now_ms) // 1000)),
        )


def _write(
    state: State,
    stream: StreamRecord,
    word: dict[str, Any],
    by: Appender,
    now_ms: int,
    limits: Limits,
    ids: Ids,
    *,
    close: bool = False,
    once: Once | None = None,
) -> tuple[list[Effect], Stored]:
    """Append an event that only the server writes."""
    body = msgspec.json.encode(word)
    draft = Draft(word["type"], body, body[1:], strict=strict.read(word["type"], body))
    terms = Append(b"", JSON, close=close)
    name, check = (None, 0) if once is None else once
    batch = Batch([draft], by.principal, terms, name, check, creates=False, may_judge=by.may_judge)
    return append.place(state, stream, batch, now_ms, limits, ids)
