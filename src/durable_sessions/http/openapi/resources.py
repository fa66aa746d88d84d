"""Resources in the description."""

from durable_sessions.http.openapi.common import ALL_LIMIT, PAGE, SESSION_ID
from durable_sessions.http.openapi.errors import WRITING
from durable_sessions.http.openapi.parts import Call, Noun, Operation, in_path, json_answer, json_body
from durable_sessions.http.openapi.schemas import constant, page, record, ref, text, time
from durable_sessions.limits import Limits

_ROOT = "/v1/sessions/{session_id}/resources"
_RESOURCE_ID = in_path("resource_id", text(), "The resource.", "sesrsc_01")
_SESSION = ("invalid_session", "session_not_found")
_CHANGED = (*_SESSION, "session_archived", "session_too_large", *WRITING)
_SHOWN = json_answer("The resource.", ref("Resource"))


def noun(_: Limits) -> Noun:
    """Return the description of resources."""
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
                refusals=(*_SESSION, "invalid_request"),
            ),
            Operation(
                "get",
                _ROOT + "/{resource_id}",
                "getResource",
                "Read a resource",
                {200: _SHOWN},
                "",
                (SESSION_ID, _RESOURCE_ID),
                refusals=(*_SESSION, "registered_object_not_found"),
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
                json_body(record({}, {"authorization_token": text()}), required=False),
                (*_CHANGED, "registered_object_not_found"),
                "writer",
                (Call("A new token", body={"authorization_token": "…"}),),
            ),
            Operation(
                "delete",
                _ROOT + "/{resource_id}",
                "deleteResource",
                "Detach a resource",
                {
                    200: json_answer(
                        "Detached.", record({"id": text(), "type": constant("session_resource_deleted")})
                    )
                },
                "",
                (SESSION_ID, _RESOURCE_ID),
                refusals=(*_CHANGED, "registered_object_not_found"),
                role="writer",
            ),
        ),
        {
            "NewResource": record(
                {"type": text("`file`, `github_repository`, `memory_store`, or one of your own.")},
                {
                    "file_id": text("Required of a `file`."),
                    "url": text("Required of a `github_repository`."),
                    "memory_store_id": text("Required of a `memory_store`."),
                    "mount_path": text("Made by the server if absent."),
                },
                additionalProperties=True,
            ),
            "Resource": record(
                {"type": text()},
                {"id": text("Not of a memory store."), "created_at": time(), "updated_at": time()},
                "A resource as it was given, without secrets, with an id, its times and a `mount_path`.",
                additionalProperties=True,
            ),
        },
    )
