"""Environments: their operations and schemas."""

from durable_sessions.http.bodies.deletions import EnvironmentDeleted
from durable_sessions.http.bodies.environments import EnvironmentObject
from durable_sessions.http.openapi.common import REGISTRY_PAGE, UPDATE
from durable_sessions.http.openapi.parts import Noun, Operation, json_answer, json_body
from durable_sessions.http.openapi.schemas import page, ref
from durable_sessions.http.openapi.struct_schemas import schema_of
from durable_sessions.managed_agents.environments import NativeEnvironmentBody

_SHOWN = {200: json_answer("The environment.", ref("Environment"))}
_CREATED = ("invalid_environment", "document_too_large")

NOUN = Noun(
    "Environments",
    "A registry of environments, so that code written for Managed Agents runs unchanged. They are plain "
    "data.",
    (
        Operation(
            "createEnvironment: POST /v1/environments",
            "Register an environment. A name is enough; the configuration comes back filled in.",
            _SHOWN,
            body=json_body(ref("NewEnvironment")),
            errors=_CREATED,
            gives={"environment_id": "$response.body#/id"},
        ),
        Operation(
            "listEnvironments: GET /v1/environments",
            "List environments.",
            {200: json_answer("A page of environments, newest first.", page(ref("Environment")))},
            parameters=REGISTRY_PAGE,
            errors=("too_many_scans",),
        ),
        Operation("getEnvironment: GET /v1/environments/{environment_id}", "Read an environment.", _SHOWN),
        Operation(
            "updateEnvironment: POST /v1/environments/{environment_id}",
            "Change an environment.",
            _SHOWN,
            body=json_body(ref("EnvironmentUpdate"), required=False),
            errors=(*_CREATED, "object_archived"),
        ),
        Operation(
            "archiveEnvironment: POST /v1/environments/{environment_id}/archive",
            "Archive an environment. It stays readable, and can no longer be changed.",
            _SHOWN,
        ),
        Operation(
            "deleteEnvironment: DELETE /v1/environments/{environment_id}",
            "Delete an environment.",
            {200: json_answer("Gone.", EnvironmentDeleted)},
        ),
    ),
    {
        "Environment": schema_of(EnvironmentObject),
        "NewEnvironment": schema_of(NativeEnvironmentBody, required={"name": {"minLength": 1}}),
        "EnvironmentUpdate": {**schema_of(NativeEnvironmentBody), "description": UPDATE},
    },
)
