"""Environments of Anthropic's API, as plain data."""

from typing import Annotated, Any

import msgspec

from durable_sessions.errors import InvalidEnvironmentError
from durable_sessions.managed_agents.object_kind import Document, Kind, patched
from durable_sessions.managed_agents.registry import members
from durable_sessions.schema_notes import about

_PACKAGES = ("apt", "cargo", "gem", "go", "npm", "pip")

_CONFIG = about(
    properties={
        "type": {"type": "string", "description": "`cloud` or `self_hosted`."},
        "networking": {
            "type": ["object", "null"],
            "properties": {"type": {"type": "string", "description": "`unrestricted` or `limited`."}},
        },
        "packages": {
            "type": ["object", "null"],
            "additionalProperties": True,
            "description": "Lists of names by package manager.",
        },
    }
)


class EnvironmentBody(msgspec.Struct, omit_defaults=True):
    """The body of a request that creates or changes an environment."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    description: str | msgspec.UnsetType | None = msgspec.UNSET
    config: Annotated[dict[str, Any] | msgspec.UnsetType | None, _CONFIG] = msgspec.UNSET
    metadata: Annotated[
        dict[str, str | None] | msgspec.UnsetType | None,
        about("A patch when the environment is changed: null deletes a key."),
    ] = msgspec.UNSET
    scope: Any = msgspec.UNSET


class NativeEnvironmentBody(EnvironmentBody, forbid_unknown_fields=True):
    """The native dialect, in which an unknown member is refused as a typo.

    Other members are refused; in Anthropic's dialect they are ignored.
    """


def new(body: EnvironmentBody) -> Document:
    """Return a new environment as it is stored, without id and times."""
    if not body.name:
        raise InvalidEnvironmentError(problem='An environment needs a "name".')
    return revise({"name": "", "description": None, "metadata": {}, "config": _config({})}, body)


def revise(old: Document, body: EnvironmentBody) -> Document:
    """Return an environment with a body's changes; metadata is patched, all other members are replaced."""
    document = dict(old)
    for name, value in msgspec.to_builtins(body).items():
        if name == "metadata":
            document[name] = patched(old[name], value)
        elif name == "config":
            document["config"] = _config(value or {})
        else:
            document[name] = value
    return document


def shown_stored(stored: bytes) -> bytes:
    """Return an environment as clients see it, from its stored bytes: without the version, which is ours."""
    return msgspec.json.encode({name: raw for name, raw in members(stored).items() if name != "version"})


def _config(given: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with all defaults."""
    if given.get("type") == "self_hosted":
        return given  # network and packages are its owner's affair
    networking = _object(given, "networking") or {"type": "unrestricted"}
    if networking.get("type") == "limited":
        defaults = {"allowed_hosts": [], "allow_mcp_servers": False, "allow_package_managers": False}
        networking = {**defaults, **networking}
    packages = {name: [] for name in _PACKAGES} | _object(given, "packages")
    return {"type": "cloud", **given, "networking": networking, "packages": packages}


def _object(config: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a part of a configuration; null means empty."""
    value = config.get(name)
    if value is not None and not isinstance(value, dict):
        raise InvalidEnvironmentError(problem=f"config.{name} is an object.")
    return {name: one for name, one in (value or {}).items() if one is not None}


ENVIRONMENTS = Kind(
    "environment",
    "An environment",
    "env_",
    EnvironmentBody,
    NativeEnvironmentBody,
    InvalidEnvironmentError,
    new,
    revise,
    shown_stored,
)
