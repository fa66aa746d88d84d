"""Bodies of signing in with a browser, and of who a caller is."""

from typing import Annotated

import msgspec

from durable_sessions.access.caller import ROLES
from durable_sessions.schema_notes import about


class SignInBody(msgspec.Struct, forbid_unknown_fields=True):
    """``POST /v1/login``."""

    key: Annotated[str, about("The secret of a key.")]


class WhoAnswer(msgspec.Struct):
    """Who a caller is, and what that allows."""

    workspace: str
    principal: Annotated[str, about("Who the key stands for; `local` where no keys are needed.")]
    role: Annotated[str, about(enum=list(ROLES))]
    key_id: str | None
    via: Annotated[str, about("How the caller is known.", enum=["key", "browser", "local"])]
    keys_required: bool
    operator: Annotated[bool, about("Whether the caller manages the whole server.")]
    may: Annotated[
        list[str],
        about("What the role allows, of `read`, `append`, `judge`, `admin`, `redact`, `operate`."),
    ]
    version: Annotated[str, about("The version of the server.")]
