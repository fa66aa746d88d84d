"""Memory where scopes and sessions are in different partitions, and crashes between the two steps."""

from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.bucket.store import Bucket
from durable_sessions.http.api.memory_owner import MemoryOwner
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.sessions.memory.records import FOLDER
from durable_sessions.streams.outbox import OwedRecord
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.testing.server import LocalServer, local_server
from durable_sessions.tools.repartition import Repartition
from tests.support.differential import rivals
from tests.support.sessions import code
from tests.support.stopped import stopped
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

SCOPE = "project:calc"
OF = 3
MEMORY = home_partition("default", FOLDER, OF)


def partition_of(session: str) -> int:
    return home_partition("default", f"sessions/{session}", OF)


FAR = next(f"s{number}" for number in count() if partition_of(f"s{number}") != MEMORY)
NEAR = next(f"s{number}" for number in count() if partition_of(f"s{number}") == MEMORY)
NOTE = {"type": "note", "id": "n"}
IMPATIENT = replace(DEFAULT_LIMITS, memory_delivery_seconds_max=0.2, outbox_retry_seconds_max=0.2)


def written(key: str, value: Any, **more: Any) -> dict[str, Any]:
    said = {"type": "ds.memory.written", "scope": SCOPE, "key": key, "value": value, "why": "state"}
    return {**said, "refs": [{"rel": "because", "id": "n"}], **more}


def client_of(server: LocalServer) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS)


async def values(api: httpx2.AsyncClient) -> list[Any]:
    answer = await api.get("/memory", params={"scope": SCOPE})
    assert answer.status_code == 200, answer.text
    return [entry["value"] for entry in answer.json()["data"]]


async def log(api: httpx2.AsyncClient) -> list[str]:
    answer = await api.get("/memory/log", params={"scope": SCOPE})
    return [f"{line['type']} {line.get('key', '')}".strip() for line in answer.json()["data"]]


async def test_the_same_answers_as_with_one_partition(tmp_path: Path) -> None:
    async with rivals(tmp_path) as all_of_them:
        ask = all_of_them.ask
        shown = {"Prefer": "return=representation"}
        for number in range(6):
            path = f"/v1/sessions/s{number}"
            await ask("POST", f"{path}/events", json=[NOTE, written("k", number, id="w")], headers=shown)
            await ask("POST", f"{path}/events", json=[written(f"k{number}", "words here")], headers=shown)
            await ask("POST", f"{path}/recall", json={"scope": SCOPE, "q": "words", "influence": "planning"})
            await ask("POST", f"{path}/recall", json={"scope": SCOPE, "key": "k"})
            await ask("GET", f"{path}/state")
        undo = {"type": "ds.memory.rolled_back", "write": "w", "session": "s5", "reason": "wrong"}
        for number in range(3):
            await ask("POST", f"/v1/sessions/s{number}/events", json=undo, headers=shown)
        read = {"type": "ds.memory.read", "scope": SCOPE, "at": 3, "backend": "mine"}
        for returned in ([{"id": "w", "session": "s2"}], [{"id": "w", "session": "none"}]):
            event = {**read, "returned": returned}
            await ask("POST", "/v1/sessions/s4/events", json=event, headers=shown)
        await ask("POST", "/v1/sessions/s1/redact", json={"events": ["w"], "reason": "secret"})
        await all_of_them.restart()
        for query in ({}, {"key": "k"}, {"q": "words"}, {"at": "5"}, {"limit": "2"}):
            await ask("GET", "/v1/memory", params={"scope": SCOPE, **query})
        await ask("GET", "/v1/memory/log", params={"scope": SCOPE})
        await ask("GET", "/v1/memory/scopes")
        await ask("DELETE", "/v1/sessions/s2")
        await ask("POST", "/v1/sessions/s3/events", json={**undo, "session": "s2"}, headers=shown)
        status, _, body = await ask("GET", "/v1/memory", params={"scope": SCOPE, "key": "k"})
        assert (status, body["data"][0]["value"]) == (200, 4)


@pytest.mark.parametrize("taken", [False, True], ids=["before it is taken", "before it is acknowledged"])
async def test_a_crash_between_the_steps_delays_the_record_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    deliver = MemoryOwner.deliver

    async def cut(self: MemoryOwner, record: OwedRecord) -> None:
        if taken:
            await deliver(self, record)
        raise OSError("cut off")

    async with local_server(tmp_path / "data", partitions=OF, limits=IMPATIENT) as server:
        async with client_of(server) as api:
            assert (await api.post(f"/sessions/{FAR}/events", json=NOTE)).status_code == 204
            assert (await api.post(f"/sessions/{NEAR}/events", json=NOTE)).status_code == 204
            monkeypatch.setattr(MemoryOwner, "deliver", cut)
            event = written("k", "far", id="w")
            unknown = await api.post(f"/sessions/{FAR}/events", json=event)
            assert (unknown.status_code, code(unknown)) == (503, "outcome_unknown"), unknown.text
            # The event is durable; the scope has it not yet, or once. A repeat does not pretend otherwise.
            events = (await api.get(f"/sessions/{FAR}/events")).json()["data"]
            assert [one["id"] for one in events] == ["n", "w"]
            assert await log(api) == (["written k"] if taken else [])
            again = await api.post(f"/sessions/{FAR}/events", json=event)
            assert (again.status_code, code(again)) == (503, "outcome_unknown")
            # What needs no other partition goes on.
            assert (await api.post(f"/sessions/{NEAR}/events", json=written("near", 1))).status_code == 204
        await server.restart()
        async with client_of(server) as api:
            stuck = await api.post(f"/sessions/{FAR}/events", json=event)
            assert code(stuck) == "outcome_unknown"
            monkeypatch.setattr(MemoryOwner, "deliver", deliver)
            # With retries the record arrives, once; and then the repeat is answered as it would have been.
            while (answer := await api.post(f"/sessions/{FAR}/events", json=event)).status_code == 503:
                pass
            assert answer.status_code == 204, answer.text
            assert sorted(await log(api)) == ["written k", "written near"]
            assert sorted(map(str, await values(api))) == ["1", "far"]
        await server.restart()
        async with client_of(server) as api:
            assert len(await log(api)) == 2


async def test_a_redaction_that_is_cut_off_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver = MemoryOwner.deliver

    async def cut(self: MemoryOwner, record: OwedRecord) -> None:
        raise OSError("cut off")

    async with local_server(tmp_path / "data", partitions=OF, limits=IMPATIENT) as server:
        async with client_of(server) as api:
            sent = await api.post(f"/sessions/{FAR}/events", json=[NOTE, written("k", "hunter2", id="w")])
            assert sent.status_code == 204, sent.text
            monkeypatch.setattr(MemoryOwner, "deliver", cut)
            body = {"events": ["w"], "reason": "a password"}
            unknown = await api.post(f"/sessions/{FAR}/redact", json=body)
            assert (unknown.status_code, code(unknown)) == (503, "outcome_unknown")
            assert "hunter2" not in (await api.get(f"/sessions/{FAR}/events")).text
        monkeypatch.setattr(MemoryOwner, "deliver", deliver)
        await server.restart()
        async with client_of(server) as api:
            while (answer := await api.post(f"/sessions/{FAR}/redact", json=body)).status_code == 503:
                pass
            assert answer.status_code == 200, answer.text
            assert await values(api) == [None]


async def test_a_store_redacts_what_sessions_of_other_partitions_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        local_server(tmp_path / "data", partitions=OF, limits=IMPATIENT) as server,
        client_of(server) as api,
    ):
        store = (await api.post("/memory_stores", json={"name": "notes"})).json()["id"]
        versions = f"/memory_stores/{store}/memory_versions"
        # A fork lives with its source, whatever partition its name belongs to.
        fork = next(f"f{number}" for number in count() if partition_of(f"f{number}") == MEMORY)
        assert (await api.post(f"/sessions/{FAR}/events", json=NOTE)).is_success
        made = await api.put(f"/sessions/{fork}", headers={"Stream-Forked-From": f"/v1/sessions/{FAR}"})
        assert made.status_code == 201, made.text
        await api.post(f"/sessions/{NEAR}/events", json=NOTE)
        for session in (FAR, NEAR, fork):
            write = written(f"/{session}", "hunter2", id="w", scope=f"store:{store}")
            assert (await api.post(f"/sessions/{session}/events", json=write)).is_success
        wrote = {
            one["created_by"]["session_id"]: one["id"] for one in (await api.get(versions)).json()["data"]
        }
        for session in (NEAR, fork):
            redacted = await api.post(f"{versions}/{wrote[session]}/redact")
            assert redacted.status_code == 200, redacted.text
            assert redacted.json()["redacted_by"] == {"type": "api_actor", "api_key_id": "local"}
            assert (await api.get(f"/sessions/{session}/events/w")).json()["value"] is None
        deliver = MemoryOwner.deliver

        async def cut(self: MemoryOwner, record: OwedRecord) -> None:
            raise OSError("cut off")

        monkeypatch.setattr(MemoryOwner, "deliver", cut)
        unknown = await api.post(f"{versions}/{wrote[FAR]}/redact")
        assert (unknown.status_code, code(unknown)) == (503, "outcome_unknown")
        assert (await api.get(f"/sessions/{FAR}/events/w")).json()["value"] is None
        monkeypatch.setattr(MemoryOwner, "deliver", deliver)
        while (again := await api.post(f"{versions}/{wrote[FAR]}/redact")).status_code == 503:
            pass
        assert again.json()["content"] is None
        assert "hunter2" not in (await api.get("/memory", params={"scope": f"store:{store}"})).text


async def test_a_scope_in_another_partition_is_full_at_the_same_number(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, memory_records_per_scope_max=3)
    async with (
        local_server(tmp_path / "data", partitions=OF, limits=limits) as server,
        client_of(server) as api,
    ):
        for session in (FAR, NEAR):
            await api.post(f"/sessions/{session}/events", json=NOTE)
        for session in (FAR, NEAR, FAR):
            sent = await api.post(f"/sessions/{session}/events", json=written("k", session))
            assert sent.status_code == 204, sent.text
        for session in (FAR, NEAR):
            full = await api.post(f"/sessions/{session}/events", json=written("k", 4))
            assert (full.status_code, code(full)) == (409, "memory_scope_full")
        assert await values(api) == [FAR]


async def test_what_scopes_are_owed_is_delivered_before_the_data_is_divided_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(self: MemoryOwner, record: OwedRecord) -> None:
        raise OSError("cut off")

    data = tmp_path / "data"
    async with local_server(data, partitions=OF, limits=IMPATIENT) as server, client_of(server) as api:
        first = [NOTE, written("old", "a secret", id="o")]
        assert (await api.post(f"/sessions/{FAR}/events", json=first)).is_success
        monkeypatch.setattr(MemoryOwner, "deliver", away)
        unknown = await api.post(f"/sessions/{FAR}/events", json=[written("k", "far", id="w")])
        assert code(unknown) == "outcome_unknown"
        redacted = await api.post(f"/sessions/{FAR}/redact", json={"events": ["o"], "reason": "private"})
        assert code(redacted) == "outcome_unknown"
    monkeypatch.undo()
    for partitions in (2, 1):
        bucket = await Bucket.open(data / "bucket")
        await Repartition(stopped(data), bucket, lambda step: None).run(partitions)
        async with local_server(data) as server, client_of(server) as api:
            assert await log(api) == ["written old", "written k"]
            assert "far" in await values(api)
            shown = (await api.get("/memory/log", params={"scope": SCOPE})).text
            assert "a secret" not in shown
