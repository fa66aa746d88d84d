"""Subscriptions in the description."""

from durable_sessions.http.bodies.subscriptions import (
    ClaimAnswer,
    ClaimBody,
    Held,
    HoldBody,
    ShownSubscription,
    StreamsBody,
    SubscribeBody,
)
from durable_sessions.http.openapi.errors import WRITING_UNMETERED
from durable_sessions.http.openapi.parts import (
    Answer,
    Call,
    Noun,
    Operation,
    Parameter,
    in_header,
    in_path,
    json_answer,
    json_body,
)
from durable_sessions.http.openapi.schemas import free, many, record, ref, text
from durable_sessions.http.openapi.struct_schemas import StructSchemas
from durable_sessions.limits import Limits

_ROOT = "/v1/stream/__ds/subscriptions/{subscription_id}"
_FOUND = ("invalid_request", "subscription_not_found")
_TOKEN = in_header(
    "Authorization",
    text(),
    "`Bearer <token>`: the token that came with the wake. It is enough; no key is needed.",
    "Bearer <token>",
    required=True,
)


def noun(limits: Limits) -> Noun:
    """Return the description of subscriptions."""
    schemas = StructSchemas(limits)
    return Noun(
        "Subscriptions",
        "They wake your workers when streams change: with signed webhooks, or through a wake stream and "
        f"leases. At most {limits.subscriptions_max:,} in a workspace. Codes of refusals are in upper case "
        "here.",
        (*_one(limits, schemas), *_wakes(limits, schemas), _jwks()),
        {
            "NewSubscription": schemas.of(SubscribeBody),
            "Subscription": schemas.of(ShownSubscription),
            "Hold": schemas.of(HoldBody),
            "Held": schemas.of(Held),
        },
    )


def _id(limits: Limits, example: str) -> Parameter:
    return in_path(
        "subscription_id",
        text(minLength=1, maxLength=limits.subscription_text_max),
        "The subscription, a name of your choice.",
        example,
    )


def _one(limits: Limits, schemas: StructSchemas) -> tuple[Operation, ...]:
    name = _id(limits, "summaries")
    shown = json_answer("The subscription.", ref("Subscription"))
    return (
        Operation(
            "put",
            _ROOT,
            "putSubscription",
            "Subscribe, or confirm it",
            {201: json_answer("Created.", ref("Subscription")), 200: shown},
            "Streams that exist are linked at their end, so that nothing old is replayed; one that appears "
            "later is linked before its first record. 409 if there is one with another configuration.",
            (name,),
            json_body(ref("NewSubscription")),
            (
                "invalid_request",
                "invalid_path",
                "webhook_url_rejected",
                "subscription_already_exists",
                "too_many_subscriptions",
                *WRITING_UNMETERED,
            ),
            "writer",
            (
                Call(
                    "Workers that pull",
                    body={"type": "pull-wake", "pattern": "agents/*", "wake_stream": "wakes/summaries"},
                    status=200,
                ),
            ),
            gives={"subscription_id": "$request.path.subscription_id"},
        ),
        Operation(
            "get",
            _ROOT,
            "getSubscription",
            "Read a subscription",
            {200: shown},
            "",
            (name,),
            refusals=_FOUND,
            head=True,
        ),
        Operation(
            "delete",
            _ROOT,
            "deleteSubscription",
            "Unsubscribe",
            {204: Answer("Gone, or never there.")},
            "",
            (name,),
            refusals=(*_FOUND, *WRITING_UNMETERED),
            role="writer",
            calls=(Call("", status=204),),
        ),
        Operation(
            "post",
            _ROOT + "/streams",
            "linkStreams",
            "Add streams",
            {204: Answer("Linked.")},
            "",
            (name,),
            json_body(schemas.of(StreamsBody)),
            (*_FOUND, "invalid_path", "too_many_subscriptions", *WRITING_UNMETERED),
            "writer",
            (Call("One more", body={"streams": ["audit/log"]}, status=204),),
        ),
        Operation(
            "delete",
            _ROOT + "/streams/{path}",
            "unlinkStream",
            "Remove a stream",
            {204: Answer("Not linked any more.")},
            "",
            (name, in_path("path", text(minLength=1), "The stream's path.", "audit/log")),
            refusals=(*_FOUND, "invalid_path", *WRITING_UNMETERED),
            role="writer",
            calls=(Call("", status=204),),
        ),
    )


def _wakes(limits: Limits, schemas: StructSchemas) -> tuple[Operation, ...]:
    name = _id(limits, "summaries")
    tokens = ("token_invalid", "token_expired", "fenced", "invalid_ack")
    held = ("invalid_path", *tokens, *_FOUND, *WRITING_UNMETERED)
    hold = {"wake_id": "<wake_id>", "generation": 1, "done": True}
    authorized = {"Authorization": "Bearer <token>"}
    body = json_body(ref("Hold"))
    answer = {200: json_answer("Noted.", ref("Held"))}
    return (
        Operation(
            "post",
            _ROOT + "/claim",
            "claimWake",
            "Take the lease",
            {200: json_answer("The work, and a token for it.", schemas.of(ClaimAnswer))},
            "For `pull-wake`. 409 if another worker has it, or there is nothing to do.",
            (name,),
            json_body(schemas.of(ClaimBody)),
            (*_FOUND, "already_claimed", "no_pending_work", *WRITING_UNMETERED),
            "writer",
            (Call("", body={"worker": "worker-7"}),),
        ),
        Operation(
            "post",
            _ROOT + "/ack",
            "ackWake",
            "Acknowledge, and keep or end the lease",
            answer,
            "For `pull-wake`.",
            (name, _TOKEN),
            body,
            held,
            None,
            (Call("Done", {}, authorized, hold),),
        ),
        Operation(
            "post",
            _ROOT + "/release",
            "releaseWake",
            "Give the lease back",
            {204: Answer("Given back.")},
            "For `pull-wake`; nothing is acknowledged.",
            (name, _TOKEN),
            body,
            held,
            None,
            (Call("", {}, authorized, hold, status=204),),
        ),
        Operation(
            "post",
            _ROOT + "/callback",
            "callbackWake",
            "Acknowledge a webhook, extend its lease, or finish",
            answer,
            "For `webhook`, which brings the token.",
            (name, _TOKEN),
            body,
            held,
            None,
            (),
        ),
    )


def _jwks() -> Operation:
    return Operation(
        "get",
        "/v1/stream/__ds/jwks.json",
        "getSigningKeys",
        "The public key of webhook signatures",
        {200: Answer("A JSON Web Key Set.", {"application/jwk-set+json": record({"keys": many(free())})})},
        "`Webhook-Signature: t=<seconds>,kid=<key>,ed25519=<base64url>` signs `<t>.<raw body>`.",
        role=None,
        head=True,
    )
