"""The first key of a server is made by who can read its data directory, and by nobody else."""

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import click
import httpx2
import pytest

from durable_sessions.cli import first_key
from durable_sessions.http.api.first_key_file import FILE, HEADER
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import BOOTSTRAP, bearer, code_of, proof
from tests.support.process import ServerProcess

pytestmark = pytest.mark.anyio
ADMIN = {"principal": "ann", "role": "admin"}
COMMAND = "durable-sessions keys create --principal NAME --role admin --data DIRECTORY"


def client_of(server: LocalServer) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.url, timeout=30)


@pytest.mark.parametrize(
    "headers", [{}, {HEADER: ""}, {HEADER: "0" * 64}, {HEADER: "\xff"}, {"x-api-key": "k"}]
)
async def test_whoever_only_reaches_the_server_cannot_make_it(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    sent = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    async with local_server(tmp_path / "data") as server, client_of(server) as client:
        answer = await client.post("/v1/keys", json=ADMIN, headers=sent)
        assert (answer.status_code, code_of(answer)) == (403, "first_key_refused")
        assert COMMAND in answer.json()["error"]["message"]
        assert (await client.get("/v1/keys")).json()["data"] == []


async def test_the_token_lies_in_the_data_directory_for_its_owner_alone(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data") as server, client_of(server) as client:
        path = server.data / FILE
        first = proof(server.data)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert json.loads(path.read_bytes())["port"] == int(server.url.rpartition(":")[2])
        await server.restart()
        assert proof(server.data) != first, "another with each start"
        assert (await client.post("/v1/keys", json=ADMIN, headers=first)).status_code == 403
        made = await client.post("/v1/keys", json=ADMIN, headers=proof(server.data))
        assert made.status_code == 201
        assert not path.exists()
        await server.restart()
        assert not path.exists()
        assert (await client.post("/v1/keys", json=ADMIN, headers=first)).status_code == 401


async def test_a_token_that_a_killed_server_left_is_replaced_or_removed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    left = data / FILE
    left.write_text('{"token":"old","port":1}')
    left.chmod(0o644)
    async with local_server(data):
        assert stat.S_IMODE(left.stat().st_mode) == 0o600
        assert proof(data)[HEADER] != "old"
    assert not left.exists()
    left.write_text('{"token":"old","port":1}')
    async with local_server(data, api_key=BOOTSTRAP) as server, client_of(server) as client:
        assert not left.exists()
        assert (await client.post("/v1/keys", json=ADMIN, headers={HEADER: "old"})).status_code == 401
        made = await client.post("/v1/keys", json=ADMIN, headers=bearer(BOOTSTRAP))
        assert made.status_code == 201, "the key of the environment needs no token"


async def test_of_many_first_keys_at_once_one_is_made(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data") as server, client_of(server) as client:
        token = proof(server.data)
        answers = await asyncio.gather(
            *(client.post("/v1/keys", json=ADMIN | {"principal": f"p{n}"}, headers=token) for n in range(20))
        )
        made = [answer.json() for answer in answers if answer.status_code == 201]
        assert len(made) == 1
        assert sorted({answer.status_code for answer in answers}) == [201, 401]
        listed = (await client.get("/v1/keys", headers=bearer(made[0]["secret"]))).json()["data"]
        assert [key["id"] for key in listed] == [made[0]["id"]]


async def test_a_first_key_that_is_refused_leaves_the_token_good(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data") as server, client_of(server) as client:
        token = proof(server.data)
        for wrong in (ADMIN | {"role": "reader"}, ADMIN | {"workspace": "other"}, ADMIN | {"role": "king"}):
            assert (await client.post("/v1/keys", json=wrong, headers=token)).status_code in (400, 403)
        assert (await client.post("/v1/keys", json=ADMIN, headers=token)).status_code == 201


async def test_a_server_that_cannot_write_the_token_serves_nevertheless(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / FILE / "in the way").mkdir(parents=True)
    async with local_server(data) as server, client_of(server) as client:
        assert (await client.put("/v1/stream/s")).status_code == 201
        assert (await client.post("/v1/keys", json=ADMIN)).status_code == 403


# Behind a proxy ---------------------------------------------------------------------------


async def test_behind_a_proxy_nothing_is_served_before_there_is_a_key(tmp_path: Path) -> None:
    behind = local_server(tmp_path / "data", public_url="https://sessions.example")
    async with behind as server, client_of(server) as client:
        for path in (
            "/v1/sessions",
            "/v1/stream/s",
            "/v1/stream/__ds/jwks.json",
            "/",
            "/metrics",
            "/readyz",
        ):
            answer = await client.get(path)
            assert answer.status_code == 403, path
            assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
            assert COMMAND in answer.json()["error"]["message"]
        assert code_of(await client.get("/v1/stream/s")) == "keys_required"
        native = (await client.get("/v1/sessions")).json()["error"]
        assert (native["type"], native["details"]["error_code"]) == ("permission_error", "keys_required")
        control = (await client.get("/v1/stream/__ds/jwks.json")).json()["error"]
        assert control["code"] == "KEYS_REQUIRED"
        assert (await client.get("/livez")).status_code == 200
        assert code_of(await client.post("/v1/keys", json=ADMIN)) == "keys_required"
        made = await client.post("/v1/keys", json=ADMIN, headers=proof(server.data))
        assert made.status_code == 201
        through = {"X-Forwarded-For": "192.0.2.1", "Host": "sessions.example"}
        assert (await client.get("/v1/sessions", headers=through)).status_code == 401
        known = through | bearer(made.json()["secret"])
        assert (await client.get("/v1/sessions", headers=known)).status_code == 200


async def test_a_forwarded_request_is_refused_and_a_local_one_is_not(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data") as server, client_of(server) as client:
        for headers in ({"Forwarded": "for=192.0.2.1"}, {"X-Forwarded-Proto": "https"}):
            answer = await client.post("/v1/keys", json=ADMIN, headers=headers)
            assert (answer.status_code, code_of(answer)) == (403, "keys_required")
            assert (await client.put("/v1/stream/s", headers=headers)).status_code == 403
        assert (await client.get("/v1/stream/s")).status_code == 404
        assert (await client.put("/v1/stream/s")).status_code == 201


# The command line -------------------------------------------------------------------------


def create(url: str, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [
        sys.executable,
        "-m",
        "durable_sessions",
        "keys",
        "create",
        "--principal",
        "ann",
        "--role",
        "admin",
    ]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DURABLE_SESSIONS_")}
    return subprocess.run(
        [*command, "--url", url, *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment,
    )


def _names_its_port(token: Path) -> bool:
    try:
        return b'"port":null' not in token.read_bytes()
    except FileNotFoundError:  # not yet, or it is being replaced
        return False


def test_the_command_makes_it_also_where_a_proxy_is_announced(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", "--public-url", "https://sessions.example")
    server.spawn()
    try:
        while not _names_its_port(server.data / FILE):
            assert server.process is not None
            assert server.process.poll() is None, server.log.read_text()
        made = create(server.url, "--data", str(server.data), "--json")
        assert made.returncode == 0, made.stderr
        again = create(server.url, "--data", str(server.data))
        assert (again.returncode, "Give a key with --api-key" in again.stderr) == (5, True)
    finally:
        assert server.terminate() == 0
    started = server.log.read_text()
    assert "keys_required" in started
    assert COMMAND in started


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server, ServerProcess(tmp_path / "other") as other:
        data = str(server.data)
        elsewhere = create(server.url, "--data", str(tmp_path / "nothing"))
        assert elsewhere.returncode == 5
        assert COMMAND in elsewhere.stderr
        assert f"There is no {FILE} in {tmp_path / 'nothing'}" in elsewhere.stderr
        wrong = create(other.url, "--data", data)
        assert wrong.returncode == 1
        assert f"{data} is served on port {server.port}" in wrong.stderr
        away = create("http://192.0.2.1:4437", "--data", data)
        assert (away.returncode, "is not on this machine" in away.stderr) == (1, True)
        (server.data / FILE).write_text("{")
        damaged = create(server.url, "--data", data)
        assert (damaged.returncode, "cannot be used" in damaged.stderr) == (1, True)


def test_who_may_not_read_the_token_is_told_to_be_the_servers_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(click.ClickException, match=r"cannot be read \(Permission denied\).*as its user"):
        first_key.proof("http://127.0.0.1:4437", tmp_path)


def create_into(server: ServerProcess, path: Path, *more: str) -> subprocess.CompletedProcess[str]:
    asked = ("keys", "create", "--url", server.url, "--principal", "ann", "--role", "admin", "-o", str(path))
    return subprocess.run(
        [sys.executable, "-m", "durable_sessions", *asked, *more], capture_output=True, text=True, check=False
    )


def test_a_secret_goes_into_a_new_private_file(tmp_path: Path) -> None:
    path = tmp_path / "admin.key"
    with ServerProcess(tmp_path / "data") as server:
        nowhere = create_into(server, tmp_path / "missing" / "admin.key")
        assert nowhere.returncode == 2
        assert "cannot be made" in nowhere.stderr
        refused = create_into(server, path, "--data", str(tmp_path / "elsewhere"))
        assert refused.returncode == 5
        assert not path.exists(), "a file without a secret would stand in the way of the next attempt"
        made = create_into(server, path, "--data", str(tmp_path / "data"), "--json")
        assert (made.returncode, json.loads(made.stdout).get("secret")) == (0, None)
        secret = path.read_text()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        headers = bearer(secret.strip())
        assert len(httpx2.get(f"{server.url}/v1/keys", headers=headers, timeout=60).json()["data"]) == 1
        again = create_into(server, path, "--api-key", secret.strip())
        assert again.returncode == 2
        assert "exists and is never overwritten" in again.stderr
        assert path.read_text() == secret
        assert len(httpx2.get(f"{server.url}/v1/keys", headers=headers, timeout=60).json()["data"]) == 1
