"""Redaction over HTTP: gone from every answer at once, and from every file within the promised time."""

import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.log.disk import REAL_DISK
from durable_sessions.settings import load
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import BOOTSTRAP, bearer, make_secret
from tests.support.refusals import error_code
from tests.support.stored_bytes import files_with
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.anyio

SECRET = "xylophonesecret"
QUICK = replace(
    DEFAULT_LIMITS,
    maintenance_seconds=0.02,
    delete_within_seconds=1.0,
    garbage_grace_seconds=0.1,
    manifests_kept_max=2,
)


async def said(api: httpx2.AsyncClient, session: str, *texts: str, **more: Any) -> list[dict[str, Any]]:
    """Append messages and return them as they are stored."""
    events = [{"type": "user.message", "content": [{"type": "text", "text": text}], **more} for text in texts]
    headers = {"Prefer": "return=representation"}
    answer = await api.post(f"/sessions/{session}/events", json={"events": events}, headers=headers)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"])


async def redact(
    api: httpx2.AsyncClient, session: str, *events: str, reason: str = "asked for", **more: Any
) -> httpx2.Response:
    body = {"events": events, "reason": reason, **more}
    return await api.post(f"/sessions/{session}/redact", json=body)


async def answers(api: httpx2.AsyncClient, session: str) -> dict[str, str]:
    """Return everything that can be asked of a session, by path."""
    ids = [event["id"] for event in (await api.get(f"/sessions/{session}/events")).json()["data"]]
    paths = [
        f"/sessions/{session}",
        f"/sessions/{session}/events",
        f"/sessions/{session}/events?order=desc",
        f"/sessions/{session}/events?tail=1000",
        f"/sessions/{session}/events?types[]=user.message",
        f"/stream/sessions/{session}",
        f"/sessions/{session}/events?q={SECRET}",
        f"/search?q={SECRET}",
        *(f"/sessions/{session}/events/{event}" for event in ids),
    ]
    found = {}
    for path in paths:
        answer = await api.get(path)
        assert answer.status_code == 200, (path, answer.text)
        found[path] = answer.text
    return found


async def test_what_is_left_of_an_event_and_what_is_not(api: httpx2.AsyncClient) -> None:
    first, second = await said(api, "s", f"the {SECRET} of today", "nothing")
    stored = (await api.get(f"/sessions/s/events/{first['id']}")).content
    done = await redact(api, "s", first["id"], reason="a password")
    assert done.status_code == 200
    record = done.json()["event"]
    digest = hashlib.sha256(stored).hexdigest()
    assert record["type"] == "ds.redacted"
    assert record["reason"] == "a password"
    assert record["events"] == [
        {
            "id": first["id"],
            "offset": first["offset"],
            "type": "user.message",
            "sha256": digest,
            "bytes": len(stored),
        }
    ]
    left = (await api.get(f"/sessions/s/events/{first['id']}")).json()
    assert left == {
        **{name: first[name] for name in ("id", "offset", "created_at", "processed_at", "actor", "type")},
        "redacted": {
            "event": record["id"],
            "at": record["created_at"],
            "reason": "a password",
            "sha256": digest,
            "bytes": len(stored),
        },
    }
    page = (await api.get("/sessions/s/events")).json()["data"]
    assert page == [left, second, record]
    for path, answer in (await answers(api, "s")).items():
        said_of_it = json.loads(answer) if "?q=" in path else None
        assert SECRET not in answer or (said_of_it is not None and not said_of_it.get("data")), path


async def test_redacting_again_is_answered_again_and_changes_nothing(api: httpx2.AsyncClient) -> None:
    (first,) = await said(api, "s", SECRET)
    done = await redact(api, "s", first["id"])
    again = await redact(api, "s", first["id"], reason="another reason")
    assert again.json() == done.json()
    assert len((await api.get("/sessions/s/events")).json()["data"]) == 2


async def test_an_event_that_only_looks_redacted_is_redacted(api: httpx2.AsyncClient) -> None:
    mark = {"event": None, "at": "2026-01-01T00:00:00Z", "reason": SECRET, "sha256": None, "bytes": 1}
    forged = {"type": "app.note", "redacted": mark}
    answer = await api.post("/sessions/s/events", json=forged, headers={"Prefer": "return=representation"})
    (stored,) = answer.json()["data"]
    assert (await redact(api, "s", stored["id"])).status_code == 200
    assert SECRET not in (await api.get("/sessions/s/events")).text


async def test_what_others_count_by_stays(api: httpx2.AsyncClient) -> None:
    usage = {"input_tokens": 7, "note": SECRET, "cache_creation": {"ephemeral_5m_input_tokens": 1}}
    events: list[dict[str, Any]] = [
        {"type": "agent.tool_use", "name": SECRET, "input": {"a": SECRET}, "effect": "read_only"},
        {"type": "agent.tool_result", "tool_use_id": "call-1", "is_error": True, "content": SECRET},
        {"type": "span.model_request_end", "model_usage": usage, "cost_usd": 0.5, "model": SECRET},
        {"type": "app.row", "slot": ["a", "b"], "session_thread_id": "t1", "text": SECRET, "id": "mine"},
        {"type": "ds.fact", "key": "city", "value": SECRET, "refs": [{"rel": "because", "id": "mine"}]},
    ]
    answer = await api.post(
        "/sessions/s/events", json={"events": events}, headers={"Prefer": "return=representation"}
    )
    ids = [event["id"] for event in answer.json()["data"]]
    assert (await redact(api, "s", *ids, digest=False)).status_code == 200
    page = await api.get("/sessions/s/events")
    assert SECRET not in page.text
    call, result, span, row, fact, record = page.json()["data"]
    assert call["effect"] == "read_only"
    assert (result["tool_use_id"], result["is_error"]) == ("call-1", True)
    assert span["model_usage"] == {"input_tokens": 7, "cache_creation": {"ephemeral_5m_input_tokens": 1}}
    assert span["cost_usd"] == 0.5
    assert (row["slot"], row["session_thread_id"]) == (["a", "b"], "t1")
    assert (fact["key"], fact["value"], fact["refs"]) == ("city", None, events[4]["refs"])
    assert {one["sha256"] for one in record["events"]} == {None}
    # A repeat of an event under its id is still recognised, and answered with what is left.
    again = await api.post("/sessions/s/events", json=events[3], headers={"Prefer": "return=representation"})
    assert again.json()["data"] == [row]


async def test_attributes_that_hold_its_texts_are_rewritten_in_forks_too(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/s", json={"title": f"the {SECRET}…"})
    (first,) = await said(api, "s", f"the {SECRET} of today")
    outcome = {"type": "user.define_outcome", "description": SECRET}
    answer = await api.post("/sessions/s/events", json=outcome, headers={"Prefer": "return=representation"})
    (defined,) = answer.json()["data"]
    await api.put("/sessions/fork", headers={"Stream-Forked-From": "/v1/sessions/s"})
    assert SECRET in (await api.get("/sessions/fork")).text
    assert (await redact(api, "fork", first["id"], defined["id"])).status_code == 200
    for session in ("s", "fork"):
        assert SECRET not in (await api.get(f"/sessions/{session}")).text
        assert SECRET not in (await api.get(f"/sessions/{session}/events")).text
    assert (await api.get("/sessions/s")).json()["title"] is None


async def test_closed_and_archived_sessions_can_be_redacted(api: httpx2.AsyncClient) -> None:
    for session, end in (("c", "close"), ("a", "archive")):
        (first,) = await said(api, session, SECRET)
        await api.post(f"/sessions/{session}/{end}")
        done = await redact(api, session, first["id"])
        assert (done.status_code, done.json()) == (200, {"event": None})
        left = (await api.get(f"/sessions/{session}/events/{first['id']}")).json()
        assert left["redacted"]["event"] is None
        assert (await redact(api, session, first["id"])).json() == {"event": None}


async def test_what_cannot_be_redacted(api: httpx2.AsyncClient) -> None:
    (first,) = await said(api, "s", SECRET)
    record = (await redact(api, "s", first["id"])).json()["event"]
    assert (await redact(api, "s", record["id"])).status_code == 400
    assert error_code(await redact(api, "s", "sevt_nothing")) == "event_not_found"
    assert error_code(await redact(api, "nobody", first["id"])) == "session_not_found"
    for body in (
        {},
        {"events": [], "reason": "x"},
        {"events": ["a"] * (DEFAULT_LIMITS.redacted_events_max + 1), "reason": "x"},
        {"events": ["a"], "reason": ""},
        {"events": ["a"], "reason": "x" * (DEFAULT_LIMITS.redaction_reason_max + 1)},
        {"events": ["a"], "reason": "x", "artifacts": ["z"]},
        {"events": ["a"], "reason": "x", "why": 1},
    ):
        assert (await api.post("/sessions/s/redact", json=body)).status_code == 400, body
    most, longest = DEFAULT_LIMITS.redacted_events_max, DEFAULT_LIMITS.redaction_reason_max
    answer = await redact(api, "s", *([first["id"]] * most), reason="x" * longest)
    assert answer.status_code == 200


async def test_a_client_cannot_write_the_record_of_a_redaction(api: httpx2.AsyncClient) -> None:
    answer = await api.post("/sessions/s/events", json={"type": "ds.redacted", "events": [], "reason": "x"})
    assert error_code(answer) == "invalid_event"


async def test_artifacts_are_redacted_with_the_events(server: LocalServer, api: httpx2.AsyncClient) -> None:
    data = SECRET.encode()
    digest = hashlib.sha256(data).hexdigest()
    (first,) = await said(api, "s", "see the artifact")
    assert error_code(await redact(api, "s", first["id"], artifacts=[digest])) == "artifact_not_found"
    await api.put(f"/artifacts/{digest}", content=data)
    done = await redact(api, "s", first["id"], artifacts=[digest])
    assert done.json()["event"]["artifacts"] == [digest]
    for answer in (
        await api.get(f"/artifacts/{digest}"),
        await api.put(f"/artifacts/{digest}", content=data),
    ):
        assert (answer.status_code, error_code(answer)) == (410, "artifact_redacted")
    files = [path for path in (server.data / "bucket").rglob("*") if path.is_file()]
    assert not [path for path in files if data in path.read_bytes()]
    assert (await redact(api, "s", first["id"], artifacts=[digest])).status_code == 200


async def test_only_an_admin_redacts_and_the_audit_tells(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data", api_key=BOOTSTRAP) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
    ):
        writer, admin = bearer(await make_secret(server.url, "writer")), bearer(BOOTSTRAP)
        answer = await api.post(
            "/sessions/s/events",
            json={"type": "app.note", "text": SECRET},
            headers={**writer, "Prefer": "return=representation"},
        )
        (first,) = answer.json()["data"]
        body = {"events": [first["id"]], "reason": "asked for"}
        refused = await api.post("/sessions/s/redact", json=body, headers=writer)
        assert refused.status_code == 403
        assert (await api.post("/sessions/s/redact", json=body, headers=admin)).status_code == 200
        acts = (await api.get("/audit", headers=admin)).json()["data"]
        (act,) = [act for act in acts if act["type"] == "session.redacted"]
        assert (act["session"], act["events"], act["reason"]) == ("s", [first["id"]], "asked for")


async def test_etags_count_erasures(api: httpx2.AsyncClient) -> None:
    (first,) = await said(api, "s", SECRET)
    before = await api.get("/stream/sessions/s")
    assert "no-cache" in before.headers["cache-control"]
    await api.post("/sessions/s/close")
    closed = await api.get("/stream/sessions/s")
    await redact(api, "s", first["id"])
    after = await api.get("/stream/sessions/s", headers={"If-None-Match": closed.headers["etag"]})
    assert after.status_code == 200
    assert SECRET not in after.text


async def test_a_follower_who_comes_later_gets_the_tombstone(api: httpx2.AsyncClient) -> None:
    """Frames are encoded once for all followers: those of erased events must not be sent again."""
    (first,) = await said(api, "s", SECRET)

    async def replayed() -> str:
        text = ""
        async with api.stream("GET", "/stream/sessions/s?offset=-1&live=sse") as answer:
            async for chunk in answer.aiter_text():
                text += chunk
                if "upToDate" in text:
                    return text
        return text

    async with api.stream("GET", "/stream/sessions/s?offset=-1&live=sse") as held:
        await anext(held.aiter_text())  # so that the frames stay in memory
        assert SECRET in await replayed()
        await redact(api, "s", first["id"])
        assert SECRET not in await replayed()


async def test_a_legal_hold_refuses(tmp_path: Path) -> None:
    file = tmp_path / "ds.toml"
    file.write_text('port = 0\n[[retention]]\nprefix = "sessions/held"\nhold = true\n')
    server = LocalServer(load({"data": tmp_path / "data"}, {}, file), None, None, REAL_DISK)
    await server.start()
    try:
        async with httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api:
            (first,) = await said(api, "held", SECRET)
            assert error_code(await redact(api, "held", first["id"])) == "legal_hold"
            # A fork that is held keeps what it shows of a session that is not.
            (free,) = await said(api, "free", SECRET)
            await api.put("/sessions/held-fork", headers={"Stream-Forked-From": "/v1/sessions/free"})
            assert error_code(await redact(api, "free", free["id"])) == "legal_hold"
            assert SECRET in (await api.get("/sessions/free/events")).text
    finally:
        await server.stop()


# The bytes ------------------------------------------------------------------------------


@pytest.fixture
async def quick(tmp_path: Path) -> AsyncIterator[LocalServer]:
    async with local_server(tmp_path / "data", limits=QUICK, flush_seconds=0.1) as server:
        yield server


@pytest.mark.parametrize("flushed", [False, True])
async def test_no_file_has_the_bytes_after_the_stated_time(quick: LocalServer, flushed: bool) -> None:
    async with httpx2.AsyncClient(base_url=quick.url + "/v1", timeout=PATIENCE_SECONDS) as api:
        await api.put("/sessions/s", json={"title": f"the {SECRET}"})
        first, _ = await said(api, "s", f"the {SECRET} of today", "nothing else")
        await api.get(f"/search?q={SECRET}")  # so that it is in the index
        if flushed:
            await api.post("/admin/flush")
        assert files_with(quick.data, SECRET.encode())
        assert (await redact(api, "s", first["id"])).status_code == 200
        await until(lambda: not files_with(quick.data, SECRET.encode()))
        page = await api.get("/sessions/s/events")
        assert SECRET not in page.text
        await quick.restart()
        assert (await api.get("/sessions/s/events")).text == page.text
        await until(lambda: not files_with(quick.data, SECRET.encode()))
        found = (await api.get("/search?q=nothing")).json()
        assert found["data"], "what was not redacted is found again"
        assert not (await api.get(f"/search?q={SECRET}")).json()["data"]


@pytest.mark.parametrize("by_store", [False, True])
async def test_no_file_has_what_a_memory_said_after_the_stated_time(
    quick: LocalServer, by_store: bool
) -> None:
    async with httpx2.AsyncClient(base_url=quick.url + "/v1", timeout=PATIENCE_SECONDS) as api:
        store = (await api.post("/memory_stores", json={"name": "notes"})).json()["id"]
        because = [{"rel": "because", "id": "proof"}]
        write = {
            "type": "ds.memory.written",
            "id": "w",
            "scope": f"store:{store}",
            "key": "/a",
            "value": SECRET,
        }
        told = [{"type": "note", "id": "proof"}, {**write, "why": "state", "refs": because}]
        sent = await api.post("/sessions/s/events", json=told)
        assert sent.status_code == 204, sent.text
        scope = {"scope": f"store:{store}"}
        await api.get("/memory", params=scope | {"q": SECRET})  # so that it is in the index
        await api.get("/sessions/s/state")
        await api.post("/admin/flush")
        assert files_with(quick.data, SECRET.encode())
        if by_store:
            versions = f"/memory_stores/{store}/memory_versions"
            (version,) = (await api.get(versions)).json()["data"]
            assert (await api.post(f"{versions}/{version['id']}/redact")).status_code == 200
        else:
            assert (await redact(api, "s", "w")).status_code == 200
        for path in ("/sessions/s/events", "/sessions/s/state", "/sessions/s/graph", "/search?q=*"):
            assert SECRET not in (await api.get(path)).text
        for query in ({}, {"at": "1"}, {"q": SECRET}):
            assert SECRET not in (await api.get("/memory", params=scope | query)).text
        await until(lambda: not files_with(quick.data, SECRET.encode()))


async def test_no_outline_keeps_what_was_erased_or_deleted(quick: LocalServer) -> None:
    """Names of tools are in outlines: they go from answers at once, and from the file in time."""
    calls = [
        {"id": f"call-{number}", "type": "agent.tool_use", "name": name}
        for number, name in enumerate((SECRET, "bash"))
    ]
    async with httpx2.AsyncClient(base_url=quick.url + "/v1", timeout=PATIENCE_SECONDS) as api:
        for session in ("redacted", "deleted"):
            assert (await api.post(f"/sessions/{session}/events", json={"events": calls})).status_code == 204
        await api.put("/sessions/fork", headers={"Stream-Forked-From": "/v1/sessions/redacted"})
        for session in ("redacted", "deleted", "fork"):
            assert SECRET in (await api.get(f"/sessions/{session}/outline")).json()["names"]
        assert any("views.sqlite" in name for name in files_with(quick.data, SECRET.encode()))
        assert (await redact(api, "redacted", "call-0")).status_code == 200
        for session in ("redacted", "fork"):
            names = (await api.get(f"/sessions/{session}/outline")).json()["names"]
            assert SECRET not in names
            block = (await api.get(f"/sessions/{session}/outline?from=0")).json()["columns"]
            assert names[block["name"][1] - 1] == "bash"
        assert (await api.delete("/sessions/deleted")).status_code in (200, 204)
        await until(lambda: not any("views" in name for name in files_with(quick.data, SECRET.encode())))
