"""The session object: the members that clients are shown, and what each means."""

from typing import Annotated, Any, Literal

import msgspec

from durable_sessions.schema_notes import Offset, Time, Whole, about, ref
from durable_sessions.sessions.graph.shown_control import ShownLease, ShownRoute, ShownStop
from durable_sessions.sessions.record import ForkedFrom
from durable_sessions.sessions.summary import STATUSES

LIFECYCLES = ("open", "active", "paused", "resumed", "closed", "archived")


class CacheCreation(msgspec.Struct):
    """Tokens that were written to a prompt cache, by how long it keeps them."""

    ephemeral_5m_input_tokens: Whole
    ephemeral_1h_input_tokens: Whole


class SessionUsage(msgspec.Struct):
    """Tokens of a session.

    Sums of all `span.model_request_end` events.
    """

    input_tokens: Whole
    output_tokens: Whole
    cache_read_input_tokens: Whole
    cache_creation: CacheCreation


class SessionStats(msgspec.Struct):
    """Durations of a session.

    How long the session was running, and how long it has been there.
    """

    active_seconds: float
    duration_seconds: float


class OutcomeEvaluation(msgspec.Struct):
    """One outcome that was asked for, and how its evaluation stands."""

    type: Literal["outcome_evaluation"]
    outcome_id: str
    description: str
    result: str
    iteration: Whole
    completed_at: Time | None
    explanation: str | None


class SessionCounts(msgspec.Struct):
    """What a session's outline counts."""

    prompts: Whole
    tool_calls: Whole
    failed: Whole
    first_at: Time
    last_at: Time


class SessionObject(msgspec.Struct, kw_only=True):
    """A session as it is shown: Anthropic's object, complete, and what we know beyond it.

    A session: what was said of it, and what follows from its events.
    """

    id: str
    type: Literal["session"]
    agent: Annotated[msgspec.Raw, about(**ref("AgentSnapshot"))]
    environment_id: str
    status: Annotated[str, about("Follows the last `session.status_*` event.", enum=list(STATUSES))]
    title: str | None
    metadata: Annotated[dict[str, msgspec.Raw], about("Your own pairs.")]
    created_at: Time
    updated_at: Time
    imported: Annotated[
        bool, about("Whether it was imported or copied: its events happened elsewhere, or earlier.")
    ]
    started_at: Annotated[
        Time, about("When its first event happened if it was imported with times, else `created_at`.")
    ]
    last_activity_at: Annotated[
        Time, about("When its last event happened if it was imported with times, else `updated_at`.")
    ]
    archived_at: Time | None
    budget: Annotated[msgspec.Raw, about("As it was given, or null.")]
    resources: list[Annotated[msgspec.Raw, about(**ref("Resource"))]]
    vault_ids: list[str]
    outcome_evaluations: list[OutcomeEvaluation]
    stats: SessionStats
    usage: SessionUsage
    next_offset: Offset
    event_count: Annotated[Whole, about("How many events it has.")]
    bytes: Annotated[Whole, about("How large they are together.")]
    lifecycle: Annotated[
        str,
        about(
            "open: nothing was done yet; active; paused: stopped, or idle and waiting for you; resumed: "
            "active again; closed: no more events; archived: read-only for ever.",
            enum=list(LIFECYCLES),
        ),
    ]
    incarnation: Annotated[
        str, about("Tells the session from others that had its id; never changes while it lives.")
    ]
    done: Annotated[bool | None, about("Whether all features of its outcome pass; null without one.")]
    lease: Annotated[ShownLease | None, about("Whose turn it is.")]
    route: Annotated[ShownRoute | None, about("Who gets it next.")]
    stops: Annotated[list[ShownStop], about("Why it takes no work now.")]
    ttl_seconds: Annotated[
        Whole | msgspec.UnsetType, about("Only with a TTL: how long it lives after it was last used.")
    ] = msgspec.UNSET
    expires_at: Annotated[Time | msgspec.UnsetType, about("Only with an expiry: when it ends.")] = (
        msgspec.UNSET
    )
    forked_from: Annotated[ForkedFrom | msgspec.UnsetType, about("Only of a fork.")] = msgspec.UNSET
    initial_events: Literal["ignored"] | msgspec.UnsetType = msgspec.UNSET
    slots: Annotated[
        dict[str, Any] | msgspec.UnsetType,
        about("Only in lists with `show`: by the name of a slot the event that holds it, null for none."),
    ] = msgspec.UNSET
    counts: Annotated[
        SessionCounts | msgspec.UnsetType | None,
        about("Only in lists with `counts=true`; null if its outline is not there."),
    ] = msgspec.UNSET
