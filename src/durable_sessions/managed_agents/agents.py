"""Agents of Anthropic's API, as plain data: models, prompts and tools. Nothing of them is executed here.

Short forms in requests come back long: a model's name becomes an object, toolsets get their defaults.
"""

from typing import Annotated, Any

import msgspec

from durable_sessions.errors import InvalidAgentError
from durable_sessions.managed_agents import callable_agents
from durable_sessions.managed_agents.object_kind import Document, Kind, VersionOf, patched
from durable_sessions.managed_agents.registry import members
from durable_sessions.schema_notes import about
from durable_sessions.sessions.record import NULL
from durable_sessions.sessions.view import UNKNOWN_AGENT

_LISTS = frozenset({"tools", "mcp_servers", "skills"})
# A session has the agent as it was when the session began; what describes its life in the registry is left
# out.
_NOT_IN_SNAPSHOT = frozenset({"metadata", "created_at", "updated_at", "archived_at"})
_OVERRIDES = ("model", "system", "tools", "mcp_servers", "skills")

_TEXT = {"type": "string"}
_Object = dict[str, Any]
_Model = Annotated[_Object, about(properties={"id": _TEXT}, required=["id"])]
_Tool = Annotated[
    _Object,
    about(
        required=["type"],
        properties={
            "type": {
                "type": "string",
                "description": "`agent_toolset_…`, `mcp_toolset` or `custom`.",
                "examples": ["agent_toolset_20260401"],
            },
            "default_config": {"type": ["object", "null"], "additionalProperties": True},
            "configs": {
                "type": ["array", "null"],
                "items": {"type": "object", "properties": {"name": _TEXT}, "required": ["name"]},
            },
        },
    ),
]


class AgentBody(msgspec.Struct, omit_defaults=True):
    """The body of a request that creates or changes an agent."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    model: Annotated[str | _Model | msgspec.UnsetType, about("A name, or an object with an `id`.")] = (
        msgspec.UNSET
    )
    description: str | msgspec.UnsetType | None = msgspec.UNSET
    system: Annotated[str | msgspec.UnsetType | None, about("The system prompt.")] = msgspec.UNSET
    tools: list[_Tool] | msgspec.UnsetType | None = msgspec.UNSET
    mcp_servers: list[_Object] | msgspec.UnsetType | None = msgspec.UNSET
    skills: list[_Object] | msgspec.UnsetType | None = msgspec.UNSET
    metadata: Annotated[
        dict[str, str | None] | msgspec.UnsetType | None,
        about("A patch when the agent is changed: null deletes a key."),
    ] = msgspec.UNSET
    execution_identity: _Object | msgspec.UnsetType | None = msgspec.UNSET
    multiagent: _Object | msgspec.UnsetType | None = msgspec.UNSET
    version: Annotated[
        int | msgspec.UnsetType,
        about("The version that you have seen; 409 if there is a newer one.", minimum=0),
    ] = msgspec.UNSET


class NativeAgentBody(AgentBody, forbid_unknown_fields=True):
    """The native dialect, in which an unknown member is refused as a typo.

    Other members are refused; in Anthropic's dialect they are ignored.
    """


def new(body: AgentBody) -> Document:
    """Return a new agent as it is stored, without id and times."""
    if not body.name or body.model is msgspec.UNSET:
        raise InvalidAgentError(problem='An agent needs a "name" and a "model".')
    # A stored agent has every member, even those that were never sent: clients of Anthropic's API read them
    # without asking whether they are there.
    blank = {key: value for key, value in UNKNOWN_AGENT.items() if key not in ("id", "type", "version")}
    return revise({**blank, "metadata": {}}, body)


def revise(old: Document, body: AgentBody) -> Document:
    """Return an agent with a body's changes; metadata is patched, all other members are replaced."""
    document = dict(old)
    for name, value in msgspec.to_builtins(body).items():
        if name == "version":
            continue
        if name == "metadata":
            document[name] = patched(old[name], value)
        elif value is None and name == "execution_identity":
            document[name] = UNKNOWN_AGENT["execution_identity"]
        elif value is not None and name == "multiagent":
            document[name] = callable_agents.completed(value, old["multiagent"])
        else:
            document[name] = long_form(name, value)
    return document


def resolved(body: AgentBody, version_of: VersionOf) -> AgentBody:
    """Return a body with a version for each agent that it may call."""
    if isinstance(body.multiagent, dict):
        body.multiagent = callable_agents.named(body.multiagent, version_of)
    return body


def shown(agent: Document) -> Document:
    """Return an agent as clients see it: if it may call itself, its roster names it."""
    if agent["multiagent"] is None:
        return agent
    itself = {"type": "agent", "id": agent["id"], "version": agent["version"]}
    roster = callable_agents.replaced(
        agent["multiagent"], lambda one: itself if one["type"] == "self" else one
    )
    return {**agent, "multiagent": roster}


def shown_stored(stored: bytes) -> bytes:
    """Return an agent as clients see it, from its stored bytes; usually these are the same."""
    # Only three members are decoded: a system prompt may be very long, and this runs on the event loop.
    parts = members(stored)
    if parts["multiagent"] == NULL:
        return stored
    agent = {name: msgspec.json.decode(parts[name]) for name in ("id", "version", "multiagent")}
    return msgspec.json.encode({**parts, "multiagent": shown(agent)["multiagent"]})


def called_by(agent: Document) -> list[tuple[str, int]]:
    """Return the id and version of each agent that an agent may call."""
    if agent["multiagent"] is None:
        return []
    called = callable_agents.entries(agent["multiagent"])
    return [(entry["id"], entry["version"]) for entry in called if entry["type"] == "agent"]


def with_called(agent: Document, called: dict[tuple[str, int], Document]) -> Document:
    """Return an agent with the agents that it may call embedded, as a session stores it."""
    if agent["multiagent"] is None:
        return agent

    def whole(entry: Document) -> Document:
        if entry["type"] != "agent":
            return entry
        # Without its own roster: agents may call each other in circles.
        found = called[entry["id"], entry["version"]]
        return {name: one for name, one in found.items() if name not in {*_NOT_IN_SNAPSHOT, "multiagent"}}

    return {**agent, "multiagent": callable_agents.replaced(agent["multiagent"], whole)}


def snapshot(agent: Document, overrides: dict[str, Any] | None = None) -> msgspec.Raw:
    """Return the copy of an agent that a session stores, with some parts replaced."""
    kept = {name: value for name, value in agent.items() if name not in _NOT_IN_SNAPSHOT}
    for name in _OVERRIDES:
        if overrides is not None and name in overrides:
            kept[name] = long_form(name, overrides[name])
    return msgspec.Raw(msgspec.json.encode(kept))


def long_form(name: str, value: Any) -> Any:
    """Return a part of an agent in its long form, whichever short form it was given in."""
    if name in _LISTS:
        value = _objects(name, value)
    return _LONG_FORMS.get(name, _same)(value)


def unknown(name: str, version: int | None) -> Document:
    """Return an agent with nothing but an id: users migrate with ids that were never registered here."""
    return {**UNKNOWN_AGENT, "id": name, "name": name, "version": version or 1}


def _same(value: Any) -> Any:
    return value


def _model(value: Any) -> Any:
    model = {"id": value} if isinstance(value, str) else value
    if not isinstance(model, dict) or not isinstance(model.get("id"), str):
        raise InvalidAgentError(problem='A model is a name, or an object with an "id".')
    if isinstance(model.get("effort"), str):
        return {**model, "effort": {"type": model["effort"]}}
    return model


def _tools(value: Any) -> Any:
    return [_tool(tool) for tool in value]


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    kind = tool.get("type")
    if kind == "custom":
        return {"description": "", "input_schema": {"type": "object"}, **_given(tool)}
    if not isinstance(kind, str) or not (kind.startswith("agent_toolset") or kind == "mcp_toolset"):
        return tool
    # The tools of an MCP server can change at any time, so by default each call needs a confirmation.
    policy = "always_ask" if kind == "mcp_toolset" else "always_allow"
    unless = {"enabled": True, "permission_policy": {"type": policy}}
    default = {**unless, **_given(tool.get("default_config"))}
    configs = tool.get("configs") or []
    if not isinstance(configs, list):
        raise InvalidAgentError(problem='"configs" of a toolset is a list of objects, each with a "name".')
    complete = [_tool_config(kind, default, _given(config)) for config in configs]
    return {**tool, "configs": complete, "default_config": default}


def _tool_config(kind: str, default: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    if kind == "mcp_toolset":
        return {**default, **given}
    more = {"url_sources": None} if given.get("name") == "web_fetch" else {}
    return {"type": given.get("name"), **default, **more, **given}


def _objects(name: str, value: Any) -> list[dict[str, Any]]:
    """Return a list of objects; null is an empty one."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise InvalidAgentError(problem=f'"{name}" is a list of objects.')
    return value


def _given(value: Any) -> dict[str, Any]:
    """Return the members of an object that are not null."""
    if value is not None and not isinstance(value, dict):
        raise InvalidAgentError(problem="The configuration of a tool is an object.")
    return {name: one for name, one in (value or {}).items() if one is not None}


def _skills(value: Any) -> Any:
    return [{"version": "latest", **_given(skill)} for skill in value]


_LONG_FORMS = {"model": _model, "tools": _tools, "skills": _skills}
AGENTS = Kind(
    "agent",
    "An agent",
    "agent_",
    AgentBody,
    NativeAgentBody,
    InvalidAgentError,
    new,
    revise,
    shown_stored,
    resolved,
)
