"""Resources of a session: their operations and schemas."""

from durable_sessions.http.bodies.deletions import ResourceDeleted
from durable_sessions.http.bodies.resources import NewResource, ResourceObject, ResourceUpdate
from durable_sessions.http.openapi.common import ALL_LIMIT, PAGE
from durable_sessions.http.openapi.parts import Noun, Operation, json_answer, json_body
from durable_sessions.http.openapi.schemas import page, ref
from durable_sessions.http.openapi.struct_schemas import schema_of

_SHOWN = {200: json_answer("The resource.", ref("Resource"))}
_REMOVED = ("session_archived", "session_too_large")
_CHANGED = ("invalid_resource", *_REMOVED)

NOUN = Noun(
    "Resources",
    "Files, repositories and memory stores that a harness mounts for a session. They are plain data here; an "
    "`authorization_token` is never kept and never shown.",
    (
        Operation(
            "addResource: POST /v1/sessions/{session_id}/resources",
            "Attach a resource. A `memory_store` can be attached only when the session is created.",
            _SHOWN,
            body=json_body(ref("NewResource")),
            errors=_CHANGED,
            gives={"resource_id": "$response.body#/id"},
        ),
        Operation(
            "listResources: GET /v1/sessions/{session_id}/resources",
            "List the resources of a session.",
            {200: json_answer("A page of resources, oldest first.", page(ref("Resource")))},
            parameters=(ALL_LIMIT, PAGE),
        ),
        Operation(
            "getResource: GET /v1/sessions/{session_id}/resources/{resource_id}", "Read a resource.", _SHOWN
        ),
        Operation(
            "updateResource: POST /v1/sessions/{session_id}/resources/{resource_id}",
            "Note that a resource has a new secret. The secret itself is for whoever mounts the resource, "
            "and is not kept; only `updated_at` changes.",
            _SHOWN,
            body=json_body(ResourceUpdate, required=False),
            errors=_CHANGED,
        ),
        Operation(
            "deleteResource: DELETE /v1/sessions/{session_id}/resources/{resource_id}",
            "Detach a resource.",
            {200: json_answer("Detached.", ResourceDeleted)},
            errors=_REMOVED,
        ),
    ),
    {
        "NewResource": schema_of(NewResource, open_ended=True),
        "Resource": schema_of(ResourceObject, open_ended=True),
    },
)
