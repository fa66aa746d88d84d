"""Requests for approval that nobody has decided yet."""

from itertools import zip_longest

import msgspec

from durable_sessions.errors import InvalidEventError, NothingPendingError, TooManyApprovalsError
from durable_sessions.limits import Limits
from durable_sessions.sessions.graph import links
from durable_sessions.sessions.graph.happened import Happened
from durable_sessions.sessions.graph.schemas import ApprovalDecided, ApprovalRequested, Decision


class PendingApproval(msgspec.Struct, omit_defaults=True):
    """A request that waits for a decision; ``about`` is the event that it is about, if it says so."""

    id: str
    question: str
    options: list[Decision]
    blocking: bool
    actor: str
    about: str | None = None


def requested(event: ApprovalRequested, happened: Happened) -> PendingApproval:
    """Return the request that an event makes."""
    # A ref may name its own session; of a ref to another one the server has noted the incarnation.
    noted = [] if happened.imported else links.lives(happened)
    about = next(
        (
            ref.id
            for ref, life in zip_longest(event.refs, noted[: len(event.refs)])
            if ref.rel == "about" and (ref.session is None or (life is None and not happened.imported))
        ),
        None,
    )
    return PendingApproval(happened.id, event.question, event.options, event.blocking, happened.actor, about)


def require_room(pending: list[PendingApproval], limits: Limits) -> None:
    """Refuse a further request if too many wait already."""
    if len(pending) >= limits.approvals_pending_max:
        raise TooManyApprovalsError(approvals_pending_max=limits.approvals_pending_max)


def require_pending(
    pending: list[PendingApproval], event: ApprovalDecided, index: int | None
) -> PendingApproval:
    """Return the request that a decision answers, or refuse the decision."""
    request = next((one for one in pending if one.id == event.request), None)
    if request is None:
        raise NothingPendingError(request=event.request, index=index)
    if event.decision not in request.options:
        raise InvalidEventError(
            problem=f"The decision {event.decision} was not offered; choose from "
            f"{', '.join(request.options)}.",
            index=index,
            member="decision",
        )
    return request
