"""Bodies of requests and answers about keys."""

from typing import Annotated

import msgspec

from durable_sessions.access.caller import ROLES
from durable_sessions.schema_notes import Time, about

_Role = Annotated[str, about(enum=list(ROLES))]


class NewKeyBody(msgspec.Struct, forbid_unknown_fields=True):
    """``POST /v1/keys``."""

    principal: Annotated[
        str,
        about(
            "A name, printable, without space around it.", minLength=1, maxLength="{principal_characters_max}"
        ),
    ]
    role: _Role
    workspace: Annotated[
        str | None, about("The caller's if absent.", pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")
    ] = None
    requests_per_second: Annotated[
        float | None,
        about("No limit if absent.", exclusiveMinimum=0, maximum="{key_requests_per_second_max}"),
    ] = None
    expires_at: Annotated[Time | None, about("When it ends; never if absent. No key outlives its maker.")] = (
        None
    )


class KeyAnswer(msgspec.Struct):
    """A key as it is shown: all but its secret."""

    id: Annotated[str, about("`key_…`")]
    workspace: str
    principal: Annotated[str, about("Who it stands for: the `actor` of events.")]
    role: _Role
    requests_per_second: float | None
    expires_at: Annotated[Time | None, about("From then on it lets nobody in.")]
    created_at: Time
    created_by: str
    last_used_at: Annotated[Time | None, about("Since the server was started.")]
    revoked_at: Time | None
    revoked_by: str | None
    parent: Annotated[
        str | None, about("Of a browser's sign-in, the key that was shown; it ends with that key. Else null.")
    ]


_Everywhere = Annotated[
    bool | msgspec.UnsetType,
    about(
        "Whether all workers of the server know it. One that does not yet will within 15 seconds, or it "
        "refuses everybody. Only there if the server has several workers."
    ),
]


class CreatedKey(KeyAnswer):
    """A key as it is shown to whoever created it, once."""

    secret: Annotated[str, about("Send it as `Authorization: Bearer <secret>`.")]
    everywhere: _Everywhere = msgspec.UNSET


class RevokedKey(KeyAnswer):
    """A key as it is shown to whoever revoked it."""

    everywhere: _Everywhere = msgspec.UNSET


class ActActor(msgspec.Struct):
    """Who did something."""

    workspace: str
    principal: str
    key_id: str | msgspec.UnsetType = msgspec.UNSET


class AuditedAct(msgspec.Struct):
    """An act of the audit record, which is kept as JSON; this describes it only.

    An administrative act, or one that was refused.
    """

    at: Time
    type: Annotated[
        str,
        about(
            "`key.created`, `key.revoked`, `browser.signed_in`, `browser.signed_out`, `flush.requested`, "
            "`act.refused`, `quota.refused`."
        ),
    ]
    workspace: str
    actor: ActActor
    request_id: str | msgspec.UnsetType = msgspec.UNSET
