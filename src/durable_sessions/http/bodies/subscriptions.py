"""Bodies of requests and answers about subscriptions."""

from typing import Annotated, Any, Literal

import msgspec

from durable_sessions.schema_notes import Time, Whole, about
from durable_sessions.streams.subscriptions import Kind

_Text = Annotated[str, about(maxLength="{subscription_text_max}")]


class WebhookBody(msgspec.Struct):
    """Where a webhook subscription is delivered to."""

    url: str


class SubscribeBody(msgspec.Struct):
    """``PUT subscriptions/:id``.

    `pattern` or `streams`, or both; `webhook` or `wake_stream`, as the type needs.
    """

    type: Kind
    pattern: Annotated[_Text | None, about("A glob: `*` is one segment, `**` any number.")] = None
    streams: Annotated[list[str] | None, about(maxItems="{subscription_streams_max}")] = None
    webhook: WebhookBody | None = None
    wake_stream: Annotated[str | None, about("An ordinary stream that you create; for `pull-wake`.")] = None
    lease_ttl_ms: Annotated[
        int | None,
        about(
            "{lease_milliseconds_default:,} if absent.",
            minimum="{lease_milliseconds_min}",
            maximum="{lease_milliseconds_max}",
        ),
    ] = None
    description: _Text | None = None


class StreamsBody(msgspec.Struct):
    """``POST subscriptions/:id/streams``."""

    streams: Annotated[list[str], about(maxItems="{subscription_streams_max}")]


class AckBody(msgspec.Struct):
    """One stream's progress; ``stream`` and ``path`` mean the same."""

    offset: str
    stream: str | None = None
    path: str | None = None


class HoldBody(msgspec.Struct):
    """``callback``, ``ack`` and ``release``.

    The wake that is worked on, and how far.
    """

    wake_id: str
    generation: int
    acks: Annotated[list[AckBody] | None, about(maxItems="{subscription_streams_max}")] = None
    done: Annotated[bool | None, about("Give the lease back.")] = None


class ClaimBody(msgspec.Struct):
    """``claim``: who wants the work."""

    worker: Annotated[_Text, about("A name of your choice.")]


class ShownWebhook(msgspec.Struct):
    """Where a subscription is delivered to, and how deliveries are signed."""

    url: Annotated[str, about("`https`, or `http` on localhost.")]
    signing: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class ShownLink(msgspec.Struct):
    """A stream that a subscription watches."""

    path: str
    link_type: str
    acked_offset: str


class ShownSubscription(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A subscription as it is shown."""

    id: str
    subscription_id: Annotated[str, about("The same.")]
    type: Kind
    pattern: str | None = None
    streams: list[ShownLink]
    webhook: ShownWebhook | None = None
    wake_stream: str | None = None
    lease_ttl_ms: Whole
    created_at: Time
    status: Literal["active", "failed"]
    description: str | None = None


class ClaimAnswer(msgspec.Struct):
    """A lease that was taken."""

    wake_id: str
    generation: Whole
    token: Annotated[str, about("What to send as `Authorization: Bearer <token>` with `ack` and `release`.")]
    streams: list[
        Annotated[
            Any,
            about(
                "A stream, how far it was acknowledged, and where it ends.",
                type="object",
                additionalProperties=True,
            ),
        ]
    ]
    lease_ttl_ms: Whole


class Held(msgspec.Struct):
    """What was acknowledged is noted."""

    ok: Annotated[bool, about(const=True)]
    next_wake: Annotated[bool, about("Whether there is more to do.")]
