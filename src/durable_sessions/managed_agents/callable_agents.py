"""Rosters: the agents that an agent may call, as ``multiagent`` has them.

A request gives them in a short form, a registry stores id and version, and a session embeds them.
"""

from collections.abc import Callable
from types import NoneType
from typing import Any

from durable_sessions.errors import InvalidAgentError

Roster = dict[str, Any]
Entry = dict[str, Any]

# There are two types of rosters. A "coordinator" has one list of agents. The newer type has a member for each
# way to use agents, with a list of its own; requests may leave out members, and parts of members.
_MEMBERS = "multiagent_20261001"
_AGENTS = "predefined_agents"
_ENABLED: Roster = {"type": "enabled", "inline_agents": {"type": "enabled"}, _AGENTS: []}
_DEFAULTS: Roster = {"advisor": {"type": "disabled"}, "subagents": _ENABLED, "workflows": _ENABLED}


def named(roster: Roster, version_of: Callable[[str], int]) -> Roster:
    """Return a roster whose agents all have an id and a version, except the agent itself."""

    def name(entry: object) -> Entry:
        if isinstance(entry, str):
            entry = {"type": "agent", "id": entry}
        if not isinstance(entry, dict) or entry.get("type") not in ("agent", "self", "advisor"):
            raise InvalidAgentError(
                problem='An agent to call is an id, or an object of type "agent" or "self".'
            )
        if entry["type"] != "agent":
            return entry
        agent, version = entry.get("id"), entry.get("version")
        if not isinstance(agent, str) or type(version) not in (int, NoneType):
            raise InvalidAgentError(problem='An agent to call needs an "id", and its "version" is a number.')
        return {**entry, "version": version_of(agent) if version is None else version}

    return replaced(roster, name)


def completed(roster: Roster, before: Roster | None) -> Roster:
    """Return a roster with all defaults, taken from the previous one if that has the same type."""
    if roster.get("type") != _MEMBERS:
        return roster
    stored = before if before is not None and before.get("type") == _MEMBERS else _DEFAULTS
    return {"type": _MEMBERS, **{name: _member(roster, name, stored[name]) for name in _DEFAULTS}}


def entries(roster: Roster) -> list[Any]:
    """Return the agents of a roster, in their order."""
    if roster.get("type") == "coordinator":
        return _entries(roster, "agents")
    return [entry for member in _with_agents(roster).values() for entry in _entries(member, _AGENTS)]


def replaced(roster: Roster, replace: Callable[[Any], Entry]) -> Roster:
    """Return a roster with each of its agents replaced."""
    if roster.get("type") == "coordinator":
        return {**roster, "agents": [replace(entry) for entry in _entries(roster, "agents")]}
    changed = {
        name: {**member, _AGENTS: [replace(one) for one in _entries(member, _AGENTS)]}
        for name, member in _with_agents(roster).items()
    }
    return {**roster, **changed}


def _with_agents(roster: Roster) -> dict[str, Roster]:
    """Return the members that list agents; a roster of an unknown type is searched for them as well."""
    return {
        name: member for name, member in roster.items() if isinstance(member, dict) and member.get(_AGENTS)
    }


def _member(roster: Roster, name: str, stored: Roster) -> Roster:
    if name not in roster:
        return stored
    given = roster[name]
    if given is None:
        return dict(_DEFAULTS[name])
    if not isinstance(given, dict):
        raise InvalidAgentError(problem=f'multiagent.{name} is an object of type "enabled" or "disabled".')
    if name == "advisor" or given.get("type") != "enabled":
        return given
    # What is absent stays as it was, what is null gets its default. A member that was disabled has nothing to
    # keep, so it begins with the defaults.
    begin = stored if stored["type"] == "enabled" else _ENABLED
    return {**begin, **{part: _ENABLED[part] if one is None else one for part, one in given.items()}}


def _entries(member: Roster, name: str) -> list[Any]:
    listed = member.get(name)
    if not isinstance(listed, list):
        raise InvalidAgentError(problem=f'"{name}" is a list of agents.')
    return listed
