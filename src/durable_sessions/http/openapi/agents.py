"""Agents in the description."""

from durable_sessions.http.bodies.agents import RegisteredAgent
from durable_sessions.http.openapi.common import PAGE, REGISTRY_LIMIT, REGISTRY_PAGE
from durable_sessions.http.openapi.errors import READING, WRITING
from durable_sessions.http.openapi.parts import (
    Call,
    Noun,
    Operation,
    in_path,
    in_query,
    json_answer,
    json_body,
)
from durable_sessions.http.openapi.schemas import page, ref, text, whole
from durable_sessions.http.openapi.struct_schemas import StructSchemas
from durable_sessions.limits import Limits
from durable_sessions.managed_agents.agents import NativeAgentBody

AGENT_ID = in_path("agent_id", text(), "The agent.", "agent_01")
VERSION = in_query("version", whole(minimum=1, maximum=2**31), "This version; the newest if absent.", 1)
_UPDATE = "What is absent stays as it is. Other members are refused; in Anthropic's dialect they are ignored."
_SHOWN = json_answer("The agent.", ref("Agent"))
_CREATED = ("invalid_json", "invalid_agent", "document_too_large", *WRITING)
_CHANGED = (*_CREATED, "registered_object_not_found", "object_archived")


def noun(limits: Limits) -> Noun:
    """Return the description of agents."""
    schemas = StructSchemas(limits)
    return Noun(
        "Agents",
        "A registry of agents with versions, so that code written for Managed Agents runs unchanged. Agents "
        "are plain data: they execute nothing here. A session keeps a snapshot of its agent.",
        _operations(),
        {
            "Agent": {"allOf": [ref("AgentSnapshot"), schemas.of(RegisteredAgent)]},
            "NewAgent": schemas.of(
                NativeAgentBody, required={"name": {"minLength": 1}, "model": {}}, without=["version"]
            ),
            "AgentUpdate": {**schemas.of(NativeAgentBody), "description": _UPDATE},
        },
    )


def _operations() -> tuple[Operation, ...]:
    return (
        Operation(
            "post",
            "/v1/agents",
            "createAgent",
            "Register an agent",
            {200: _SHOWN},
            "Short forms come back long: a model's name becomes an object, toolsets get their defaults.",
            (),
            json_body(ref("NewAgent")),
            _CREATED,
            "writer",
            (
                Call(
                    "A name and a model",
                    body={"name": "Builder", "model": "claude-sonnet-5", "system": "Be brief."},
                ),
            ),
            gives={"agent_id": "$response.body#/id"},
        ),
        Operation(
            "get",
            "/v1/agents",
            "listAgents",
            "List agents",
            {200: json_answer("A page of agents, newest first.", page(ref("Agent")))},
            "",
            REGISTRY_PAGE,
            refusals=("invalid_request", "too_many_scans"),
        ),
        Operation(
            "get",
            "/v1/agents/{agent_id}",
            "getAgent",
            "Read an agent",
            {200: _SHOWN},
            "",
            (
                AGENT_ID,
                VERSION,
            ),
            refusals=("invalid_request", "registered_object_not_found", *READING),
            calls=(Call("The newest version"), Call("An older one", {"version": "1"})),
        ),
        Operation(
            "post",
            "/v1/agents/{agent_id}",
            "updateAgent",
            "Change an agent: a new version",
            {200: _SHOWN},
            "",
            (AGENT_ID,),
            json_body(ref("AgentUpdate"), required=False),
            (*_CHANGED, "version_conflict"),
            "writer",
            (Call("If nobody else has changed it", body={"system": "Be brief and kind.", "version": 1}),),
        ),
        Operation(
            "post",
            "/v1/agents/{agent_id}/archive",
            "archiveAgent",
            "Archive an agent",
            {200: _SHOWN},
            "It stays readable, and can no longer be changed.",
            (AGENT_ID,),
            refusals=("registered_object_not_found", *WRITING),
            role="writer",
        ),
        Operation(
            "get",
            "/v1/agents/{agent_id}/versions",
            "listAgentVersions",
            "List the versions of an agent",
            {200: json_answer("A page of versions, newest first.", page(ref("Agent")))},
            "",
            (AGENT_ID, REGISTRY_LIMIT, PAGE),
            refusals=("invalid_request", "registered_object_not_found", *READING),
        ),
    )
