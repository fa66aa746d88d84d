"""What control shows of a session: stops, lease and route."""

import msgspec

from durable_sessions.schema_notes import Time
from durable_sessions.sessions.graph.control import Control
from durable_sessions.sessions.graph.lease import Lease
from durable_sessions.sessions.graph.schemas import See
from durable_sessions.times import rfc3339


class ShownStop(msgspec.Struct):
    """Why the session takes no work now."""

    kind: str
    id: str


class ShownLease(msgspec.Struct):
    """Whose turn it is."""

    epoch: int
    worker: str
    principal: str
    seconds: int
    exclusive: bool
    expires_at: Time


class ShownRoute(msgspec.Struct):
    """Who gets the session next."""

    to: str
    reason: str
    needs: list[str]
    see: See | None
    id: str
    open: bool


def stops(control: Control) -> list[ShownStop]:
    """Return why a session takes no work now."""
    return [ShownStop(stop.kind, stop.id) for stop in control.core.stops]


def lease(lease: Lease | None, renewed_ms: int | None) -> ShownLease | None:
    """Return whose turn it is; the time of the lease runs from its last renewal, or from its claim."""
    if lease is None or lease.released:
        return None
    since_ms = lease.claimed_ms if renewed_ms is None else renewed_ms
    return ShownLease(
        lease.epoch,
        lease.worker,
        lease.principal,
        lease.seconds,
        lease.exclusive,
        rfc3339(since_ms + lease.seconds * 1000),
    )


def route(control: Control) -> ShownRoute | None:
    """Return who gets the session next."""
    said = control.core.route
    if said is None:
        return None
    is_open = not said.needs or (control.outcome is not None and not control.outcome.failing(said.needs))
    return ShownRoute(said.to, said.reason, said.needs, said.see, said.id, is_open)
