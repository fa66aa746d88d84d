"""Agents in the description."""

from durable_sessions.http.openapi.common import PAGE, created_at, page_limit
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
from durable_sessions.http.openapi.schemas import (
    Schema,
    flag,
    free,
    many,
    nullable,
    page,
    record,
    ref,
    text,
    time,
    whole,
)
from durable_sessions.limits import Limits

AGENT_ID = in_path("agent_id", text(), "The agent.", "agent_01")
_SHOWN = json_answer("The agent.", ref("Agent"))
_CHANGED = (
    "invalid_session",
    "invalid_agent",
    "document_too_large",
    "registered_object_not_found",
    "object_archived",
    *WRITING,
)

_TOOL = record(
    {"type": text("`agent_toolset_…`, `mcp_toolset` or `custom`.", examples=["agent_toolset_20260401"])},
    {"default_config": nullable(free()), "configs": nullable(many(record({"name": text()})))},
)
_MEMBERS: dict[str, Schema] = {
    "description": nullable(text()),
    "system": nullable(text("The system prompt.")),
    "tools": nullable(many(_TOOL)),
    "mcp_servers": nullable(many(free())),
    "skills": nullable(many(free())),
    "metadata": nullable(free("A patch when the agent is changed: null deletes a key.")),
    "execution_identity": nullable(free()),
    "multiagent": nullable(free()),
}
_MODEL: Schema = {
    "anyOf": [text(), record({"id": text()})],
    "description": "A name, or an object with an `id`.",
}


def noun(_: Limits) -> Noun:
    """Return the description of agents."""
    return Noun(
        "Agents",
        "A registry of agents with versions, so that code written for Managed Agents runs unchanged. Agents "
        "are plain data: they execute nothing here. A session keeps a snapshot of its agent.",
        _operations(),
        {
            "Agent": {
                "allOf": [
                    ref("AgentSnapshot"),
                    record(
                        {
                            "metadata": free(),
                            "created_at": time(),
                            "updated_at": time(),
                            "archived_at": nullable(time()),
                        }
                    ),
                ]
            },
            "NewAgent": record({"name": text(minLength=1), "model": _MODEL}, _MEMBERS),
            "AgentUpdate": record(
                {},
                {
                    "name": text(),
                    "model": _MODEL,
                    **_MEMBERS,
                    "version": whole("The version that you have seen; 409 if there is a newer one."),
                },
                "What is absent stays as it is.",
            ),
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
            ("invalid_session", "invalid_agent", "document_too_large", *WRITING),
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
            (
                page_limit(20, 100),
                PAGE,
                in_query("include_archived", flag(), "Archived ones, too; not if absent.", "true"),
                *created_at("gte", "lte"),
            ),
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
                in_query(
                    "version", whole(minimum=1, maximum=2**31), "This version; the newest if absent.", 1
                ),
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
            (AGENT_ID, page_limit(20, 100), PAGE),
            refusals=("invalid_request", "registered_object_not_found", *READING),
        ),
    )
