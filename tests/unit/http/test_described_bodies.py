"""Bodies in the description have the members of the structs that they are decoded into."""

import msgspec
import pytest

from durable_sessions.http.bodies.keys import NewKeyBody
from durable_sessions.http.bodies.sessions import NativeSessionBody, NativeUpdateBody
from durable_sessions.http.bodies.subscriptions import HoldBody
from durable_sessions.http.openapi.document import document
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.managed_agents.agents import NativeAgentBody
from durable_sessions.managed_agents.environments import NativeEnvironmentBody

SCHEMAS = document(DEFAULT_LIMITS)["components"]["schemas"]
UNDESCRIBED = {"SessionUpdate": {"vault_ids"}, "NewAgent": {"version"}}
"""Members that are decoded and are not offered: an update of vaults, and the version of what is new."""
REQUIRED_LATER = {"NewAgent": {"name", "model"}, "NewEnvironment": {"name"}}
"""Members that are required after decoding, because one struct serves to create and to update."""


@pytest.mark.parametrize(
    ("name", "struct"),
    [
        ("NewKey", NewKeyBody),
        ("NewSession", NativeSessionBody),
        ("SessionUpdate", NativeUpdateBody),
        ("Hold", HoldBody),
        ("NewAgent", NativeAgentBody),
        ("AgentUpdate", NativeAgentBody),
        ("NewEnvironment", NativeEnvironmentBody),
        ("EnvironmentUpdate", NativeEnvironmentBody),
    ],
)
def test_a_described_body_has_the_members_of_its_struct(name: str, struct: type[msgspec.Struct]) -> None:
    schema, fields = SCHEMAS[name], msgspec.structs.fields(struct)
    offered = {one.encode_name for one in fields} - UNDESCRIBED.get(name, set())
    required = {one.encode_name for one in fields if one.required} | REQUIRED_LATER.get(name, set())
    assert set(schema["properties"]) == offered
    assert set(schema.get("required", ())) == required
    is_strict = struct.__struct_config__.forbid_unknown_fields
    assert (schema.get("additionalProperties") is False) == is_strict
