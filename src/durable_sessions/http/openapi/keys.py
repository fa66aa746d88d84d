"""Keys and the audit record: their operations and schemas."""

from durable_sessions.http.bodies.keys import AuditedAct, CreatedKey, KeyAnswer, NewKeyBody, RevokedKey
from durable_sessions.http.openapi.common import PAGE
from durable_sessions.http.openapi.error_groups import READING, WRITING_UNMETERED
from durable_sessions.http.openapi.parts import Noun, Operation, in_query, json_answer, json_body
from durable_sessions.http.openapi.schemas import choice, page, ref, whole
from durable_sessions.http.openapi.struct_schemas import schema_of

ORDER = in_query("order", choice("asc", "desc"), "`desc` if absent.", "asc", default="desc")
LIMIT = in_query(
    "limit",
    whole(minimum=1, maximum="{page_items_max}"),
    "Items on a page, 1 to {page_items_max:,}; 100 if absent.",
    10,
    default=100,
)

NOUN = Noun(
    "Keys and audit",
    "A key belongs to one workspace and has a principal and a role: a **reader** reads; a **writer** also "
    "creates, appends, changes and deletes; an **evaluator** is a writer whose judgement counts; an "
    "**admin** also manages keys. Secrets are shown once and kept as hashes. Without any key the server "
    "answers on loopback only, and whoever reaches it may do everything; the first key must be an admin's. "
    "Web pages of other origins cannot use this.",
    (
        Operation(
            "createKey: POST /v1/keys",
            "Create a key. The first key of a server is made by `durable-sessions keys create` on its "
            "machine, which shows that it can read the data directory.",
            {201: json_answer("The key, with its secret: nobody can be told it again.", CreatedKey)},
            body=json_body(ref("NewKey")),
            errors=("invalid_key", "too_many_keys", "keys_too_fast", "first_key_refused"),
            role="admin",
            gives={"key_id": "$response.body#/id"},
        ),
        Operation(
            "listKeys: GET /v1/keys",
            "List keys. Those of the caller's workspace; admins of the home workspace see all.",
            {200: json_answer("A page of keys, oldest first, revoked ones included.", page(ref("Key")))},
            (LIMIT, PAGE),
            role="admin",
            head=True,
        ),
        Operation(
            "revokeKey: DELETE /v1/keys/{key_id}",
            "Revoke a key. To do it again changes nothing.",
            {
                200: json_answer(
                    "Revoked: it lets nobody in from this moment on, and ends open streams.", RevokedKey
                )
            },
            errors=("route_not_found",),
            role="admin",
        ),
        Operation(
            "readAudit: GET /v1/audit",
            "Read the audit record. What was done to keys and the server, and what was refused, in the "
            "caller's workspace.",
            {200: json_answer("A page of acts, newest first.", page(ref("Act")))},
            (LIMIT, PAGE, ORDER),
            errors=("partition_stopped", *READING),
            role="admin",
            head=True,
        ),
    ),
    {
        "Key": schema_of(KeyAnswer),
        "NewKey": schema_of(NewKeyBody),
        "Act": schema_of(AuditedAct, open_ended=True),
    },
    preflight=False,
    writing=WRITING_UNMETERED,
)
