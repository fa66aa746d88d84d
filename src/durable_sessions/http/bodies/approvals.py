"""What people are asked and have decided, in answers."""

from typing import Annotated

import msgspec

from durable_sessions.schema_notes import Time, Whole, about
from durable_sessions.sessions.graph.schemas import Decision


class ApprovalRequestAnswer(msgspec.Struct):
    """What a person is asked."""

    id: Annotated[str, about("The event that asks: a request, or a call that asks by itself.")]
    question: str
    options: Annotated[list[Decision], about("What may be decided.")]
    blocking: Annotated[bool, about("Whether the session takes no work before it is decided.")]
    about: Annotated[str | None, about("The event that it is about.")]
    actor: Annotated[str, about("Who asks.")]


class ApprovalCallAnswer(msgspec.Struct):
    """The call that a person is asked about."""

    id: str
    name: str
    input: Annotated[msgspec.Raw, about("Null if it is longer than {open_call_input_bytes_max:,} bytes.")]
    effect: Annotated[str, about("What it does outside, as the agent has declared; `unknown` if it has not.")]
    position: Whole


class PendingApprovalAnswer(msgspec.Struct):
    """A request that nobody has decided."""

    session: str
    title: str | None
    request: ApprovalRequestAnswer
    call: Annotated[ApprovalCallAnswer | None, about("If it is about a call.")]
    generators: Annotated[list[str], about("The principals that did the session's work, who may not decide.")]
    position: Annotated[Whole, about("Of the event that asks, counted from 0.")]
    asked_at: Time
    waiting_seconds: Annotated[float, about("Since when, by the clock of the server.")]


class DecisionAnswer(msgspec.Struct):
    """What was decided."""

    id: Annotated[str, about("The event that says it.")]
    decision: str
    reason: str
    actor: Annotated[str, about("Who has decided.")]


class DecidedRequestAnswer(msgspec.Struct):
    """What was decided on."""

    id: str


class DecidedApprovalAnswer(msgspec.Struct):
    """A decision."""

    session: str
    title: str | None
    request: DecidedRequestAnswer
    decision: DecisionAnswer
    position: Annotated[Whole, about("Of the decision, counted from 0.")]
    decided_at: Time


class ApprovalsAnswer(msgspec.Struct):
    """A page of what waits for a person, or of what was decided."""

    data: list[PendingApprovalAnswer | DecidedApprovalAnswer]
    next_page: Annotated[str | None, about("What to send as `page` for the next page.")]
    up_to_date: Annotated[bool, about("Whether all acknowledged events were looked at.")]
