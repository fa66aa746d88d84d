"""Agents in answers; they are stored and answered as JSON, so these structs describe them only."""

from typing import Any, Literal

import msgspec

from durable_sessions.schema_notes import Time


class AgentModel(msgspec.Struct):
    """The model of an agent."""

    id: str


class AgentSnapshot(msgspec.Struct):
    """The copy of an agent in a session.

    The agent as it was when the session was created; an id that is not registered here is kept as it came.
    """

    id: str
    type: Literal["agent"]
    version: int
    name: str
    description: str | None
    system: str | None
    model: AgentModel
    tools: Any
    mcp_servers: Any
    skills: Any
    execution_identity: dict[str, Any]
    multiagent: Any = None


class RegisteredAgent(msgspec.Struct):
    """What an agent of the registry has beyond its snapshot."""

    metadata: dict[str, Any]
    created_at: Time
    updated_at: Time
    archived_at: Time | None
