"""``GET /v1/sessions/{id}/export``: a session as a file, in every format, a few at a time."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.exporters import FORMATS, ExportOptions
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import local_server
from tests.support.keys import BOOTSTRAP, bearer, make_key
from tests.support.sessions import code
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\n\u2028"
EVENTS: list[dict[str, Any]] = [
    {"type": "user.message", "content": [{"type": "text", "text": HOSTILE}]},
    {"type": "agent.tool_use", "id": "c", "name": "bash", "input": {"command": "make"}},
    {"type": "agent.tool_result", "tool_use_id": "c", "content": HOSTILE},
    {"type": "span.model_request_end", "model_usage": {"input_tokens": 7, "output_tokens": 3}},
]


@pytest.fixture(params=[1, 3], ids=["one partition", "three partitions"])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        local_server(tmp_path / "data", partitions=request.param) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as client,
    ):
        await client.put("/sessions/s", json={"title": HOSTILE, "metadata": {"team": "infra"}})
        sent = await client.post("/sessions/s/events", json={"events": EVENTS})
        assert sent.status_code == 204, sent.text
        yield client


@pytest.mark.parametrize("name", FORMATS)
async def test_a_file_is_what_the_exporter_makes(api: httpx2.AsyncClient, name: str) -> None:
    form = FORMATS[name]
    answer = await api.get("/sessions/s/export", params={"format": name, "full": "true"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == form.media_type
    assert answer.headers["content-disposition"] == f'attachment; filename="s{form.suffix}"'
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    lines = (await api.get("/sessions/s/events", headers={"Accept": "application/x-ndjson"})).content
    session = (await api.get("/sessions/s")).json()
    expected = b"".join(form.export(session, lines.splitlines(), ExportOptions(full=True)))
    if name in ("html", "jsonl", "managed-agents", "atif", "markdown"):  # others tell when they were made
        assert answer.content == expected
    elif name != "prov":
        assert json.loads(answer.content).keys() == json.loads(expected).keys()


async def test_a_part_of_the_events(api: httpx2.AsyncClient) -> None:
    answer = await api.get("/sessions/s/export?from=1&limit=2")
    types = [json.loads(line).get("type") for line in answer.content.splitlines()][-2:]
    assert types == ["agent.tool_use", "agent.tool_result"]
    assert (await api.get("/sessions/s/export?from=4")).status_code == 200
    refusals = {"from=5": "offset_beyond_tail", "limit=0": "invalid_request", "format=pdf": "invalid_request"}
    for query, expected in refusals.items():
        refused = await api.get(f"/sessions/s/export?{query}")
        assert code(refused) == expected, refused.text
    assert (await api.get("/sessions/none/export")).status_code == 404


async def test_many_events_come_whole(api: httpx2.AsyncClient) -> None:
    body = [{"type": "note", "text": "x" * 2_000, "n": number} for number in range(1_000)]
    for _ in range(3):
        assert (await api.post("/sessions/many/events", json={"events": body})).is_success
    answer = await api.get("/sessions/many/export")
    events = [json.loads(line) for line in answer.content.splitlines()]
    assert [one["n"] for one in events if "n" in one] == [*range(1_000)] * 3


async def test_an_event_with_line_breaks_between_its_members_is_one(api: httpx2.AsyncClient) -> None:
    raw = b'{"type" : "note",\n\n "text":\n"a"}'
    sent = await api.post("/sessions/b/events", content=raw, headers={"Content-Type": "application/json"})
    assert sent.is_success, sent.text
    for form in ("managed-agents", "jsonl"):
        answer = await api.get("/sessions/b/export", params={"format": form})
        json.loads(answer.content)  # one value


@pytest.mark.parametrize(
    ("limits", "status", "expected"),
    [({}, 429, "too_many_exports"), ({"exports_max": 1, "exports_per_key_max": 5}, 503, "overloaded")],
)
async def test_how_many_at_a_time(tmp_path: Path, limits: dict[str, int], status: int, expected: str) -> None:
    async with (
        local_server(tmp_path / "data", limits=replace(DEFAULT_LIMITS, **limits)) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as client,
    ):
        body = [{"type": "note", "text": "x" * 7_000}] * 1_000
        for _ in range(8):
            assert (await client.post("/sessions/s/events", json={"events": body})).is_success
        # More than pipes and sockets hold, and nobody reads it.
        asked = client.build_request("GET", "/sessions/s/export")
        slow = await client.send(asked, stream=True)
        assert slow.status_code == 200
        refused = await client.get("/sessions/s/export")
        assert (refused.status_code, code(refused)) == (status, expected), refused.text
        await slow.aclose()  # who goes away makes room
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await client.get("/sessions/s/export?limit=1")).status_code != 200:
                await asyncio.sleep(0.01)


async def test_a_key_of_another_workspace_exports_nothing(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data", api_key=BOOTSTRAP) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as client,
    ):
        stranger = await make_key(server.url, "admin", "other")
        assert (await client.put("/sessions/s", json={}, headers=bearer(BOOTSTRAP))).is_success
        seen = await client.get("/sessions/s/export", headers=bearer(stranger["secret"]))
        assert (seen.status_code, code(seen)) == (404, "session_not_found")
        assert (await client.get("/sessions/s/export")).status_code == 401
