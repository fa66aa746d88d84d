"""A block of an outline, as the server encodes it and the client decodes it."""

import httpx2
import pytest

from durable_sessions.client.outline import ROLES, outline_block
from durable_sessions.sessions.outline import block, facts


def event(number: int, kind: str, **more: str) -> bytes:
    at = f'"created_at":"2026-11-15T12:00:0{number}.000Z"'
    members = "".join(f',"{name}":"{value}"' for name, value in more.items())
    return f'{{"id":"e{number}",{at},"type":"{kind}"{members}}}'.encode()


EVENTS = [
    event(0, "user.message", content="Make it green."),
    event(1, "agent.tool_use", name="bash"),
    event(2, "agent.tool_result", tool_use_id="e1", content="ok"),
]


def test_every_column_survives_the_wire() -> None:
    made = block.folded(4_096, EVENTS, lambda _: None)
    found = outline_block("s", 4_096).read(httpx2.Response(200, content=block.to_binary(made)))
    assert (found.first, found.count, found.t0) == (4_096, 3, made.t0)
    assert {name: column.tolist() for name, column in found.columns.items()} == {
        name: column.tolist() for name, column in made.columns.items()
    }
    assert [ROLES[role] for role in found.columns["role"]] == ["user", "tool", "result"]
    assert found.columns["pair"].tolist() == [0, 1, -1]
    assert found.columns["at"].tolist() == [0, 1_000, 2_000]
    assert found.columns["flags"][1] & facts.HAS_RESULT


@pytest.mark.parametrize("body", [b"", b"DSO1", b"{}" * 40])
def test_what_is_no_block_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="no block"):
        outline_block("s", 0).read(httpx2.Response(200, content=body))
