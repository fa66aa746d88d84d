"""Subscriptions: their operations and schemas."""

from durable_sessions.http.bodies.subscriptions import (
    ClaimAnswer,
    ClaimBody,
    Held,
    HoldBody,
    ShownSubscription,
    StreamsBody,
    SubscribeBody,
)
from durable_sessions.http.openapi.error_groups import WRITING_UNMETERED
from durable_sessions.http.openapi.parts import (
    Answer,
    Noun,
    Operation,
    in_path,
    json_answer,
    json_body,
    no_content,
)
from durable_sessions.http.openapi.request_headers import AUTHORIZATION
from durable_sessions.http.openapi.schemas import free, many, record, ref, text
from durable_sessions.http.openapi.struct_schemas import schema_of

_ROOT = "/v1/stream/__ds/subscriptions/{subscription_id}"
_SHOWN = json_answer("The subscription.", ref("Subscription"))
_FOUND = ("subscription_not_found",)
_HELD = ("invalid_path", "fenced", "invalid_ack", *_FOUND)
_NOTED = {200: json_answer("Noted.", ref("Held"))}
_HOLD = json_body(ref("Hold"))

NOUN = Noun(
    "Subscriptions",
    "They wake your workers when streams change: with signed webhooks, or through a wake stream and leases. "
    "At most {subscriptions_max:,} in a workspace. Codes of refusals are in upper case here.",
    (
        Operation(
            f"putSubscription: PUT {_ROOT}",
            "Subscribe, or confirm it. Streams that exist are linked at their end, so that nothing old is "
            "replayed; one that appears later is linked before its first record. 409 if there is one with "
            "another configuration.",
            {201: json_answer("Created.", ref("Subscription")), 200: _SHOWN},
            body=json_body(ref("NewSubscription")),
            errors=(
                "invalid_path",
                "webhook_url_rejected",
                "subscription_already_exists",
                "too_many_subscriptions",
            ),
            gives={"subscription_id": "$request.path.subscription_id"},
        ),
        Operation(
            f"getSubscription: GET {_ROOT}", "Read a subscription.", {200: _SHOWN}, errors=_FOUND, head=True
        ),
        Operation(
            f"deleteSubscription: DELETE {_ROOT}",
            "Unsubscribe.",
            no_content("Gone, or never there."),
            errors=_FOUND,
        ),
        Operation(
            f"linkStreams: POST {_ROOT}/streams",
            "Add streams.",
            no_content("Linked."),
            body=json_body(StreamsBody),
            errors=("invalid_path", "too_many_subscriptions", *_FOUND),
        ),
        Operation(
            f"unlinkStream: DELETE {_ROOT}/streams/{{path}}",
            "Remove a stream.",
            no_content("Not linked any more."),
            parameters=(
                in_path("path", text(minLength=1), "The stream's path.", "audit/log", "invalid_path"),
            ),
            errors=_FOUND,
        ),
        Operation(
            f"claimWake: POST {_ROOT}/claim",
            "Take the lease. For `pull-wake`. 409 if another worker has it, or there is nothing to do.",
            {200: json_answer("The work, and a token for it.", ClaimAnswer)},
            body=json_body(ClaimBody),
            errors=("already_claimed", "no_pending_work", *_FOUND),
        ),
        Operation(
            f"ackWake: POST {_ROOT}/ack",
            "Acknowledge, and keep or end the lease. For `pull-wake`.",
            _NOTED,
            (AUTHORIZATION,),
            _HOLD,
            _HELD,
            role=None,
        ),
        Operation(
            f"releaseWake: POST {_ROOT}/release",
            "Give the lease back. For `pull-wake`; nothing is acknowledged.",
            no_content("Given back."),
            (AUTHORIZATION,),
            _HOLD,
            _HELD,
            role=None,
        ),
        Operation(
            f"callbackWake: POST {_ROOT}/callback",
            "Acknowledge a webhook, extend its lease, or finish. For `webhook`, which brings the token.",
            _NOTED,
            (AUTHORIZATION,),
            _HOLD,
            _HELD,
            role=None,
        ),
        Operation(
            "getSigningKeys: GET /v1/stream/__ds/jwks.json",
            "The public key of webhook signatures. `Webhook-Signature: "
            "t=<seconds>,kid=<key>,ed25519=<base64url>` signs `<t>.<raw body>`.",
            {
                200: Answer(
                    "A JSON Web Key Set.", {"application/jwk-set+json": record({"keys": many(free())})}
                )
            },
            role=None,
            head=True,
        ),
    ),
    {
        "NewSubscription": schema_of(SubscribeBody),
        "Subscription": schema_of(ShownSubscription),
        "Hold": schema_of(HoldBody),
        "Held": schema_of(Held),
    },
    writing=WRITING_UNMETERED,
)
