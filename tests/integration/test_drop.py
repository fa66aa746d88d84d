"""Dropping slots erases the events that held them, for whoever did not fork before."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.log.disk import REAL_DISK
from durable_sessions.settings import load
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.refusals import error_code
from tests.support.stored_bytes import files_with
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.anyio

SECRET = "xylophonerow"
NEVER_STORED = "glockenspielrow"


async def send(api: httpx2.AsyncClient, *events: dict[str, Any]) -> list[dict[str, Any]]:
    headers = {"Prefer": "return=representation"}
    answer = await api.post("/sessions/s/events", json={"events": events}, headers=headers)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"])


async def kept(api: httpx2.AsyncClient, session: str = "s") -> list[str]:
    """Return the texts of a session's events, "-" for those that were dropped."""
    events = (await api.get(f"/sessions/{session}/events")).json()["data"]
    return ["-" if "dropped" in event else event.get("text", "") for event in events]


async def test_events_that_hold_nothing_any_more_are_dropped(api: httpx2.AsyncClient) -> None:
    await send(
        api,
        {"type": "app.row", "slot": "row/1", "text": f"{SECRET} old"},
        {"type": "app.row", "slot": "row/1", "text": f"{SECRET} new", "id": "mine"},
        {"type": "app.row", "slot": ["row/1b", "kept"], "text": "holds another"},
        {"type": "agent.message", "slot": "row/2", "text": "of a run"},
        {"type": "app.row", "slot": "other", "text": "other"},
    )
    (drop,) = await send(api, {"type": "app.prune", "slot_prefix": "row/", "slot_empty": "drop"})
    assert await kept(api) == ["-", "-", "holds another", "of a run", "other", ""]
    left = (await api.get("/sessions/s/events/mine")).json()
    assert left["slot"] == "row/1"
    assert left["dropped"]["by"] == drop["id"]
    assert set(left["dropped"]) == {"by", "bytes", "sha256"}
    assert SECRET not in (await api.get("/stream/sessions/s")).text
    assert not (await api.get(f"/search?q={SECRET}")).json()["data"]
    await send(api, {"type": "app.prune", "slot": "kept", "slot_empty": "drop"})
    assert (await kept(api))[2] == "-"
    await send(api, {"type": "app.prune", "slot": "other", "slot_empty": "keep"})
    assert (await kept(api))[4] == "other"


async def test_what_forks_show_stays_for_them(api: httpx2.AsyncClient) -> None:
    await send(api, {"type": "app.row", "slot": "a", "text": "row"})
    await api.put("/sessions/before", headers={"Stream-Forked-From": "/v1/sessions/s"})
    await send(api, {"type": "app.prune", "slot": "a", "slot_empty": "drop"})
    await api.put("/sessions/after", headers={"Stream-Forked-From": "/v1/sessions/s"})
    assert await kept(api) == ["-", ""]
    assert await kept(api, "before") == ["row"]
    assert await kept(api, "after") == ["-", ""]


async def test_a_repeat_drops_nothing_again_and_a_new_holder_stays(api: httpx2.AsyncClient) -> None:
    await send(api, {"type": "app.row", "slot": "a", "text": "old"})
    prune = {"type": "app.prune", "id": "p", "slot": "a", "slot_empty": "drop"}
    await send(api, prune)
    await send(api, {"type": "app.row", "slot": "a", "text": "new"})
    await send(api, prune)
    assert await kept(api) == ["-", "", "new"]


async def test_what_is_dropped_by_its_own_append_is_never_stored(api: httpx2.AsyncClient) -> None:
    sent: list[dict[str, Any]] = [
        {
            "type": "app.row",
            "id": "mine",
            "slot": "row/1",
            "text": SECRET,
            "refs": 7,
            "session_thread_id": "t",
        },
        {"type": "app.row", "slot": ["row/2", "kept"], "text": "holds another"},
        {"type": "agent.message", "slot": "row/3", "text": "of a run"},
        {"type": "app.prune", "slot_prefix": "row/", "slot_empty": "drop"},
        {"type": "app.row", "slot": "row/1", "text": "new"},
    ]
    stored = await send(api, *sent)
    assert await kept(api) == ["-", "holds another", "of a run", "", "new"]
    left = (await api.get("/sessions/s/events/mine")).json()
    assert stored[0] == left, "the answer shows what was stored"
    assert {key: left[key] for key in ("slot", "session_thread_id")} == {
        "slot": "row/1",
        "session_thread_id": "t",
    }
    assert left["dropped"]["by"] == stored[3]["id"]
    assert left["dropped"]["bytes"] > len(SECRET)
    assert "refs" not in left
    holders = (await api.get("/sessions/s/slots?prefix=&values=false")).json()["data"]
    assert {one["slot"]: one["id"] for one in holders} == {"kept": stored[1]["id"], "row/1": stored[4]["id"]}
    await send(api, sent[0])  # the same, by its id
    assert len(await kept(api)) == 5
    # Again, with an event of which there is no telling that it was there: it drops what is new.
    await send(api, sent[0], {"type": "app.row", "slot": "row/9", "text": SECRET}, sent[3])
    assert await kept(api) == ["-", "holds another", "of a run", "", "-", "-", ""]


async def test_the_digest_of_what_is_dropped_at_once_is_that_of_the_event_as_it_would_be_stored(
    api: httpx2.AsyncClient,
) -> None:
    row = {"type": "app.row", "slot": "a", "text": SECRET}
    prune = {"type": "app.prune", "slot": "a", "slot_empty": "drop"}
    (left, _) = await send(api, row, prune)
    front = {name: left[name] for name in ("id", "offset", "created_at", "processed_at", "actor")}
    would_be = json.dumps({**front, **row}, separators=(",", ":")).encode()
    assert left["dropped"]["bytes"] == len(would_be)
    assert left["dropped"]["sha256"] == hashlib.sha256(would_be).hexdigest()


async def test_a_new_session_can_begin_with_what_it_drops(api: httpx2.AsyncClient) -> None:
    events = [
        {"type": "app.row", "slot": "a", "text": SECRET},
        {"type": "app.prune", "slot": "a", "slot_empty": "drop"},
    ]
    await api.post("/sessions", json={"id": "s", "initial_events": events})
    await api.post("/sessions/t/events", json=events)
    assert await kept(api, "s") == await kept(api, "t") == ["-", ""]


async def test_a_hold_and_the_bound_refuse(tmp_path: Path) -> None:
    file = tmp_path / "ds.toml"
    file.write_text('port = 0\n[[retention]]\nprefix = "sessions/held"\nhold = true\n')
    limits = replace(DEFAULT_LIMITS, dropped_events_max=2)
    server = LocalServer(load({"data": tmp_path / "data"}, {}, file), limits, None, REAL_DISK)
    await server.start()
    try:
        async with httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api:
            prune = {"type": "app.prune", "slot": "a", "slot_empty": "drop"}
            at_once = await api.post("/sessions/held/events", json=[{"type": "app.row", "slot": "a"}, prune])
            assert error_code(at_once) == "legal_hold"
            assert (await api.get("/sessions/held")).status_code == 404, "nothing was stored"
            for session, count, code in (("held", 1, "legal_hold"), ("s", 3, "invalid_event"), ("t", 2, "")):
                path = f"/sessions/{session}/events"
                await api.post(path, json=[{"type": "app.row", "slot": "a"}] * count)
                answer = await api.post(path, json=prune)
                assert answer.status_code == 204 if not code else error_code(answer) == code
    finally:
        await server.stop()


async def test_dropped_bytes_leave_every_file(tmp_path: Path) -> None:
    limits = replace(
        DEFAULT_LIMITS, maintenance_seconds=0.02, delete_within_seconds=1.0, garbage_grace_seconds=0.1
    )
    async with (
        local_server(tmp_path / "data", limits=limits, flush_seconds=0.1) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
    ):
        await send(api, {"type": "app.row", "slot": "a", "text": SECRET})
        await api.post("/admin/flush")
        assert files_with(server.data, SECRET.encode())
        await send(api, {"type": "app.prune", "slot": "a", "slot_empty": "drop"})
        never = {"type": "app.row", "slot": "b", "text": NEVER_STORED}
        await send(api, never, {"type": "app.prune", "slot": "b", "slot_empty": "drop"})
        assert not files_with(server.data, NEVER_STORED.encode())
        await until(lambda: not files_with(server.data, SECRET.encode()))
        assert await kept(api) == ["-", "", "-", ""]
