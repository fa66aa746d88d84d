"""Whose turn it is: the lease that a worker holds, and what it fences."""

from collections.abc import Iterable

import msgspec

from durable_sessions.errors import LeaseLostError, LeaseRequiredError

EVALUATION_SPANS = "span.outcome_evaluation_"


class Lease(msgspec.Struct, omit_defaults=True):
    """One claim of the session; it ends when a later one is made or its holder releases it.

    Its time is not here: an expired lease that nobody took is still its holder's.
    """

    epoch: int
    worker: str
    principal: str
    seconds: int
    exclusive: bool
    claimed_ms: int
    released: bool = False


def is_work(kind: str) -> bool:
    """Say whether events of a type are a worker's, so that leases and stops concern them."""
    return kind.startswith("agent.") or (kind.startswith("span.") and not kind.startswith(EVALUATION_SPANS))


def allows(lease: Lease | None, kind: str, epoch: int | None, principal: str) -> bool:
    """Say whether the lease allows an event; ``epoch`` is the one that the worker stated."""
    if epoch is not None:
        is_held = lease is not None and not lease.released
        return lease is not None and is_held and lease.epoch == epoch and lease.principal == principal
    return lease is None or lease.released or not lease.exclusive or not is_work(kind)


def lost(lease: Lease | None, epoch: int, current: int, principal: str) -> LeaseLostError:
    """Return why an epoch is not the lease of this principal; ``current`` is the session's epoch."""
    if lease is None or lease.epoch != epoch:
        why = f"over: the session's epoch is {current}"
    elif lease.released:
        why = "over: it was released"
    else:
        why = f"that of {lease.principal}, and {principal} is somebody else"
    return LeaseLostError(epoch=epoch, why=why)


def require(lease: Lease | None, kinds: Iterable[str], epoch: int | None, principal: str) -> None:
    """Refuse an append that the lease does not allow; ``epoch`` is the one that the worker stated."""
    if epoch is not None:
        if not allows(lease, "", epoch, principal):
            raise lost(lease, epoch, 0 if lease is None else lease.epoch, principal)
        return
    for kind in kinds:
        if lease is not None and not allows(lease, kind, None, principal):
            raise LeaseRequiredError(kind=kind, worker=lease.worker, epoch=lease.epoch)
