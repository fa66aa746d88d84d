"""Resources in the description."""

from durable_sessions.http.bodies.deletions import ResourceDeleted
from durable_sessions.http.bodies.resources import NewResource, ResourceObject, ResourceUpdate
from durable_sessions.http.openapi.common import ALL_LIMIT, PAGE, SESSION_ID
from durable_sessions.http.openapi.errors import ONE_SESSION, WRITING
from durable_sessions.http.openapi.parts import Call, Noun, Operation, in_path, json_answer, json_body
from durable_sessions.http.openapi.schemas import page, ref, text
from durable_sessions.http.openapi.struct_schemas import StructSchemas
from durable_sessions.limits import Limits

_ROOT = "/v1/sessions/{session_id}/resources"
_RESOURCE_ID = in_path("resource_id", text(), "The resource.", "sesrsc_01")
_REMOVED = (*ONE_SESSION, "session_archived", "session_too_large", *WRITING)
_CHANGED = ("invalid_json", "invalid_resource", *_REMOVED)
_SHOWN = json_answer("The resource.", ref("Resource"))


def noun(limits: Limits) -> Noun:
    """Return the description of resources."""
    schemas = StructSchemas(limits)
    return Noun(
        "Resources",
        "Files, repositories and memory stores that a harness mounts for a session. They are plain data "
        "here; an `authorization_token` is never kept and never shown.",
        (
            Operation(
                "post",
                _ROOT,
                "addResource",
                "Attach a resource",
                {200: _SHOWN},
                "A `memory_store` can be attached only when the session is created.",
                (SESSION_ID,),
                json_body(ref("NewResource")),
                _CHANGED,
                "writer",
                (Call("A file", body={"type": "file", "file_id": "file_01"}),),
                gives={"resource_id": "$response.body#/id"},
            ),
            Operation(
                "get",
                _ROOT,
                "listResources",
                "List the resources of a session",
                {200: json_answer("A page of resources, oldest first.", page(ref("Resource")))},
                "",
                (SESSION_ID, ALL_LIMIT, PAGE),
                refusals=(*ONE_SESSION, "invalid_request"),
            ),
            Operation(
                "get",
                _ROOT + "/{resource_id}",
                "getResource",
                "Read a resource",
                {200: _SHOWN},
                "",
                (SESSION_ID, _RESOURCE_ID),
                refusals=(*ONE_SESSION, "registered_object_not_found"),
            ),
            Operation(
                "post",
                _ROOT + "/{resource_id}",
                "updateResource",
                "Note that a resource has a new secret",
                {200: _SHOWN},
                "The secret itself is for whoever mounts the resource, and is not kept; only `updated_at` "
                "changes.",
                (SESSION_ID, _RESOURCE_ID),
                json_body(schemas.of(ResourceUpdate), required=False),
                (*_CHANGED, "registered_object_not_found"),
                "writer",
                (Call("A new token", body={"authorization_token": "…"}),),
            ),
            Operation(
                "delete",
                _ROOT + "/{resource_id}",
                "deleteResource",
                "Detach a resource",
                {200: json_answer("Detached.", schemas.of(ResourceDeleted))},
                "",
                (SESSION_ID, _RESOURCE_ID),
                refusals=(*_REMOVED, "registered_object_not_found"),
                role="writer",
            ),
        ),
        {
            "NewResource": schemas.of(NewResource, open_ended=True),
            "Resource": schemas.of(ResourceObject, open_ended=True),
        },
    )
