"""Keys and the audit record in the description."""

from durable_sessions.http.bodies.keys import AuditedAct, CreatedKey, KeyAnswer, NewKeyBody
from durable_sessions.http.openapi.common import PAGE, page_limit
from durable_sessions.http.openapi.errors import READING, WRITING_UNMETERED
from durable_sessions.http.openapi.parts import (
    Call,
    Noun,
    Operation,
    Parameter,
    in_path,
    in_query,
    json_answer,
    json_body,
)
from durable_sessions.http.openapi.schemas import choice, page, ref, text
from durable_sessions.http.openapi.struct_schemas import StructSchemas
from durable_sessions.limits import Limits

ORDER = in_query("order", choice("asc", "desc"), "`desc` if absent.", "asc", default="desc")


def limit(limits: Limits) -> Parameter:
    """Return how many keys or acts a page may have."""
    return page_limit(100, limits.page_items_max)


def noun(limits: Limits) -> Noun:
    """Return the description of keys and the audit record."""
    schemas = StructSchemas(limits)
    return Noun(
        "Keys and audit",
        "A key belongs to one workspace and has a principal and a role: a **reader** reads; a **writer** "
        "also creates, appends, changes and deletes; an **evaluator** is a writer whose judgement counts; an "
        "**admin** also manages keys. Secrets are shown once and kept as hashes. Without any key the server "
        "answers on loopback only, and whoever reaches it may do everything; the first key must be an "
        "admin's. Web pages of other origins cannot use this.",
        (*_operations(limits, schemas), _audit(limits)),
        {
            "Key": schemas.of(KeyAnswer),
            "NewKey": schemas.of(NewKeyBody),
            "Act": schemas.of(AuditedAct, open_ended=True),
        },
        preflight=False,
    )


def _operations(limits: Limits, schemas: StructSchemas) -> tuple[Operation, ...]:
    return (
        Operation(
            "post",
            "/v1/keys",
            "createKey",
            "Create a key",
            {
                201: json_answer(
                    "The key, with its secret: nobody can be told it again.",
                    schemas.of(CreatedKey),
                )
            },
            "The first key of a server is made by `durable-sessions keys create` on its machine, "
            "which shows that it can read the data directory.",
            (),
            json_body(ref("NewKey")),
            (
                "invalid_json",
                "invalid_key",
                "too_many_keys",
                "keys_too_fast",
                "first_key_refused",
                *WRITING_UNMETERED,
            ),
            "admin",
            (
                Call(
                    "A writer that may send fifty requests per second",
                    body={"principal": "build-agent", "role": "writer", "requests_per_second": 50},
                    status=201,
                ),
            ),
            gives={"key_id": "$response.body#/id"},
        ),
        Operation(
            "get",
            "/v1/keys",
            "listKeys",
            "List keys",
            {200: json_answer("A page of keys, oldest first, revoked ones included.", page(ref("Key")))},
            "Those of the caller's workspace; admins of the home workspace see all.",
            (limit(limits), PAGE),
            refusals=("invalid_request",),
            role="admin",
            head=True,
        ),
        Operation(
            "delete",
            "/v1/keys/{key_id}",
            "revokeKey",
            "Revoke a key",
            {
                200: json_answer(
                    "Revoked: it lets nobody in from this moment on, and ends open streams.", ref("Key")
                )
            },
            "To do it again changes nothing.",
            (in_path("key_id", text(), "The id of the key, not its secret.", "key_01"),),
            refusals=("key_not_found", "route_not_found", *WRITING_UNMETERED),
            role="admin",
        ),
    )


def _audit(limits: Limits) -> Operation:
    return Operation(
        "get",
        "/v1/audit",
        "readAudit",
        "Read the audit record",
        {200: json_answer("A page of acts, newest first.", page(ref("Act")))},
        "What was done to keys and the server, and what was refused, in the caller's workspace.",
        (
            limit(limits),
            PAGE,
            ORDER,
        ),
        refusals=("invalid_request", "partition_stopped", *READING),
        role="admin",
        head=True,
    )
