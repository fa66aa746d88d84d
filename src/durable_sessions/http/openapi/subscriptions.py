"""Subscriptions in the description."""

from durable_sessions.http.openapi.errors import WRITING
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
from durable_sessions.http.openapi.schemas import (
    Schema,
    choice,
    flag,
    free,
    many,
    nullable,
    record,
    ref,
    text,
    time,
    whole,
)
from durable_sessions.limits import Limits

_ROOT = "/v1/stream/__ds/subscriptions/{subscription_id}"
_WRITING = tuple(code for code in WRITING if code != "quota_exceeded")
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
    return Noun(
        "Subscriptions",
        "They wake your workers when streams change: with signed webhooks, or through a wake stream and "
        f"leases. At most {limits.subscriptions_max:,} in a workspace. Codes of refusals are in upper case "
        "here.",
        (*_one(limits), *_wakes(limits), _jwks()),
        _schemas(limits),
    )


def _schemas(limits: Limits) -> dict[str, Schema]:
    most = limits.subscription_text_max
    webhook = record({"url": text("`https`, or `http` on localhost.")}, {"signing": free()})
    lease = whole(
        f"{limits.lease_milliseconds_default:,} if absent.",
        minimum=limits.lease_milliseconds_min,
        maximum=limits.lease_milliseconds_max,
    )
    linked = record({"path": text(), "link_type": text(), "acked_offset": text()})
    return {
        "NewSubscription": record(
            {"type": choice("webhook", "pull-wake")},
            {
                "pattern": nullable(text("A glob: `*` is one segment, `**` any number.", maxLength=most)),
                "streams": nullable(many(text(), maxItems=limits.subscription_streams_max)),
                "webhook": nullable(record({"url": text()})),
                "wake_stream": nullable(text("An ordinary stream that you create; for `pull-wake`.")),
                "lease_ttl_ms": nullable(lease),
                "description": nullable(text(maxLength=most)),
            },
            "`pattern` or `streams`, or both; `webhook` or `wake_stream`, as the type needs.",
        ),
        "Subscription": record(
            {
                "id": text(),
                "subscription_id": text("The same."),
                "type": choice("webhook", "pull-wake"),
                "streams": many(linked),
                "lease_ttl_ms": whole(),
                "created_at": time(),
                "status": choice("active", "failed"),
            },
            {"pattern": text(), "webhook": webhook, "wake_stream": text(), "description": text()},
        ),
        "Hold": record(
            {"wake_id": text(), "generation": {"type": "integer"}},
            {
                "acks": nullable(
                    many(
                        record({"offset": text()}, {"stream": nullable(text()), "path": nullable(text())}),
                        maxItems=limits.subscription_streams_max,
                    )
                ),
                "done": nullable(flag("Give the lease back.")),
            },
            "The wake that is worked on, and how far.",
        ),
        "Held": record({"ok": constant_true(), "next_wake": flag("Whether there is more to do.")}),
    }


def constant_true() -> Schema:
    """Return the schema of what is always true."""
    return {"const": True}


def _id(limits: Limits, example: str) -> Parameter:
    return in_path(
        "subscription_id",
        text(minLength=1, maxLength=limits.subscription_text_max),
        "The subscription, a name of your choice.",
        example,
    )


def _one(limits: Limits) -> tuple[Operation, ...]:
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
                *_WRITING,
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
            refusals=(*_FOUND, *_WRITING),
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
            json_body(record({"streams": many(text(), maxItems=limits.subscription_streams_max)})),
            (*_FOUND, "invalid_path", "too_many_subscriptions", *_WRITING),
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
            refusals=(*_FOUND, "invalid_path", *_WRITING),
            role="writer",
            calls=(Call("", status=204),),
        ),
    )


def _wakes(limits: Limits) -> tuple[Operation, ...]:
    name = _id(limits, "summaries")
    held = ("invalid_path", "token_invalid", "token_expired", "fenced", "invalid_ack", *_FOUND, *_WRITING)
    hold = {"wake_id": "<wake_id>", "generation": 1, "done": True}
    authorized = {"Authorization": "Bearer <token>"}
    claimed = record(
        {
            "wake_id": text(),
            "generation": whole(),
            "token": text("What to send as `Authorization: Bearer <token>` with `ack` and `release`."),
            "streams": many(free("A stream, how far it was acknowledged, and where it ends.")),
            "lease_ttl_ms": whole(),
        }
    )
    body = json_body(ref("Hold"))
    answer = {200: json_answer("Noted.", ref("Held"))}
    return (
        Operation(
            "post",
            _ROOT + "/claim",
            "claimWake",
            "Take the lease",
            {200: json_answer("The work, and a token for it.", claimed)},
            "For `pull-wake`. 409 if another worker has it, or there is nothing to do.",
            (name,),
            json_body(
                record({"worker": text("A name of your choice.", maxLength=limits.subscription_text_max)})
            ),
            (*_FOUND, "already_claimed", "no_pending_work", *_WRITING),
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
