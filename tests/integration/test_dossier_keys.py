"""Dossiers of a server with keys: what proves them, with a key set, without, after a change of the key."""

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions import AsyncClient, Client
from durable_sessions.evidence.verification import DossierInvalidError, public_keys, verify
from durable_sessions.testing import BackgroundServer, server
from tests.support.commands import Commands
from tests.support.evidence import tell_story
from tests.support.keys import BOOTSTRAP, bearer, make_secret
from tests.support.waiting import PATIENCE_SECONDS

AWAY = "http://127.0.0.1:9"
JWKS = "/v1/stream/__ds/jwks.json"


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundServer]:
    with server(tmp_path_factory.mktemp("keyed") / "data", api_key=BOOTSTRAP) as running:
        yield running


@pytest.fixture(scope="module")
def secrets(keyed: BackgroundServer) -> dict[str, str]:
    """Tell the story, each with a key of its own; return the keys."""

    async def told() -> dict[str, str]:
        made = {
            name: await make_secret(keyed.url, role, principal=name)
            for name, role in (("coder", "writer"), ("judge", "evaluator"), ("auditor", "reader"))
        }
        made["stranger"] = await make_secret(keyed.url, "admin", "elsewhere")

        def sign(request: httpx2.Request) -> httpx2.Request:
            request.headers.update(bearer(made[request.headers.get("Session-Principal", "coder")]))
            return request

        async with httpx2.AsyncClient(base_url=f"{keyed.url}/v1", auth=sign, timeout=PATIENCE_SECONDS) as api:
            await tell_story(api)
        return made

    return asyncio.run(told())


@pytest.fixture
def saved(keyed: BackgroundServer, secrets: dict[str, str], tmp_path: Path) -> Path:
    """Save the dossier with the key of somebody who may only read."""
    with Client(keyed.url, api_key=secrets["auditor"]) as client:
        return client.session("issue-7").dossier("engineering").save(tmp_path / "issue-7.zip")


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def test_everybody_who_may_read_gets_the_same_proof(
    keyed: BackgroundServer, secrets: dict[str, str], saved: Path, tmp_path: Path
) -> None:
    found = verify(saved, public_keys(httpx2.get(keyed.url + JWKS).content))  # the key set needs no key
    assert (found.principals, found.result, found.complete) == ("keys", "PASSED", True)
    target = f"{keyed.url}/v1/sessions/issue-7/dossier?kind=engineering&format=zip"
    for name in ("coder", "judge", "auditor"):
        given = httpx2.get(target, headers=bearer(secrets[name]), timeout=PATIENCE_SECONDS)
        assert given.content == saved.read_bytes()
    assert httpx2.get(target).status_code == 401
    assert httpx2.get(target, headers=bearer(secrets["stranger"])).status_code == 404

    async def by_client() -> bytes:
        async with AsyncClient(keyed.url, api_key=secrets["judge"]) as client:
            return (
                await client.session("issue-7").dossier("engineering").save(tmp_path / "a.zip")
            ).read_bytes()

    assert asyncio.run(by_client()) == saved.read_bytes()
    path = tmp_path / "cli.zip"
    Commands(keyed.url).run("dossier", "issue-7", "-o", str(path), "--api-key", secrets["auditor"])
    assert path.read_bytes() == saved.read_bytes()
    assert "principals with keys" in Commands(keyed.url).run("dossier", "verify", str(path)).stdout


def test_which_key_sets_prove_it_where_there_is_no_server(
    keyed: BackgroundServer, saved: Path, tmp_path: Path
) -> None:
    (right,) = json.loads(httpx2.get(keyed.url + JWKS).content)["keys"]
    other = {**right, "kid": "ds_other"}
    x = bytearray(base64.urlsafe_b64decode(right["x"] + "="))
    x[0] ^= 1
    wrong = {**right, "x": base64.urlsafe_b64encode(x).decode().rstrip("=")}
    foreign = {"kty": "EC", "crv": "P-256", "kid": right["kid"], "x": right["x"]}
    away, path = Commands(AWAY), tmp_path / "keys.json"

    def verified(*keys: dict[str, Any], status: int = 0) -> str:
        path.write_bytes(key_set(*keys))
        done = away.run("dossier", "verify", str(saved), "--keys", str(path), status=status)
        return done.stderr if status else done.stdout

    assert f"signed by {right['kid']}" in verified(right)
    assert f"signed by {right['kid']}" in verified(foreign, other, right), "others in the set do not matter"
    for unknown in ([], [other], [foreign]):
        said = verified(*unknown, status=1)
        assert f"signed by {right['kid']}, which is none of the keys given" in said
    assert f"The signature by {right['kid']} is wrong" in verified(wrong, status=1)
    assert f"The signature by {right['kid']} is wrong" in verified({**right, "x": right["x"][:20]}, status=1)
    for broken in (b"", b"{}", b"[]", b'{"keys":7}', b'{"keys":[{"kid":7}]}', b"\xff"):
        path.write_bytes(broken)
        refused = away.run("dossier", "verify", str(saved), "--keys", str(path), status=2)
        assert f"{path} is no key set" in refused.stderr
    away.run("dossier", "verify", str(saved), status=4)  # and nobody has said which keys


def test_after_its_key_has_changed_a_server_proves_new_dossiers_and_the_saved_set_the_old_ones(
    saved: Path, secrets: dict[str, str], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    with server(data) as running, Client(running.url) as client:
        client.session("s").append({"type": "note"})
        first = client.session("s").dossier("report").save(tmp_path / "first.zip")
        old.write_bytes(httpx2.get(running.url + JWKS).content)
        running.restart()
        assert (
            client.session("s").dossier("report").save(tmp_path / "again.zip").read_bytes()
            == first.read_bytes()
        )
        (data / "signing-keys.json").unlink()
        running.restart()
        new.write_bytes(httpx2.get(running.url + JWKS).content)
        second = client.session("s").dossier("report").save(tmp_path / "second.zip")
        ds = Commands(running.url)
        assert "signed by" in ds.run("dossier", "verify", str(second)).stdout
        refused = ds.run("dossier", "verify", str(first), status=1)
        assert "which is none of the keys given: take those of the server that made it" in refused.stderr
    away = Commands(AWAY)
    both = tmp_path / "both.json"
    both.write_bytes(key_set(*(json.loads(path.read_bytes())["keys"][0] for path in (old, new))))
    for path, known, status in (
        (first, old, 0),
        (first, new, 1),
        (second, old, 1),
        (second, new, 0),
        (first, both, 0),
        (second, both, 0),
        (saved, both, 1),
    ):
        away.run("dossier", "verify", str(path), "--keys", str(known), status=status)
    with pytest.raises(DossierInvalidError, match="none of the keys"):
        verify(first, public_keys(new.read_bytes()))
    # Only the signature has changed, and what rests on it.
    assert len(first.read_bytes()) == len(second.read_bytes())
