"""Data that version 0.2.0 wrote, killed while it ran, is opened and used with all that came later.

``written_by_0_2_0.zip`` is not made anew. Its sessions are in the bucket and in the log. Some events have
members that are called ``slot``, which meant nothing then.
"""

import zipfile
from pathlib import Path
from typing import Any

import httpx2

from durable_sessions.streams import offsets
from durable_sessions.testing.session_calls import shown_event
from tests.integration.test_sessions_beside_model import forget_derived
from tests.support.process import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS

EARLIER = Path(__file__).with_name("written_by_0_2_0.zip")


def client_of(server: ServerProcess) -> httpx2.Client:
    return httpx2.Client(base_url=server.url, timeout=PATIENCE_SECONDS)


def events(client: httpx2.Client, name: str) -> list[dict[str, Any]]:
    found = client.get(f"/v1/sessions/{name}/events", params={"order": "asc", "limit": 100})
    return list(found.json()["data"])


def texts(client: httpx2.Client, name: str) -> list[str | None]:
    return [shown_event(event)[1] for event in events(client, name)]


def held(client: httpx2.Client, name: str, at: int | None = None) -> dict[str, int]:
    asked = {"prefix": "", "values": "false"} | ({} if at is None else {"at": str(at)})
    found = client.get(f"/v1/sessions/{name}/slots", params=asked).json()["data"]
    return {one["slot"]: offsets.decode(one["offset"]) for one in found}


def append(client: httpx2.Client, name: str, event: dict[str, object], **beside: object) -> None:
    sent = client.post(f"/v1/sessions/{name}/events", json={"events": [event], **beside})
    assert sent.is_success, sent.text


def listed(client: httpx2.Client, **asked: str) -> list[str]:
    return sorted(one["id"] for one in client.get("/v1/sessions", params=asked).json()["data"])


def seen(client: httpx2.Client) -> dict[str, object]:
    """Return all that this test is about, as clients see it."""
    found: dict[str, object] = {
        "held": listed(client, holding="head"),
        "blue": listed(client, **{"metadata[team]": "blue"}),
    }
    for name in listed(client):
        outline = client.get(f"/v1/sessions/{name}/outline", params={"points": 5}).json()
        found[name] = (events(client, name), held(client, name), held(client, name, 1), outline)
    return found


def test_what_came_later_works_on_sessions_of_an_earlier_version(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with zipfile.ZipFile(EARLIER) as archive:
        archive.extractall(data)
    with ServerProcess(data) as server:
        with client_of(server) as client:
            assert listed(client) == ["fork", "long", "orphan", "plain"]
            assert client.get("/v1/sessions/archived").json()["archived_at"] is not None
            assert listed(client, **{"metadata[team]": "blue"}) == ["fork", "plain"]
            assert client.get("/v1/sessions/orphan").json()["forked_from"]["deleted"] is True
            assert client.get("/v1/sessions/long/outline").json()["events"] == 60
            whole = [None, None, None, None, "old-row-1", "old-row-2", "in-the-log"]
            assert texts(client, "plain") == whole
            assert texts(client, "fork") == [*whole[:5], "of the fork"]
            assert held(client, "plain") == {}, "what was a plain member then takes no slot now"
            append(
                client,
                "plain",
                {"type": "row", "text": "new", "slot": "head"},
                **{"if": {"slots": {"head": None}}},
            )
            assert held(client, "plain") == {"head": 7}
            assert held(client, "plain", 7) == {}
            headers = {"Stream-Forked-From": "/v1/sessions/plain"}
            assert client.put("/v1/sessions/new-fork", headers=headers).is_success
            assert listed(client, holding="head") == ["new-fork", "plain"]
            append(client, "plain", {"type": "row", "slot": "head", "slot_empty": "drop"})
            assert texts(client, "plain") == [*whole, "dropped", None]
            assert texts(client, "new-fork") == [*whole, "new"]
            result = events(client, "plain")[2]["id"]
            erased = {"events": [result, "row-1"], "reason": "a test"}
            assert client.post("/v1/sessions/plain/redact", json=erased).is_success
            for name in ("plain", "fork", "new-fork"):
                assert "secret-harbour" not in str(events(client, name))
                assert texts(client, name)[4] == "redacted"
            assert client.get("/v1/search", params={"q": "harbour"}).json()["data"] == []
            append(client, "gone", {"type": "row", "text": "the next life"})
            assert texts(client, "orphan") == ["deleted"]
            before = seen(client)
        for flushed in (False, True):
            server.terminate()
            if flushed:
                assert "catalog.sqlite" in forget_derived(data)
            server.start()
            with client_of(server) as client:
                assert seen(client) == before
                assert client.post("/v1/admin/flush").is_success
        assert server.terminate() == 0
        assert server.run("verify").stdout.endswith("ok\n")
