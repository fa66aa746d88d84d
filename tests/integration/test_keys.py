"""Keys over HTTP: who is let in, as whom, how fast, and until when."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.limits import DEFAULT_LIMITS as LIMITS
from durable_sessions.retention_policy import RetentionPolicy
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import BOOTSTRAP, bearer, make_key, make_secret, proof
from tests.support.process import ServerProcess
from tests.support.refusals import error_code
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

TEXT = {"Content-Type": "text/plain"}


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[LocalServer]:
    """A server with a bootstrap key."""
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP) as running:
        yield running


def ask(server: LocalServer, secret: str | None = None) -> httpx2.AsyncClient:
    headers = {} if secret is None else bearer(secret)
    return httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=PATIENCE_SECONDS)


async def test_a_name_that_is_declared_is_that_of_the_key(guarded: LocalServer) -> None:
    """The rules about who judges hold by the key; a header must not say that it is somebody else's."""
    made = await make_key(guarded.url, "writer")
    async with ask(guarded, made["secret"]) as client:
        for name, status in ((made["principal"], 204), ("judge", 403)):
            headers = {"Session-Principal": name}
            for path in ("sessions/s/events", "stream/sessions/s"):
                body = {"type": "note"} if path.endswith("events") else [{"type": "note"}]
                answer = await client.post(f"/v1/{path}", json=body, headers=headers)
                assert answer.status_code == status, (path, name)
                if status == 403:
                    assert error_code(answer) == "principal_mismatch"
        events = (await client.get("/v1/sessions/s/events")).json()["data"]
    assert {event["actor"] for event in events} == {made["principal"]}
    assert len(events) == 2


# Letting in -------------------------------------------------------------------------------


async def test_without_keys_everybody_on_this_machine_may_do_everything(server: LocalServer) -> None:
    async with ask(server) as client:
        assert (await client.put("/v1/stream/s")).status_code == 201
        assert (await client.get("/v1/keys")).json() == {"data": [], "next_page": None}
        assert (await client.post("/v1/admin/flush")).status_code == 200
    async with ask(server, "some key of another server") as client:
        assert (await client.get("/v1/stream/s")).status_code == 200


async def test_the_first_key_closes_the_door_at_once(server: LocalServer) -> None:
    async with ask(server) as client:
        await client.put("/v1/stream/s", headers=TEXT, content="mine")
        client.headers.update(proof(server.data))
        refused = await client.post("/v1/keys", json={"principal": "p", "role": "writer"})
        assert refused.status_code == 403
        assert "the role admin in the workspace default" in refused.json()["error"]["message"]
        other = await client.post("/v1/keys", json={"principal": "p", "role": "admin", "workspace": "other"})
        assert other.status_code == 403
        made = await client.post("/v1/keys", json={"principal": "ann", "role": "admin"})
        assert made.status_code == 201
        assert (made.json()["created_by"], made.json()["workspace"]) == ("local", "default")
        shut = await client.get("/v1/stream/s")
        assert (shut.status_code, shut.headers["www-authenticate"]) == (401, "Bearer")
        assert error_code(shut) == "authentication_error"
        assert "none was sent" in shut.json()["error"]["message"]
    async with ask(server, made.json()["secret"]) as ann:
        assert (await ann.get("/v1/stream/s")).text == "mine"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_a_key_is_sent_in_either_header(guarded: LocalServer, scheme: str) -> None:
    async with ask(guarded) as client:
        for headers in ({"Authorization": f"{scheme} {BOOTSTRAP}"}, {"x-api-key": BOOTSTRAP}):
            assert (await client.get("/v1/keys", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": BOOTSTRAP},
        {"Authorization": f"Basic {BOOTSTRAP}"},
        {"Authorization": "Bearer"},
        {"Authorization": f"Bearer {BOOTSTRAP}x"},
        {"Authorization": f"Bearer {BOOTSTRAP[:-1]}"},
        {"Authorization": f"Bearer {BOOTSTRAP}, Bearer {BOOTSTRAP}"},
        {"x-api-key": ""},
        {"x-api-key": "wrong", "Authorization": f"Bearer {BOOTSTRAP}"},
    ],
)
async def test_anything_else_is_not_a_key(guarded: LocalServer, headers: dict[str, str]) -> None:
    async with ask(guarded) as client:
        for path in ("/v1/stream/s", "/v1/keys", "/v1/audit", "/v1/nothing", "/v1/artifacts/" + "0" * 64):
            answer = await client.get(path, headers=headers)
            assert (answer.status_code, error_code(answer)) == (401, "authentication_error"), path


async def test_health_keys_for_signatures_and_preflights_are_public(guarded: LocalServer) -> None:
    async with ask(guarded) as client:
        for path in ("/livez", "/readyz", "/v1/stream/__ds/jwks.json"):
            assert (await client.get(path)).status_code == 200, path
        for path in ("/v1/stream/s", "/v1/stream/__ds/subscriptions/s", "/v1/artifacts/x"):
            assert (await client.options(path)).status_code == 204, path
        assert (await client.options("/v1/keys")).status_code == 401, "no page of another origin manages keys"
        assert (await client.get("/metrics")).status_code == 401
        assert (await client.get("/nothing")).status_code == 404
    async with ask(guarded, await make_secret(guarded.url, "reader")) as reader:
        assert (await reader.get("/metrics")).status_code == 200
    async with ask(guarded, await make_secret(guarded.url, "admin", "other")) as stranger:
        assert (await stranger.get("/metrics")).status_code == 403


async def test_a_key_is_shown_once_and_kept_as_a_hash(guarded: LocalServer) -> None:
    made = await make_key(guarded.url, "writer", requests_per_second=2.5)
    assert made["secret"].startswith("dsk_")
    assert len(made["secret"]) == 4 + 64
    async with ask(guarded, BOOTSTRAP) as admin:
        await admin.post("/v1/admin/flush")
        (shown,) = (await admin.get("/v1/keys")).json()["data"]
    assert shown == {name: value for name, value in made.items() if name != "secret"}
    assert (shown["created_by"], shown["requests_per_second"], shown["revoked_at"]) == (
        "bootstrap",
        2.5,
        None,
    )
    for file in guarded.data.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert made["secret"].encode() not in content, file
            assert BOOTSTRAP.encode() not in content, file


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"principal": "p"},
        {"principal": "p", "role": "owner"},
        {"principal": "", "role": "reader"},
        {"principal": " p", "role": "reader"},
        {"principal": "a\nb", "role": "reader"},
        {"principal": "p" * (LIMITS.principal_characters_max + 1), "role": "reader"},
        {"principal": "p", "role": "reader", "workspace": ""},
        {"principal": "p", "role": "reader", "workspace": "../x"},
        {"principal": "p", "role": "reader", "workspace": "A"},
        {"principal": "p", "role": "reader", "workspace": "a/b"},
        {"principal": "p", "role": "reader", "workspace": "w" * 64},
        {"principal": "p", "role": "reader", "requests_per_second": 0},
        {"principal": "p", "role": "reader", "requests_per_second": -1},
        {"principal": "p", "role": "reader", "requests_per_second": LIMITS.key_requests_per_second_max + 1},
        {"principal": "p", "role": "reader", "colour": "red"},
    ],
)
async def test_a_bad_key_is_refused_with_what_to_send(guarded: LocalServer, body: dict[str, Any]) -> None:
    async with ask(guarded, BOOTSTRAP) as admin:
        answer = await admin.post("/v1/keys", json=body)
        assert answer.status_code == 400, answer.text
        assert "end" in answer.json()["error"]["message"], "it says what to send"
        assert (await admin.get("/v1/keys")).json()["data"] == []


async def test_names_at_the_limit_are_fine(guarded: LocalServer) -> None:
    principal, rate = "ä" * LIMITS.principal_characters_max, LIMITS.key_requests_per_second_max
    await make_key(guarded.url, "reader", "w" * 63, principal=principal, requests_per_second=rate)


async def test_a_form_of_another_page_makes_no_key(server: LocalServer) -> None:
    async with ask(server) as client:
        body = json.dumps({"principal": "evil", "role": "admin"})
        answer = await client.post("/v1/keys", content=body, headers=TEXT)
        assert answer.status_code == 400
        preflight = await client.options("/v1/keys")
        assert preflight.status_code == 405
        assert "access-control-allow-headers" not in preflight.headers


# Roles ------------------------------------------------------------------------------------


async def test_what_each_role_may_do(guarded: LocalServer) -> None:
    url = guarded.url
    secrets = {role: await make_secret(url, role) for role in ("reader", "writer", "evaluator", "admin")}
    async with ask(guarded, secrets["writer"]) as writer:
        assert (await writer.put("/v1/stream/s", headers=TEXT)).status_code == 201
    writes = [
        ("PUT", "/v1/stream/new"),
        ("POST", "/v1/stream/s"),
        ("PUT", "/v1/stream/__ds/subscriptions/x"),
        ("DELETE", "/v1/stream/__ds/subscriptions/x"),
        ("POST", "/v1/stream/__ds/subscriptions/x/claim"),
        ("PUT", "/v1/artifacts/" + "0" * 64),
        ("DELETE", "/v1/stream/s"),
    ]
    acts = [("GET", "/v1/keys"), ("POST", "/v1/keys"), ("DELETE", "/v1/keys/x"), ("GET", "/v1/audit")]
    acts.append(("POST", "/v1/admin/flush"))
    for role, secret in secrets.items():
        async with ask(guarded, secret) as client:
            assert (await client.get("/v1/stream/s")).status_code in (200, 404)
            for method, path in writes:
                answer = await client.request(method, path, headers=TEXT, content="x")
                assert (answer.status_code == 403) == (role == "reader"), (role, method, path, answer.text)
            for method, path in acts:
                answer = await client.request(method, path)
                assert (answer.status_code == 403) == (role != "admin"), (role, method, path)
                if answer.status_code == 403:
                    error = answer.json()["error"]
                    assert error["details"]["error_code"] == "permission_error"
                    assert f"the role {role}" in error["message"]


async def test_who_may_not_judge_hears_that_before_anything_of_what_the_verdict_says(
    guarded: LocalServer,
) -> None:
    refused: dict[str, set[tuple[int, str]]] = {}
    for role in ("writer", "evaluator"):
        async with ask(guarded, await make_secret(guarded.url, role)) as client:
            await client.put("/v1/sessions/s")
            for session in ({}, {"session": "nowhere"}):
                ref = {"rel": "evaluates", "id": "nowhere", **session}
                verdict = {"type": "ds.evaluation", "verdict": "pass", "refs": [ref]}
                answer = await client.post("/v1/sessions/s/events", json=verdict)
                code = answer.json()["error"]["details"]["error_code"]
                refused.setdefault(role, set()).add((answer.status_code, code))
    assert refused == {
        "writer": {(403, "permission_error")},
        "evaluator": {(400, "unresolved_reference")},
    }


async def test_admins_manage_their_workspace_and_operators_all(guarded: LocalServer) -> None:
    theirs = await make_key(guarded.url, "admin", "acme")
    ours = await make_key(guarded.url, "writer")
    async with ask(guarded, theirs["secret"]) as acme:
        made = await acme.post("/v1/keys", json={"principal": "bob", "role": "writer"})
        assert (made.status_code, made.json()["workspace"]) == (201, "acme")
        for workspace in ("default", "third"):
            wanted = {"principal": "eve", "role": "admin", "workspace": workspace}
            assert (await acme.post("/v1/keys", json=wanted)).status_code == 403
        assert [key["id"] for key in (await acme.get("/v1/keys")).json()["data"]] == [
            theirs["id"],
            made.json()["id"],
        ]
        assert (await acme.delete("/v1/keys/" + ours["id"])).status_code == 404
        assert (await acme.post("/v1/admin/flush")).status_code == 403, "that is about the whole server"
        assert (await acme.delete("/v1/keys/" + made.json()["id"])).status_code == 200
    async with ask(guarded, BOOTSTRAP) as operator:
        assert len((await operator.get("/v1/keys")).json()["data"]) == 3
        assert (await operator.delete("/v1/keys/" + theirs["id"])).status_code == 200
        assert (await operator.delete("/v1/keys/bootstrap")).status_code == 404


async def test_the_list_is_paged(guarded: LocalServer) -> None:
    made = [(await make_key(guarded.url, "reader"))["id"] for _ in range(5)]
    async with ask(guarded, BOOTSTRAP) as admin:
        found: list[str] = []
        page = ""
        while True:
            answer = (await admin.get("/v1/keys?limit=2" + (f"&page={page}" if page else ""))).json()
            found += [key["id"] for key in answer["data"]]
            page = answer["next_page"]
            if page is None:
                break
        assert found == made
        for query in ("limit=0", "limit=1001", "limit=x", "page=key_none"):
            assert (await admin.get("/v1/keys?" + query)).status_code == 400, query


async def test_pages_are_bounded_in_bytes(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP) as server, ask(server, BOOTSTRAP) as admin:
        for _ in range(4):
            await make_key(server.url, "reader")
        everything = (await admin.get("/v1/keys")).json()["data"]
    two = sum(len(json.dumps(key, separators=(",", ":"))) for key in everything[:2])
    for page_bytes_max, count in ((two, 2), (two - 1, 1), (1, 1)):
        limits = replace(LIMITS, page_bytes_max=page_bytes_max)
        async with (
            local_server(tmp_path / "data", api_key=BOOTSTRAP, limits=limits) as server,
            ask(server, BOOTSTRAP) as admin,
        ):
            answer = (await admin.get("/v1/keys")).json()
            assert len(answer["data"]) == count
            found = answer["data"]
            while answer["next_page"] is not None:
                answer = (await admin.get("/v1/keys?page=" + answer["next_page"])).json()
                found += answer["data"]
            assert found == everything


# Revoking ---------------------------------------------------------------------------------


async def test_a_revoked_key_is_refused_at_once_and_for_good(guarded: LocalServer) -> None:
    key = await make_key(guarded.url, "writer")
    async with ask(guarded, key["secret"]) as client, ask(guarded, BOOTSTRAP) as admin:
        await client.put("/v1/stream/s", headers=TEXT)
        revoked = await admin.delete("/v1/keys/" + key["id"])
        assert (revoked.status_code, revoked.json()["revoked_by"]) == (200, "bootstrap")
        assert (await client.get("/v1/stream/s")).status_code == 401
        assert (await admin.delete("/v1/keys/" + key["id"])).json() == revoked.json()
        assert (await admin.delete("/v1/keys/key_none")).status_code == 404
    await guarded.restart()
    async with ask(guarded, key["secret"]) as client, ask(guarded, BOOTSTRAP) as admin:
        assert (await client.get("/v1/stream/s")).status_code == 401
        (shown,) = (await admin.get("/v1/keys")).json()["data"]
        assert shown["revoked_at"] == revoked.json()["revoked_at"]


async def test_a_reader_who_waits_is_cut_off_by_a_revocation(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP, long_poll_seconds=30) as server:
        key = await make_key(server.url, "reader")
        async with ask(server, key["secret"]) as reader, ask(server, BOOTSTRAP) as admin:
            await admin.put("/v1/stream/s", headers=TEXT)
            polling = asyncio.create_task(reader.get("/v1/stream/s?offset=-1&live=long-poll"))
            async with reader.stream("GET", "/v1/stream/s?offset=-1&live=sse") as events:
                chunks = events.aiter_bytes()
                assert b"streamNextOffset" in await anext(chunks)
                await admin.delete("/v1/keys/" + key["id"])
                await admin.post("/v1/stream/s", headers=TEXT, content="a secret")
                rest = b"".join([chunk async for chunk in chunks])
            assert rest == b""
            answer = await polling
            assert (answer.status_code, b"a secret" in answer.content) == (401, False)


async def test_with_all_keys_revoked_the_door_stays_closed(server: LocalServer) -> None:
    async with ask(server) as client:
        wanted = {"principal": "ann", "role": "admin"}
        made = (await client.post("/v1/keys", json=wanted, headers=proof(server.data))).json()
        gone = await client.delete("/v1/keys/" + made["id"], headers=bearer(made["secret"]))
        assert gone.status_code == 200
        assert (await client.get("/v1/stream/s")).status_code == 401
    await server.restart()
    async with ask(server) as client:
        assert (await client.get("/v1/stream/s")).status_code == 401


# Keeping ----------------------------------------------------------------------------------


async def test_keys_survive_restart_flush_catalog_loss_and_restore_from_the_bucket(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with local_server(data, api_key=BOOTSTRAP) as server:
        key = await make_key(server.url, "writer", "acme", requests_per_second=100)
        gone = await make_key(server.url, "writer", "acme")
        async with ask(server, key["secret"]) as client:
            assert (await client.put("/v1/stream/s", headers=TEXT)).status_code == 201
        async with ask(server, BOOTSTRAP) as admin:
            await admin.delete("/v1/keys/" + gone["id"])
            await server.restart()
            await admin.post("/v1/admin/flush")

    async def check(folder: Path) -> None:
        async with local_server(folder, bucket=str(data / "bucket")) as again, ask(again) as nobody:
            assert (await nobody.get("/v1/stream/s")).status_code == 401
            async with ask(again, key["secret"]) as client:
                assert (await client.get("/v1/stream/s")).status_code == 200
            async with ask(again, gone["secret"]) as client:
                assert (await client.get("/v1/stream/s")).status_code == 401

    for file in data.glob("catalog.sqlite*"):
        file.unlink()
    await check(data)
    await check(tmp_path / "another machine")


def test_a_key_that_was_shown_survives_a_kill(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        wanted = {"principal": "ann", "role": "admin"}
        key = httpx2.post(server.url + "/v1/keys", json=wanted, headers=proof(server.data)).json()
        server.kill()
        server.start()
        assert httpx2.get(server.url + "/v1/keys").status_code == 401
        listed = httpx2.get(server.url + "/v1/keys", headers=bearer(key["secret"])).json()["data"]
        assert [one["id"] for one in listed] == [key["id"]]
        httpx2.delete(server.url + "/v1/keys/" + key["id"], headers=bearer(key["secret"]))
        server.kill()
        server.start()
        assert httpx2.get(server.url + "/v1/keys", headers=bearer(key["secret"])).status_code == 401


async def test_the_oldest_revoked_key_makes_room_and_a_full_house_says_so(tmp_path: Path) -> None:
    limits = replace(LIMITS, keys_max=2)
    async with local_server(tmp_path / "data", limits=limits, api_key=BOOTSTRAP) as server:
        first, second = [await make_key(server.url, "reader") for _ in range(2)]
        async with ask(server, BOOTSTRAP) as admin:
            full = await admin.post("/v1/keys", json={"principal": "p", "role": "reader"})
            assert (full.status_code, error_code(full)) == (409, "too_many_keys")
            await admin.delete("/v1/keys/" + first["id"])
            third = await make_key(server.url, "reader")
            await server.restart()
            kept = [key["id"] for key in (await admin.get("/v1/keys")).json()["data"]]
            assert kept == [second["id"], third["id"]]
        async with ask(server, first["secret"]) as client:
            assert (await client.get("/v1/stream/s")).status_code == 401


async def test_retention_never_touches_the_servers_own_streams(tmp_path: Path) -> None:
    clock = ManualClock()
    policies = (RetentionPolicy("", idle_days=1.0),)
    async with local_server(tmp_path / "data", clock=clock, api_key=BOOTSTRAP, retention=policies) as server:
        key = await make_key(server.url, "reader")
        async with ask(server, BOOTSTRAP) as admin:
            await admin.put("/v1/stream/s")
            await admin.post("/v1/admin/flush")
            clock.advance(30 * 24 * 3600)
            server.node.engine.partition.expire()
            await server.node.engine.partition.settled()
            assert (await admin.get("/v1/stream/s")).status_code == 404
            await server.restart()
            assert [one["id"] for one in (await admin.get("/v1/keys")).json()["data"]] == [key["id"]]


# Rates ------------------------------------------------------------------------------------


async def test_a_key_has_its_rate_and_no_other_key_feels_it(tmp_path: Path) -> None:
    clock = ManualClock()
    async with local_server(tmp_path / "data", clock=clock, api_key=BOOTSTRAP) as server:
        slow = await make_secret(server.url, "reader", requests_per_second=2)
        slower = await make_secret(server.url, "reader", requests_per_second=0.1)
        async with ask(server, slow) as client, ask(server, slower) as other:
            statuses = [(await client.get("/v1/stream/s")).status_code for _ in range(3)]
            assert statuses == [404, 404, 429]
            refused = await client.get("/v1/stream/s")
            assert (refused.headers["retry-after"], error_code(refused)) == ("1", "rate_limited")
            assert "2 requests per second" in refused.json()["error"]["message"]
            assert (await other.get("/v1/stream/s")).status_code == 404
            assert (await other.get("/v1/stream/s")).headers["retry-after"] == "10"
            clock.advance(0.5)
            assert [(await client.get("/v1/stream/s")).status_code for _ in range(2)] == [404, 429]
            clock.advance(9.5)
            assert (await other.get("/v1/stream/s")).status_code == 404
        async with ask(server, BOOTSTRAP) as admin:
            assert 'reason="rate"} 4.0' in (await admin.get("/metrics")).text


async def test_when_a_key_was_last_used_is_known(tmp_path: Path) -> None:
    clock = ManualClock(1_794_744_000_000)
    async with local_server(tmp_path / "data", clock=clock, api_key=BOOTSTRAP) as server:
        secret = await make_secret(server.url, "reader")
        async with ask(server, secret) as client, ask(server, BOOTSTRAP) as admin:
            assert (await admin.get("/v1/keys")).json()["data"][0]["last_used_at"] is None
            clock.advance(60)
            await client.get("/v1/stream/s")
            used = (await admin.get("/v1/keys")).json()["data"][0]["last_used_at"]
            assert used == "2026-11-15T12:01:00.000Z"


# Names of requests ------------------------------------------------------------------------


async def test_every_answer_has_a_name_of_its_own(guarded: LocalServer) -> None:
    async with ask(guarded, BOOTSTRAP) as client:
        answers = [
            await client.request(method, path)
            for method, path in [
                ("GET", "/livez"),
                ("GET", "/nothing"),
                ("PUT", "/v1/stream/s"),
                ("POST", "/v1/stream/s"),
                ("GET", "/v1/stream/s"),
                ("HEAD", "/v1/stream/s"),
                ("OPTIONS", "/v1/stream/s"),
                ("GET", "/v1/stream/s?offset=-1&live=long-poll"),
                ("GET", "/v1/keys"),
                ("GET", "/v1/artifacts/" + "0" * 64),
                ("GET", "/v1/stream/__ds/subscriptions/none"),
                ("BREW", "/coffee"),
                ("DELETE", "/v1/stream/s"),
            ]
        ]
        async with client.stream("GET", "/v1/stream/t?offset=-1&live=sse") as missing:
            answers.append(missing)
    async with ask(guarded) as nobody:
        answers.append(await nobody.get("/v1/stream/s"))
    names = [answer.headers["request-id"] for answer in answers]
    assert len(set(names)) == len(names)
    assert len({name[:20] for name in names}) == 1, "random for the process"
    assert all(name.startswith("req_") for name in names)


# The command line -------------------------------------------------------------------------


def run(*arguments: str, url: str, key: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "durable_sessions", *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DURABLE_SESSIONS_")}
    environment["DURABLE_SESSIONS_URL"] = url
    if key:
        environment["DURABLE_SESSIONS_API_KEY"] = key
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS, env=environment
    )


def listed(*arguments: str, url: str, key: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in run(*arguments, url=url, key=key).stdout.splitlines()]


def test_keys_are_managed_from_the_command_line(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        data = ("--data", str(server.data))
        made = run("keys", "create", "--principal", "ann", "--role", "admin", *data, url=server.url)
        assert made.returncode == 0, made.stderr
        secret = made.stdout.splitlines()[1]
        assert secret.startswith("dsk_")
        assert "cannot show it again" in made.stderr
        denied = run("keys", "list", url=server.url)
        assert (denied.returncode, "Give a key with --api-key" in denied.stderr) == (5, True)
        more = ("--role", "writer", "--workspace", "acme", "--requests-per-second", "5", "--json")
        bob = json.loads(
            run("keys", "create", "--principal", "bob", *more, url=server.url, key=secret).stdout
        )
        assert (bob["workspace"], bob["requests_per_second"]) == ("acme", 5.0)
        table = run("keys", "list", "--api-key", secret, url=server.url).stdout.splitlines()
        assert table[0].split()[:4] == ["ID", "WORKSPACE", "PRINCIPAL", "ROLE"]
        assert table[2].split()[:5] == [bob["id"], "acme", "bob", "writer", "5/s"]
        gone = run("keys", "revoke", bob["id"], url=server.url, key=secret)
        assert (gone.returncode, "revoked at" in gone.stdout) == (0, True)
        left = listed("keys", "list", "--json", url=server.url, key=secret)
        assert [key["principal"] for key in left] == ["ann"]
        both = listed("keys", "list", "--all", "--json", url=server.url, key=secret)
        assert [key["principal"] for key in both] == ["ann", "bob"]
        assert run("flush", url=server.url, key=secret).returncode == 0
        for command in (("flush",), ("keys", "list")):
            said = run(*command, url=server.url).stderr
            assert "Give a key with --api-key" in said
            assert "--api-key, or better in DURABLE_SESSIONS_API_KEY" in said
    nobody = run("keys", "list", url=server.url)
    assert (nobody.returncode, "Nothing answers" in nobody.stderr) == (4, True)


def test_other_addresses_are_refused_without_keys_and_served_with_one(tmp_path: Path) -> None:
    refused = ServerProcess(tmp_path / "refused", "--host", "0.0.0.0")
    refused.spawn()
    assert refused.process is not None
    assert refused.process.wait(PATIENCE_SECONDS) == 1
    assert "listens on loopback only" in refused.log.read_text()
    environment = {"DURABLE_SESSIONS_API_KEY": BOOTSTRAP}
    with ServerProcess(tmp_path / "data", "--host", "0.0.0.0", environment=environment) as server:
        assert httpx2.get(server.url + "/v1/stream/s").status_code == 401
        assert httpx2.put(server.url + "/v1/stream/s", headers=bearer(BOOTSTRAP)).status_code == 201
        assert BOOTSTRAP not in server.log.read_text()
