"""Bodies of requests that create or change a session."""

from typing import Annotated

import msgspec

from durable_sessions.limits import Limits
from durable_sessions.schema_notes import about, ref
from durable_sessions.sessions.graph.schemas import Feature, Text
from durable_sessions.sessions.record import NULL

_LIMITS = Limits()
_Title = Annotated[str, msgspec.Meta(max_length=1_000)]
_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class SessionBody(msgspec.Struct):
    """What a client may say when it creates a session; everything is optional."""

    id: Annotated[str | None, about("`sesn_…` if absent.")] = None
    agent: Annotated[
        msgspec.Raw,
        about("An agent's id, or an object with `id` and perhaps `version`, `model`, `system`, `tools` …"),
    ] = NULL
    environment_id: _Id | None = None
    title: _Title | None = None
    metadata: Annotated[
        dict[str, msgspec.Raw] | None,
        about("Pairs of your own. In Anthropic's dialect at most 16, values are texts."),
    ] = None
    initial_events: Annotated[
        msgspec.Raw,
        about(
            "What the session begins with.",
            type=["array", "null"],
            items=ref("NewEvent"),
            maxItems="{events_per_request_max}",
        ),
    ] = NULL
    budget: Annotated[
        msgspec.Raw,
        about(
            "Managed Agents' `{type: limit, max_list_cost}`, or natively limits, each a number above 0 "
            "(null lifts one that a fork inherits): `tokens`, `usd`, `seconds`, "
            "`tool_calls`, `consecutive_errors`, `repeated_calls`."
        ),
    ] = NULL
    resources: list[Annotated[dict[str, msgspec.Raw], about(**ref("NewResource"))]] | None = None
    vault_ids: list[_Id] | None = None


class UpdateBody(msgspec.Struct):
    """What a client may change; what is absent stays as it is."""

    title: _Title | msgspec.UnsetType | None = msgspec.UNSET
    metadata: Annotated[
        dict[str, msgspec.Raw] | msgspec.UnsetType | None,
        about("A patch: null deletes a key, what is absent stays."),
    ] = msgspec.UNSET
    agent: Annotated[
        dict[str, msgspec.Raw] | msgspec.UnsetType,
        about("Only `tools` and `mcp_servers` can be replaced."),
    ] = msgspec.UNSET
    budget: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    vault_ids: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class NewOutcome(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The done-condition of a new session."""

    features: Annotated[list[Feature], msgspec.Meta(min_length=1, max_length=_LIMITS.features_max)]
    description: Text | None = None


class NativeSessionBody(SessionBody, forbid_unknown_fields=True):
    """The native dialect, in which an unknown member is refused as a typo.

    Everything is optional. Together at most {session_document_bytes_max:,} bytes (413). Other members are
    refused; in Anthropic's dialect they are ignored. A native budget, the outcome and the goal become the
    first events, in this order.
    """

    goal: Annotated[Text | None, about("What the session is for; becomes a `ds.fact`.")] = None
    outcome: Annotated[
        NewOutcome | None, about("When it is done: features that judges must pass; a `ds.outcome.defined`.")
    ] = None


class NativeUpdateBody(UpdateBody, forbid_unknown_fields=True):
    """The native dialect, in which an unknown member is refused as a typo.

    What is absent stays as it is. Other members are refused; in Anthropic's dialect they are ignored.
    """
