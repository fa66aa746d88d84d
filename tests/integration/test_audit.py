"""The audit record: every administrative act, durable, for the admins of the workspace it is about."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs

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
