"""Bodies of requests and answers about the work on a session."""

from typing import Annotated

import msgspec

from durable_sessions.limits import Limits
from durable_sessions.schema_notes import Offset, Time, Whole, about
from durable_sessions.sessions.graph.adoption import OnConflict
from durable_sessions.sessions.graph.schemas import EndOutcome, Text
from durable_sessions.sessions.graph.state import SessionState

_LIMITS = Limits()
_Worker = Annotated[str, msgspec.Meta(min_length=1, max_length=_LIMITS.graph_name_max)]
_Epoch = Annotated[int, msgspec.Meta(ge=1)]


class WakeBody(msgspec.Struct, forbid_unknown_fields=True):
    """A request for the session."""

    worker: Annotated[_Worker | None, about("Which worker; the principal if absent.")] = None
    seconds: Annotated[int, msgspec.Meta(ge=_LIMITS.lease_seconds_min, le=_LIMITS.lease_seconds_max)] = 60
    exclusive: Annotated[bool, about("Whether others may not work meanwhile.")] = True
    force: Annotated[bool, about("Takes the session from whoever holds it; for evaluators.")] = False


class RenewBody(msgspec.Struct, forbid_unknown_fields=True):
    """A sign of life of a worker."""

    epoch: _Epoch
    last: Annotated[
        str | msgspec.UnsetType | None,
        about(
            "The `renewed_at` of the last renewal that this worker was answered, null before the first: 412 "
            "if there was another one. Not compared if absent, or if the server has started since."
        ),
    ] = msgspec.UNSET


class ReleaseBody(msgspec.Struct, forbid_unknown_fields=True):
    """A worker gives the session back."""

    epoch: _Epoch
    reason: Text | None = None


class CloseBody(msgspec.Struct, forbid_unknown_fields=True):
    """How the work ended."""

    outcome: EndOutcome
    reason: Text | None = None


class AdoptBody(msgspec.Struct, forbid_unknown_fields=True):
    """A branch whose findings are taken over."""

    session: Annotated[str, about("The branch: a fork of this session, or of a fork of it.")]
    at: Annotated[
        Annotated[int, msgspec.Meta(ge=0)] | Offset | None,
        about("As of this position of the branch, or offset."),
    ] = None
    on_conflict: Annotated[
        OnConflict, about("Whose value counts if both sides have changed a fact; `theirs` is the branch's.")
    ] = "refuse"


class AdoptedBranch(msgspec.Struct):
    """What was taken over."""

    event: Annotated[msgspec.Raw, about("The `ds.adopted` as it is stored.")]


class UnfinishedCall(msgspec.Struct):
    """A tool call without a result, and what to do with it."""

    id: str
    name: str
    input: msgspec.Raw
    effect: str
    idempotency_key: str | None
    offset: Offset
    advice: Annotated[str, about("`retry` if that is harmless, else `ask`.", enum=["retry", "ask"])]


class WokenSession(msgspec.Struct):
    """The lease, and everything that a worker needs to go on."""

    session: str
    epoch: Annotated[Whole, about("Send it as `Session-Epoch` with every append.")]
    worker: str
    principal: str
    seconds: Whole
    exclusive: bool
    expires_at: Time
    offset: Annotated[Offset, about("The end, behind the claim.")]
    state: SessionState
    unfinished: list[UnfinishedCall]
    handoff: Annotated[msgspec.Raw, about("The last checkpoint, or null.")]


class RenewedLease(msgspec.Struct):
    """A lease with its full time again."""

    epoch: Whole
    expires_at: Time
    renewed_at: Annotated[Time, about("No other renewal of this claim has this time.")]


class ReleasedLease(msgspec.Struct):
    """A lease that is over."""

    epoch: Whole
    offset: Offset


class HandoffFiles(msgspec.Struct):
    """The files that a session hands over, by name."""

    session: str
    offset: Offset
    files: dict[str, str]
