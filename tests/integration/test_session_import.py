"""Imports: events of another server are stored as they are, and marked as trusted or not."""

from pathlib import Path

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import local_server
from tests.support.keys import BOOTSTRAP, bearer, make_secret
from tests.support.refusals import error_code
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

REDACTED = {"type": "ds.redacted", "events": [], "reason": "there", "original_actor": "ann"}


async def test_imported_events_are_marked_by_the_role_of_who_sends_them(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data", api_key=BOOTSTRAP) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
    ):
        roles = {"trusted": BOOTSTRAP, "untrusted": await make_secret(server.url, "evaluator")}
        for mark, secret in roles.items():
            said = {**bearer(secret), "Session-Import": "elsewhere", "Prefer": "return=representation"}
            forged = {"type": "app.note", "imported": "trusted", "text": "a"}
            answer = await api.post("/sessions/s/events", json=[REDACTED, forged], headers=said)
            assert answer.status_code == 200, answer.text
            for event in answer.json()["data"]:
                assert event["imported"] == mark
                assert list(event)[:6] == ["id", "offset", "created_at", "processed_at", "actor", "imported"]
            assert answer.text.count('"imported"') == 2
            there = await api.post("/stream/sessions/s", json=REDACTED, headers=said)
            assert there.status_code == 204, there.text
        events = (await api.get("/sessions/s/events", headers=bearer(BOOTSTRAP))).json()["data"]
        assert [event["imported"] for event in events] == ["trusted"] * 3 + ["untrusted"] * 3


async def test_an_imported_event_under_an_id_is_recognised_when_it_is_sent_again(
    api: httpx2.AsyncClient,
) -> None:
    said = {"Session-Import": "elsewhere", "Prefer": "return=representation"}
    event = {"type": "app.note", "id": "one", "text": "a"}
    first = await api.post("/sessions/s/events", json=event, headers=said)
    again = await api.post("/sessions/s/events", json=event, headers=said)
    assert again.json() == first.json()
    assert "events-differ" not in again.headers
    changed = await api.post("/sessions/s/events", json={**event, "text": "b"}, headers=said)
    assert changed.headers["events-differ"] == "0"


async def test_without_the_header_nothing_is_marked_and_the_servers_types_are_refused(
    api: httpx2.AsyncClient,
) -> None:
    await api.post("/sessions/s/events", json={"type": "app.note"})
    (event,) = (await api.get("/sessions/s/events")).json()["data"]
    assert "imported" not in event
    refused = await api.post("/sessions/s/events", json=[{"type": "app.note"}, REDACTED])
    assert error_code(refused) == "invalid_event"


async def test_the_source_has_a_name_of_a_hundred_bytes_at_most(api: httpx2.AsyncClient) -> None:
    most = DEFAULT_LIMITS.import_source_max
    for size, status in ((most, 204), (most + 1, 400)):
        answer = await api.post(
            "/sessions/s/events", json={"type": "app.note"}, headers={"Session-Import": "x" * size}
        )
        assert answer.status_code == status
