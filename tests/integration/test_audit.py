"""The audit record: every administrative act, durable, for the admins of the workspace it is about."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs

from durable_sessions.access import audit as audit_module
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import BOOTSTRAP, bearer, make_key, proof
from tests.support.process import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio


def ask(server: LocalServer, secret: str = BOOTSTRAP) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.url, headers=bearer(secret), timeout=PATIENCE_SECONDS)


async def acts(client: httpx2.AsyncClient, query: str = "order=asc") -> list[dict[str, Any]]:
    answer = await client.get("/v1/audit?" + query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


async def test_acts_are_recorded_where_they_belong_and_stay(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP) as server, ask(server) as operator:
        assert await acts(operator) == []
        acme = await make_key(server.url, "admin", "acme")
        reader = await make_key(server.url, "reader", "acme", by=acme["secret"])
        async with ask(server, reader["secret"]) as low:
            refused = await low.post("/v1/keys", json={})
            assert (await low.post("/v1/admin/flush")).status_code == 403
        async with ask(server, acme["secret"]) as admin:
            gone = await admin.delete("/v1/keys/" + reader["id"])
            flushed = await operator.post("/v1/admin/flush")
            await server.restart()
            here, there = await acts(operator), await acts(admin)
    assert [act["type"] for act in here] == ["key.created", "flush.requested"]
    assert [act["type"] for act in there] == [
        "key.created",
        "key.created",
        "act.refused",
        "act.refused",
        "key.revoked",
    ]
    assert here[0] == there[0]
    assert here[0]["actor"] == {"workspace": "default", "principal": "bootstrap", "key_id": "bootstrap"}
    assert here[1]["request_id"] == flushed.headers["request-id"]
    assert (there[2]["request_id"], there[2]["asked"], there[2]["code"]) == (
        refused.headers["request-id"],
        "POST keys",
        "permission_error",
    )
    assert there[2]["actor"]["key_id"] == reader["id"]
    assert (there[4]["request_id"], there[4]["key"]["id"]) == (gone.headers["request-id"], reader["id"])
    assert acme["secret"] not in str(here + there)


async def test_each_act_is_a_log_line_too(server: LocalServer) -> None:
    with capture_logs() as lines:
        async with httpx2.AsyncClient(base_url=server.url, headers=proof(server.data)) as client:
            made = (await client.post("/v1/keys", json={"principal": "ann", "role": "admin"})).json()
    (line,) = [line for line in lines if line["event"] == "audit"]
    assert (line["act"], line["key"]["id"], line["actor"]["principal"]) == (
        "key.created",
        made["id"],
        "local",
    )


async def test_without_keys_nobody_is_known_and_only_the_first_key_is_recorded(server: LocalServer) -> None:
    with capture_logs() as lines:
        async with httpx2.AsyncClient(base_url=server.url) as client:
            assert (
                await client.post("/v1/keys", json={"principal": "p", "role": "reader"})
            ).status_code == 403
            assert (await client.post("/v1/admin/flush")).status_code == 200
            assert await acts(client) == []
            wanted = {"principal": "ann", "role": "admin"}
            made = (await client.post("/v1/keys", json=wanted, headers=proof(server.data))).json()
    said = [line["act"] for line in lines if line["event"] == "audit"]
    assert said == ["act.refused", "flush.requested", "key.created"]
    async with ask(server, made["secret"]) as ann:
        assert [act["type"] for act in await acts(ann)] == ["key.created"]


async def test_pages_go_both_ways_and_stay_right_while_acts_are_added(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP) as server, ask(server) as client:
        for number in range(7):
            await make_key(server.url, "reader", principal=f"p{number}")
            if number == 3:
                await client.post("/v1/admin/flush")

        async def walk(order: str) -> list[str]:
            found: list[str] = []
            page = ""
            while True:
                query = f"limit=3&order={order}" + (f"&page={page}" if page else "")
                answer = (await client.get("/v1/audit?" + query)).json()
                found += [act["key"]["principal"] for act in answer["data"] if "key" in act]
                if order == "desc" and not page:
                    await make_key(server.url, "reader", principal="late")
                page = answer["next_page"]
                if page is None:
                    return found

        names = [f"p{number}" for number in range(7)]
        assert await walk("asc") == names
        assert await walk("desc") == names[::-1]
        assert await walk("asc") == [*names, "late"]
        for query in (
            "limit=0",
            "limit=1001",
            "order=up",
            "page=x",
            "page=a3&order=desc",
            "page=d99&order=asc",
        ):
            assert (await client.get("/v1/audit?" + query)).status_code == 400, query
        assert await acts(client, "order=asc&page=a999") == []


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_pages_are_bounded_in_bytes(tmp_path: Path, order: str) -> None:
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP) as server, ask(server) as client:
        for number in range(7):
            await make_key(server.url, "reader", principal=f"p{number}")
        everything = await acts(client, f"order={order}")
        first_two = sum(len(json.dumps(act, separators=(",", ":"))) for act in everything[:2])
    for spare, count in ((0, 2), (-1, 1), (-first_two + 1, 1)):
        limits = replace(DEFAULT_LIMITS, page_bytes_max=first_two + spare)
        async with (
            local_server(tmp_path / "data", api_key=BOOTSTRAP, limits=limits) as server,
            ask(server) as client,
        ):
            found: list[dict[str, Any]] = []
            page: str | None = ""
            while page is not None:
                answer = (
                    await client.get(f"/v1/audit?order={order}&page={page}".removesuffix("&page="))
                ).json()
                assert not page or answer["data"], "no page is empty"
                assert found or len(answer["data"]) == count
                found += answer["data"]
                page = answer["next_page"]
            assert found == everything


async def test_refusals_are_recorded_at_a_bounded_rate(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP) as server, ask(server) as admin:
        reader = await make_key(server.url, "reader")
        async with ask(server, reader["secret"]) as low:
            for _ in range(40):
                assert (await low.get("/v1/audit")).status_code == 403
        refused = [act for act in await acts(admin) if act["type"] == "act.refused"]
        assert 10 <= len(refused) < 40


def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    environment = {"DURABLE_SESSIONS_API_KEY": BOOTSTRAP}
    with ServerProcess(tmp_path / "data", environment=environment) as server:
        wanted = {"principal": "ann", "role": "reader"}
        httpx2.post(server.url + "/v1/keys", json=wanted, headers=bearer(BOOTSTRAP))
        server.kill()
        server.start()
        found = httpx2.get(server.url + "/v1/audit", headers=bearer(BOOTSTRAP)).json()["data"]
        assert [act["type"] for act in found] == ["key.created"]


# Deletions ------------------------------------------------------------------------------


async def test_deletions_are_recorded_with_what_they_delete(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP) as server:
        writer = await make_key(server.url, "writer", "acme")
        admin = await make_key(server.url, "admin", "acme")
        async with ask(server, writer["secret"]) as low, ask(server, admin["secret"]) as high:
            before = len(await acts(high))
            await low.put("/v1/stream/a/b", headers={"Content-Type": "text/plain"})
            await low.post("/v1/sessions/s/events", json={"type": "note"})
            await low.post("/v1/sessions/t/events", json={"type": "note"})
            config = {"type": "pull-wake", "pattern": "x/**", "wake_stream": "w"}
            made = await low.put("/v1/stream/__ds/subscriptions/sub", json=config)
            assert made.status_code == 201, made.text
            environment = (await low.post("/v1/environments", json={"name": "e"})).json()["id"]
            await low.put(ARTIFACT, content=b"test")
            gone = [
                await low.delete("/v1/stream/a/b"),
                await low.delete("/v1/sessions/s"),
                await low.delete("/v1/stream/sessions/t"),
                await low.delete("/v1/stream/__ds/subscriptions/sub"),
                await low.delete(f"/v1/environments/{environment}"),
                await high.delete(ARTIFACT),
            ]
            assert [answer.status_code for answer in gone] == [204, 200, 204, 204, 200, 204]
            again = [
                await low.delete("/v1/stream/a/b"),
                await low.delete("/v1/sessions/s"),
                await low.delete("/v1/stream/__ds/subscriptions/sub"),
                await high.delete(ARTIFACT),
            ]
            assert [answer.status_code for answer in again] == [404, 404, 204, 204]
            assert (await low.delete(ARTIFACT)).status_code == 403
            await server.restart()
            recorded = [act for act in (await acts(high))[before:] if act["type"] != "act.refused"]
    digest = ARTIFACT.rpartition("/")[2]
    assert [(act["type"], act[act["type"].partition(".")[0]]) for act in recorded] == [
        ("stream.deleted", "a/b"),
        ("session.deleted", "s"),
        ("stream.deleted", "sessions/t"),
        ("subscription.deleted", "sub"),
        ("environment.deleted", environment),
        ("artifact.deleted", digest),
    ], "what was not there is not recorded"
    assert [act["request_id"] for act in recorded] == [answer.headers["request-id"] for answer in gone]
    assert [act["actor"]["key_id"] for act in recorded] == [writer["id"]] * 5 + [admin["id"]]


ARTIFACT = "/v1/artifacts/9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


async def test_deletions_of_nobody_known_are_log_lines(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data") as server,
        httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client,
    ):
        await client.post("/v1/sessions/s/events", json={"type": "note"})
        with capture_logs() as lines:
            assert (await client.delete("/v1/sessions/s")).status_code == 200
    assert [(line["act"], line["session"]) for line in lines if line["event"] == "audit"] == [
        ("session.deleted", "s")
    ]


# Keys that are refused ------------------------------------------------------------------


async def test_refused_keys_are_counted_and_cannot_fill_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "REFUSED_KEY_SECONDS", 1.0)
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP) as server, ask(server) as operator:
        acme = await make_key(server.url, "admin", "acme")
        revoked = await make_key(server.url, "writer", "acme")
        await operator.delete("/v1/keys/" + revoked["id"])
        async with ask(server, "dsk_guess") as stranger, ask(server, revoked["secret"]) as former:
            for _ in range(30):
                assert (await stranger.get("/v1/sessions")).status_code == 401
                assert (await former.get("/v1/sessions")).status_code == 401
            async with httpx2.AsyncClient(base_url=server.url) as nobody:
                assert (await nobody.get("/v1/sessions")).status_code == 401

        async def refused(client: httpx2.AsyncClient) -> list[dict[str, Any]]:
            return [act for act in await acts(client) if act["type"] == "key.refused"]

        async with ask(server, acme["secret"]) as admin:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while sum(act["count"] for act in await refused(operator)) < 30:
                    await asyncio.sleep(0.05)
                while sum(act["count"] for act in await refused(admin)) < 30:
                    await asyncio.sleep(0.05)
            unknown, known = await refused(operator), await refused(admin)
    assert len(unknown) < 30
    assert len(known) < 30
    assert sum(act["count"] for act in unknown) == 30, "no key at all is no key that was refused"
    assert {act["reason"] for act in unknown} == {"unknown"}
    assert {act["reason"] for act in known} == {"revoked"}
    assert {act["actor"]["key_id"] for act in known} == {revoked["id"]}
    assert "dsk_guess" not in str(unknown)
