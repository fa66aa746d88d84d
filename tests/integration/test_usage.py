"""``GET /v1/usage``: what all sessions used, by day, agent, model and metadata."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import local_server
from tests.support.keys import BOOTSTRAP, bearer
from tests.support.sessions import code
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

SMALL = replace(DEFAULT_LIMITS, listed_sessions_max=5, session_usage_rows_max=4, usage_groups_max=3)
FIGURES = ("requests", "priced_requests", "input_tokens", "output_tokens", "cost_usd")


@pytest.fixture(params=[1, 3], ids=["one partition", "three partitions"])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        local_server(tmp_path / "data", limits=SMALL, partitions=request.param) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as client,
    ):
        yield client


def used(tokens: int, *, day: int = 1, **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": tokens, "output_tokens": 1, "cache_creation_input_tokens": 2}
    at = f"2026-01-{day:02d}T23:59:59.999Z"
    return {"type": "span.model_request_end", "model_usage": usage, "original_created_at": at, **more}


async def send(api: httpx2.AsyncClient, session: str, *events: dict[str, Any], **headers: str) -> None:
    sent = await api.post(f"/sessions/{session}/events", json={"events": events}, headers=headers)
    assert sent.status_code == 204, sent.text


async def summed(api: httpx2.AsyncClient, **query: Any) -> dict[str | None, dict[str, Any]]:
    """Return the sums of all pages by key."""
    sums: dict[str | None, dict[str, Any]] = {}
    page = None
    while True:
        answer = await api.get("/usage", params={**query, **({} if page is None else {"page": page})})
        assert answer.status_code == 200, answer.text
        said = answer.json()
        assert len(said["data"]) <= SMALL.usage_groups_max + 1
        for one in said["data"]:
            known = sums.setdefault(one.pop("key"), dict.fromkeys(one, 0))
            for name, figure in one.items():
                known[name] += figure
        page = said["next_page"]
        if page is None:
            return sums
        assert not said["complete"]


def told(sums: dict[str | None, dict[str, Any]], *names: str) -> dict[str | None, tuple[Any, ...]]:
    return {key: tuple(one[name] for name in names) for key, one in sums.items()}


async def test_by_day_model_agent_and_metadata(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/a", json={"metadata": {"team": "infra"}})
    await api.put("/sessions/b", json={"metadata": {"team": "data", "n": 7}})
    await send(api, "a", used(10, day=1, model="opus", cost_usd=0.5), used(20, day=2, model="haiku"))
    await send(api, "b", used(100, day=2, model="opus", cost_usd=0.25), used(5, day=2))
    await send(api, "c", {"type": "note"}, {"type": "session.status_running"})
    assert told(await summed(api), *FIGURES) == {
        "2026-01-01": (1, 1, 10, 1, 0.5),
        "2026-01-02": (3, 1, 125, 3, 0.25),
    }
    assert told(await summed(api, by="model"), "input_tokens", "sessions", "cost_usd") == {
        "opus": (110, 2, 0.75),
        "haiku": (20, 1, 0),
        None: (5, 1, 0),
    }
    teams = {"infra": (30, 1), "data": (105, 1)}
    assert told(await summed(api, by="metadata[team]"), "input_tokens", "sessions") == teams
    assert told(await summed(api, by="metadata[n]"), "input_tokens") == {"7": (105,), None: (30,)}
    assert told(await summed(api, by="agent"), "input_tokens") == {None: (135,)}
    later = {"2026-01-02": (125,)}
    assert told(await summed(api, after="2026-01-02"), "input_tokens") == later
    assert told(await summed(api, after="2026-01-02T18:00:00Z"), "input_tokens") == later
    whole = (await api.get("/usage")).json()
    assert (whole["complete"], whole["next_page"]) == (True, None)


async def test_a_fork_does_not_count_again_what_it_inherits(api: httpx2.AsyncClient) -> None:
    await send(api, "a", used(10), used(20))
    await api.put("/sessions/fork", json={}, headers={"Stream-Forked-From": "/v1/sessions/a"})
    await send(api, "fork", used(1))
    assert told(await summed(api), "input_tokens", "sessions") == {"2026-01-01": (31, 2)}


async def test_days_and_groups_are_bounded_and_nothing_is_lost(api: httpx2.AsyncClient) -> None:
    await send(api, "s", *(used(1, day=day) for day in range(1, 11)))
    expected: dict[str | None, tuple[int, ...]] = {None: (7,)}
    expected |= {f"2026-01-{day:02d}": (1,) for day in range(1, SMALL.session_usage_rows_max)}
    assert told(await summed(api), "input_tokens") == expected
    later = await api.get("/usage", params={"after": "2026-01-02"})
    assert not later.json()["complete"]  # of the rest it is not known when it was
    for number in range(SMALL.usage_groups_max + 3):
        await api.put(f"/sessions/s{number}", json={"metadata": {"k": f"v{number}"}})
        await send(api, f"s{number}", used(1))
    sums = await summed(api, by="metadata[k]")
    assert sum(one["input_tokens"] for one in sums.values()) == 10 + SMALL.usage_groups_max + 3


async def test_many_sessions_are_summed_page_by_page(api: httpx2.AsyncClient) -> None:
    for number in range(40):
        await send(api, f"s{number}", used(number))
    await api.delete("/sessions/s7")
    expected = {"2026-01-01": (sum(range(40)) - 7, 39)}
    assert told(await summed(api), "input_tokens", "sessions") == expected


@pytest.mark.parametrize(
    "odd",
    [
        {"model": {"a": 1}, "model_usage": "x"},
        {"model": "\ud800<script>" + "x" * 300, "model_usage": {"input_tokens": -1}},
        {"cost_usd": "NaN", "model_usage": {"input_tokens": 1e400}},
        {"model": "", "model_usage": None},
    ],
)
async def test_whatever_an_event_says_is_summed(api: httpx2.AsyncClient, odd: dict[str, Any]) -> None:
    body = {"type": "span.model_request_end", **odd}
    text = json.dumps({"events": [body]}).replace("Infinity", "1e400")
    sent = await api.post("/sessions/s/events", content=text, headers={"Content-Type": "application/json"})
    assert sent.status_code == 204, sent.text
    sums = await summed(api, by="model")
    assert [(one["requests"], one["input_tokens"]) for one in sums.values()] == [(1, 0)]
    assert all(key is None or len(key) <= DEFAULT_LIMITS.graph_name_max for key in sums)


async def test_the_model_of_a_redacted_event_is_forgotten(api: httpx2.AsyncClient) -> None:
    await send(api, "s", used(10, model="a secret model", id="e"))
    redacted = await api.post("/sessions/s/redact", json={"events": ["e"], "reason": "r"})
    assert redacted.status_code == 200, redacted.text
    assert told(await summed(api, by="model"), "input_tokens") == {None: (10,)}


@pytest.mark.parametrize(
    "query", ["by=hour", "by=metadata[]", "page=x", "page=kf0", "after=soon", "by=day&by=day"]
)
async def test_what_cannot_be_is_refused(api: httpx2.AsyncClient, query: str) -> None:
    refused = await api.get(f"/usage?{query}")
    assert (refused.status_code, code(refused)) == (400, "invalid_request"), refused.text


@pytest.mark.parametrize("partitions", [1, 2])
async def test_a_key_sums_its_workspace_only(tmp_path: Path, partitions: int) -> None:
    async with (
        local_server(tmp_path / "data", api_key=BOOTSTRAP, partitions=partitions) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as client,
    ):
        made = {"principal": "eve", "role": "admin", "workspace": "other"}
        key = (await client.post("/keys", json=made, headers=bearer(BOOTSTRAP))).json()["secret"]
        await send(client, "s", used(10), **bearer(BOOTSTRAP))
        for by in ("day", "model", "agent", "metadata[a]"):
            seen = await client.get("/usage", params={"by": by}, headers=bearer(key))
            assert seen.json()["data"] == []
        assert (await client.get("/usage")).status_code == 401
