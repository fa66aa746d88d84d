"""Agents: their operations and schemas."""

from durable_sessions.http.bodies.agents import RegisteredAgent
from durable_sessions.http.openapi.common import PAGE, REGISTRY_LIMIT, REGISTRY_PAGE, UPDATE
from durable_sessions.http.openapi.error_groups import READING
from durable_sessions.http.openapi.parts import Noun, Operation, in_query, json_answer, json_body
from durable_sessions.http.openapi.schemas import page, ref, whole
from durable_sessions.http.openapi.struct_schemas import schema_of
from durable_sessions.managed_agents.agents import NativeAgentBody

VERSION = in_query("version", whole(minimum=1, maximum=2**31), "This version; the newest if absent.", 1)
_SHOWN = {200: json_answer("The agent.", ref("Agent"))}
_CREATED = ("invalid_agent", "document_too_large")

NOUN = Noun(
    "Agents",
    "A registry of agents with versions, so that code written for Managed Agents runs unchanged. Agents are "
    "plain data: they execute nothing here. A session keeps a snapshot of its agent.",
    (
        Operation(
            "createAgent: POST /v1/agents",
            "Register an agent. Short forms come back long: a model's name becomes an object, toolsets get "
            "their defaults.",
            _SHOWN,
            body=json_body(ref("NewAgent")),
            errors=_CREATED,
            gives={"agent_id": "$response.body#/id"},
        ),
        Operation(
            "listAgents: GET /v1/agents",
            "List agents.",
            {200: json_answer("A page of agents, newest first.", page(ref("Agent")))},
            parameters=REGISTRY_PAGE,
            errors=("too_many_scans",),
        ),
        Operation(
            "getAgent: GET /v1/agents/{agent_id}",
            "Read an agent.",
            _SHOWN,
            parameters=(VERSION,),
            errors=READING,
        ),
        Operation(
            "updateAgent: POST /v1/agents/{agent_id}",
            "Change an agent: a new version.",
            _SHOWN,
            body=json_body(ref("AgentUpdate"), required=False),
            errors=(*_CREATED, "object_archived", "version_conflict"),
        ),
        Operation(
            "archiveAgent: POST /v1/agents/{agent_id}/archive",
            "Archive an agent. It stays readable, and can no longer be changed.",
            _SHOWN,
        ),
        Operation(
            "listAgentVersions: GET /v1/agents/{agent_id}/versions",
            "List the versions of an agent.",
            {200: json_answer("A page of versions, newest first.", page(ref("Agent")))},
            parameters=(REGISTRY_LIMIT, PAGE),
            errors=READING,
        ),
    ),
    {
        "Agent": {"allOf": [ref("AgentSnapshot"), schema_of(RegisteredAgent)]},
        "NewAgent": schema_of(
            NativeAgentBody, required={"name": {"minLength": 1}, "model": {}}, without=["version"]
        ),
        "AgentUpdate": {**schema_of(NativeAgentBody), "description": UPDATE},
    },
)
