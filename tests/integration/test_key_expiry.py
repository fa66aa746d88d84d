"""Keys that end by themselves, and how the commands for keys end."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from durable_sessions.clock import ManualClock, SystemClock
from durable_sessions.testing import LocalServer, local_server
from durable_sessions.times import rfc3339
from tests.support.commands import Commands
from tests.support.keys import BOOTSTRAP, bearer
from tests.support.process import ServerProcess
from tests.support.refusals import error_code
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio
HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_800_000_000_000)


@pytest.fixture
async def guarded(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalServer]:
    async with local_server(tmp_path / "data", clock=clock, api_key=BOOTSTRAP) as running:
        yield running


def ask(running: LocalServer, secret: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=running.url, headers=bearer(secret), timeout=PATIENCE_SECONDS)


async def create(client: httpx2.AsyncClient, **wanted: object) -> httpx2.Response:
    return await client.post("/v1/keys", json={"principal": "p", "role": "writer", **wanted})


async def test_a_key_lets_nobody_in_once_it_has_expired(guarded: LocalServer, clock: ManualClock) -> None:
    ends = rfc3339(clock.now_ms() + HOUR_MS)
    async with ask(guarded, BOOTSTRAP) as operator:
        made = (await create(operator, expires_at=ends)).json()
        forever = (await create(operator)).json()
        assert (made["expires_at"], forever["expires_at"]) == (ends, None)
    await guarded.restart()
    async with ask(guarded, made["secret"]) as client:
        clock.advance(3_599.999)
        assert (await client.get("/v1/sessions")).status_code == 200
        clock.advance(0.001)
        refused = await client.get("/v1/sessions")
        assert (refused.status_code, error_code(refused)) == (401, "authentication_error")
        assert "has expired" in refused.json()["error"]["message"]
    async with ask(guarded, forever["secret"]) as client:
        assert (await client.get("/v1/sessions")).status_code == 200


async def test_what_a_key_has_opened_ends_with_it(tmp_path: Path) -> None:
    """With the real clock, since a timer waits for it."""
    async with local_server(tmp_path / "real", api_key=BOOTSTRAP) as running:
        async with ask(running, BOOTSTRAP) as operator:
            assert (await operator.post("/v1/sessions/s/events", json={"type": "note"})).status_code == 204
            soon = rfc3339(SystemClock().now_ms() + 3_000)
            wanted = {"principal": "p", "role": "reader", "expires_at": soon}
            secret = (await operator.post("/v1/keys", json=wanted)).json()["secret"]
        async with (
            ask(running, secret) as client,
            client.stream("GET", "/v1/sessions/s/events/stream", params={"offset": "-1"}) as answer,
        ):
            assert answer.status_code == 200
            async for _ in answer.aiter_bytes():
                pass  # until the server ends it


async def test_no_key_outlives_its_maker(guarded: LocalServer, clock: ManualClock) -> None:
    ends, later = (rfc3339(clock.now_ms() + hours * HOUR_MS) for hours in (1, 2))
    async with ask(guarded, BOOTSTRAP) as operator:
        admin = (await create(operator, role="admin", expires_at=ends)).json()["secret"]
    async with ask(guarded, admin) as client:
        assert (await create(client)).json()["expires_at"] == ends
        refused = await create(client, expires_at=later)
        assert (refused.status_code, error_code(refused)) == (403, "permission_error")
        assert "No key outlives its maker" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("expires_at", "said"),
    [("tomorrow", "RFC 3339"), ("2001-01-01T00:00:00Z", "has passed"), (7, "expires_at is a whole number")],
)
async def test_an_unusable_end_is_refused(guarded: LocalServer, expires_at: object, said: str) -> None:
    async with ask(guarded, BOOTSTRAP) as operator:
        refused = await create(operator, expires_at=expires_at)
        assert refused.status_code == 400
        assert said in refused.json()["error"]["message"]


async def test_a_misspelt_member_of_a_key_is_told_the_nearest(guarded: LocalServer) -> None:
    async with ask(guarded, BOOTSTRAP) as operator:
        refused = await create(operator, expires="2999-01-01T00:00:00Z")
        assert refused.status_code == 400
        said = refused.json()["error"]["message"]
        assert "A key has no member expires here. Did you mean expires_at?" in said


# The commands -------------------------------------------------------------------------------


def test_commands_for_keys_end_as_they_are_documented(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as running:
        ds = Commands(running.url)
        first = ("--principal", "ann", "--role", "admin", "--data", str(data))
        admin = ds.json("keys", "create", *first)["secret"]
        writer = ds.json(
            "keys", "create", "--principal", "b", "--role", "writer", "--expires", "30d", "--api-key", admin
        )
        assert writer["expires_at"] is not None
        denied = ds.run("keys", "list", "--api-key", writer["secret"], "--json", status=5)
        assert json.loads(denied.stderr)["error"]["type"] == "denied"
        ds.run("keys", "revoke", "key_none", "--api-key", admin, status=3)
        ds.run("keys", "list", "--api-key", "dsk_unknown", status=5)
        listed = ds.lines("keys", "list", "--api-key", admin, "--json")
        assert [key["principal"] for key in listed] == ["ann", "b"]
        assert "EXPIRES" in ds.run("keys", "list", "--api-key", admin).stdout
        assert (
            "is not a time"
            in ds.run(
                "keys", "create", "--principal", "x", "--role", "reader", "--expires", "soon", status=2
            ).stderr
        )
    Commands("http://127.0.0.1:1").run("keys", "list", status=4)


def test_the_last_admins_key_is_revoked_only_on_purpose(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as running:
        ds = Commands(running.url)
        first = ds.json("keys", "create", "--principal", "ann", "--role", "admin", "--data", str(data))
        key = ("--api-key", first["secret"])
        create = ("keys", "create", "--principal", "b", *key)
        second, writer = ds.json(*create, "--role", "admin")["id"], ds.json(*create, "--role", "writer")["id"]
        ds.run("keys", "revoke", writer, *key)
        ds.run("keys", "revoke", second, *key)
        said = ds.run("keys", "revoke", first["id"], *key, status=2).stderr
        assert f"Revoke {first['id']}, the last admin's key in the workspace default?" in said
        assert "add --yes" in said
        ds.run("keys", "revoke", first["id"], *key, "--yes")
        ds.run("keys", "list", *key, status=5)


def test_when_a_key_ends_is_told_and_that_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as running:
        ds = Commands(running.url)
        admin = ds.json("keys", "create", "--principal", "a", "--role", "admin", "--data", str(data))[
            "secret"
        ]
        create = ("keys", "create", "--principal", "b", "--role", "reader", "--api-key", admin)
        told = ds.run(*create, "--expires", "2999-01-31").stdout
        assert "reader b in the workspace default, until 2999-01-31 00:00 UTC" in told
        everything = ("keys", "list", "--all", "--api-key", admin)
        assert "(expired)" not in ds.run(*everything).stdout
        monkeypatch.setattr("durable_sessions.cli.keys.rfc3339", lambda _: "2999-02-01T00:00:00.000Z")
        assert ds.run(*everything).stdout.count("2999-01-31 00:00 (expired)") == 1
        assert "2999-01-31" not in ds.run("keys", "list", "--api-key", admin).stdout
