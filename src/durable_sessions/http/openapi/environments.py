"""Environments in the description."""

from durable_sessions.http.bodies.deletions import EnvironmentDeleted
from durable_sessions.http.bodies.environments import EnvironmentObject
from durable_sessions.http.openapi.common import REGISTRY_PAGE
from durable_sessions.http.openapi.errors import WRITING
from durable_sessions.http.openapi.parts import (
    Call,
    Noun,
    Operation,
    in_path,
    json_answer,
    json_body,
)
from durable_sessions.http.openapi.schemas import page, ref, text
from durable_sessions.http.openapi.struct_schemas import StructSchemas
from durable_sessions.limits import Limits
from durable_sessions.managed_agents.environments import NativeEnvironmentBody

_ENVIRONMENT_ID = in_path("environment_id", text(), "The environment.", "env_01")
_SHOWN = json_answer("The environment.", ref("Environment"))
_CREATED = ("invalid_json", "invalid_environment", "document_too_large", *WRITING)
_CHANGED = (*_CREATED, "registered_object_not_found", "object_archived")


def noun(limits: Limits) -> Noun:
    """Return the description of environments."""
    schemas = StructSchemas(limits)
    return Noun(
        "Environments",
        "A registry of environments, so that code written for Managed Agents runs unchanged. They are plain "
        "data.",
        _operations(schemas),
        {
            "Environment": schemas.of(EnvironmentObject),
            "NewEnvironment": schemas.of(NativeEnvironmentBody, required={"name": {"minLength": 1}}),
            "EnvironmentUpdate": {
                **schemas.of(NativeEnvironmentBody),
                "description": "What is absent stays as it is. Other members are refused; in Anthropic's "
                "dialect they are ignored.",
            },
        },
    )


def _operations(schemas: StructSchemas) -> tuple[Operation, ...]:
    path = "/v1/environments/{environment_id}"
    return (
        Operation(
            "post",
            "/v1/environments",
            "createEnvironment",
            "Register an environment",
            {200: _SHOWN},
            "A name is enough; the configuration comes back filled in.",
            (),
            json_body(ref("NewEnvironment")),
            _CREATED,
            "writer",
            (Call("A name", body={"name": "python-3.13"}),),
            gives={"environment_id": "$response.body#/id"},
        ),
        Operation(
            "get",
            "/v1/environments",
            "listEnvironments",
            "List environments",
            {200: json_answer("A page of environments, newest first.", page(ref("Environment")))},
            "",
            REGISTRY_PAGE,
            refusals=("invalid_request", "too_many_scans"),
        ),
        Operation(
            "get",
            path,
            "getEnvironment",
            "Read an environment",
            {200: _SHOWN},
            "",
            (_ENVIRONMENT_ID,),
            refusals=("registered_object_not_found",),
        ),
        Operation(
            "post",
            path,
            "updateEnvironment",
            "Change an environment",
            {200: _SHOWN},
            "",
            (_ENVIRONMENT_ID,),
            json_body(ref("EnvironmentUpdate"), required=False),
            _CHANGED,
            "writer",
            (Call("A description", body={"description": "For the nightly build"}),),
        ),
        Operation(
            "post",
            path + "/archive",
            "archiveEnvironment",
            "Archive an environment",
            {200: _SHOWN},
            "It stays readable, and can no longer be changed.",
            (_ENVIRONMENT_ID,),
            refusals=("registered_object_not_found", *WRITING),
            role="writer",
        ),
        Operation(
            "delete",
            path,
            "deleteEnvironment",
            "Delete an environment",
            {200: json_answer("Gone.", schemas.of(EnvironmentDeleted))},
            "",
            (_ENVIRONMENT_ID,),
            refusals=("registered_object_not_found", *WRITING),
            role="writer",
        ),
    )
