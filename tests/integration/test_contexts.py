"""The context for the next turn, over HTTP and through the Python clients."""

from typing import Any

import httpx2
import pytest

from durable_sessions import AsyncClient, Client
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing import BackgroundServer
from tests.support.sessions import at, code

pytestmark = pytest.mark.anyio


async def send(api: httpx2.AsyncClient, *events: dict[str, Any], session: str = "s") -> None:
    sent = await api.post(f"/sessions/{session}/events", json={"events": events})
    assert sent.status_code == 204, sent.text


async def context(api: httpx2.AsyncClient, session: str = "s", **query: Any) -> dict[str, Any]:
    answer = await api.get(f"/sessions/{session}/context", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_the_newest_that_fits_behind_what_must_be_known(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/s", json={"goal": "Mend calc"})
    await send(api, *({"type": "user.message", "id": f"m{n}", "content": "x" * 100} for n in range(20)))
    whole = await context(api)
    assert (whole["estimate"], whole["budget_tokens"], whole["omitted"]) == ("bytes/4", 100_000, 0)
    assert whole["event_ids"] == [f"m{n}" for n in range(20)]
    assert (whole["session"], whole["offset"]) == ("s", at(21))
    part = await context(api, budget_tokens=500)
    shown = len(part["items"])
    assert 0 < shown < 20
    assert part["event_ids"] == [f"m{n}" for n in range(20 - shown, 20)]
    assert part["omitted"] == 21 - shown
    assert part["tokens"] <= 500
    assert part["preamble"]["goal"]["text"] == "Mend calc"
    before = await context(api, budget_tokens=500, at=6)
    assert before["event_ids"][-1] == "m4"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"budget_tokens={DEFAULT_LIMITS.context_tokens_min - 1}", "invalid_request"),
        (f"budget_tokens={DEFAULT_LIMITS.context_tokens_max + 1}", "invalid_request"),
        ("budget_tokens=x", "invalid_request"),
        ("see=some", "invalid_request"),
        ("at=99", "offset_beyond_tail"),
        ("q=", "invalid_request"),
        ("foo=1", "unknown_parameter"),
        (f"budget_tokens={DEFAULT_LIMITS.context_tokens_min}", "context_too_small"),
    ],
)
async def test_what_a_context_cannot_be_asked_for(api: httpx2.AsyncClient, query: str, expected: str) -> None:
    await send(api, {"type": "ds.fact", "key": "k", "value": "v" * 500})
    refused = await api.get(f"/sessions/s/context?{query}")
    assert (refused.status_code, code(refused)) == (400, expected)
    if expected == "context_too_small":
        needed = refused.json()["error"]["details"]["needed"]
        assert (await context(api, budget_tokens=needed))["tokens"] == needed
    for allowed in (DEFAULT_LIMITS.context_tokens_max, 100_000):
        assert (await context(api, budget_tokens=allowed))["budget_tokens"] == allowed
    assert (await api.get("/sessions/nobody/context")).status_code == 404


async def test_hits_come_from_what_was_compacted_and_bring_their_pair(api: httpx2.AsyncClient) -> None:
    await send(
        api,
        {"type": "agent.tool_use", "id": "c1", "name": "grep", "input": {"q": "zebra"}},
        {"type": "agent.tool_result", "id": "r1", "tool_use_id": "c1", "content": "stripes"},
        *({"type": "user.message", "id": f"m{n}", "content": "hay " * 20} for n in range(30)),
        {"type": "ds.context.compacted", "from": 0, "to": 30, "summary": "hay was looked through"},
        {"type": "ds.routed", "to": "judge", "reason": "look", "see": {"types": ["user.*"], "last": 2}},
    )
    found = await context(api, budget_tokens=2_000, q="zebra", see="all")
    assert [item["kind"] for item in found["items"]][:3] == ["summary", "found", "found"]
    assert found["event_ids"][1:3] == ["c1", "r1"]
    assert found["items"][1]["score"] > 0
    routed = await context(api)
    assert routed["event_ids"] == ["m28", "m29"], "what the route lets see"
    narrowed = await context(api, see="all", types="agent.*")
    assert [item["kind"] for item in narrowed["items"]] == ["summary"]


async def test_a_query_brings_at_most_context_hits_max(api: httpx2.AsyncClient) -> None:
    await send(
        api,
        *({"type": "user.message", "id": f"m{n}", "content": "zebra"} for n in range(60)),
        {"type": "ds.context.compacted", "from": 0, "to": 60, "summary": "zebras"},
    )
    found = await context(api, q="zebra")
    assert [item["kind"] for item in found["items"]].count("found") == DEFAULT_LIMITS.context_hits_max


async def test_after_a_reset_and_in_a_fork(api: httpx2.AsyncClient) -> None:
    await send(
        api,
        {"type": "user.message", "id": "old"},
        {"type": "ds.checkpoint", "id": "point", "units": 1, "next": "n", "instructions": "Go on."},
        {"type": "ds.context.reset", "checkpoint": "point"},
        {"type": "agent.tool_use", "id": "c1", "name": "t"},
    )
    now = await context(api)
    assert (now["items"], now["open_calls"]) == ([], ["c1"])
    assert now["preamble"]["handoff"]["instructions"] == "Go on."
    forked = {"Stream-Forked-From": "/v1/sessions/s", "Stream-Fork-Offset": at(4)}
    assert (await api.put("/sessions/f", headers=forked)).status_code == 201
    await send(api, {"type": "agent.tool_result", "tool_use_id": "c1"}, {"type": "note"}, session="f")
    branch = await context(api, "f")
    assert branch["open_calls"] == [], "nobody can answer what the source has asked"
    assert [item["event"]["type"] for item in branch["items"]] == ["note"]
    assert branch["preamble"]["handoff"]["id"] == "point"


async def test_the_clients_make_messages_of_it(running: BackgroundServer) -> None:
    with Client(running.url) as client:
        session = client.sessions.create("c", goal="Mend calc", outcome=[{"id": "f1", "text": "It adds."}])
        session.append({"type": "ds.fact", "key": "cause", "value": "off by one", "kind": "decision"})
        session.append({"type": "user.message", "content": "Go"})
        session.append({"type": "agent.message", "content": [{"type": "text", "text": "Yes"}]})
        session.append({"type": "agent.tool_use", "id": "c1", "name": "run", "input": {"n": 1}})
        session.append({"type": "agent.tool_result", "tool_use_id": "c1", "content": "ok"})
        session.append({"type": "note", "text": "n"})
        found = session.context(budget_tokens=5_000, types=["user.*", "agent.*", "note"], q="Go")
        messages = found.messages()
        assert [one["role"] for one in messages] == ["system", "user", "assistant", "user"]
        assert "off by one" in messages[0]["content"][0]["text"]
        assert messages[2]["content"][1] == {"type": "tool_use", "id": "c1", "name": "run", "input": {"n": 1}}
        assert messages[3]["content"][0] == {
            "type": "tool_result",
            "tool_use_id": "c1",
            "content": [{"type": "text", "text": "ok"}],
            "is_error": False,
        }
        plain = session.context(at=3, see_all=True)
    async with AsyncClient(running.url) as later:
        again = await later.session("c").context(at=3, see_all=True)
        assert again == plain
