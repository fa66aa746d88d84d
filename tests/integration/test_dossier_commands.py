"""Dossiers by the command line, and by the Python clients."""

import asyncio
import json
from pathlib import Path

import httpx2
import pytest

from durable_sessions import AsyncClient, Client
from durable_sessions.testing import BackgroundServer
from tests.support.commands import Commands
from tests.support.evidence import tell_story
from tests.support.waiting import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def ds(shared: BackgroundServer) -> Commands:
    async def tell() -> None:
        async with httpx2.AsyncClient(base_url=shared.url + "/v1", timeout=PATIENCE_SECONDS) as api:
            await tell_story(api)

    asyncio.run(tell())
    return Commands(shared.url)


def test_a_dossier_is_read_saved_and_verified(ds: Commands, shared: BackgroundServer, tmp_path: Path) -> None:
    text = ds.run("dossier", "issue-7").stdout
    assert text.startswith("# Dossier of `issue-7`: engineering")
    assert ds.json("dossier", "issue-7", "--kind", "report")["kind"] == "report"
    early = ds.json("dossier", "issue-7", "--at", "2")
    assert not early["complete"]
    path, keys = tmp_path / "out.zip", tmp_path / "keys.json"
    ds.run("dossier", "issue-7", "--kind", "engineering", "-o", str(path))
    said = ds.run("dossier", "verify", str(path)).stdout
    assert f"{path} is as it was written: engineering dossier of issue-7\n" in said
    assert said.endswith("The work: PASSED, complete\n")
    assert "principals only declared" in said
    keys.write_bytes(httpx2.get(shared.url + "/v1/stream/__ds/jwks.json").content)
    ds.run("append", "just-begun", "--type", "user.message", "--text", "Hi")
    ds.run("dossier", "just-begun", "-o", str(tmp_path / "begun.zip"))
    begun = ds.run("dossier", "verify", str(tmp_path / "begun.zip")).stdout
    assert "is as it was written" in begun
    assert "The work: FAILED, without repository_state, " in begun
    away = Commands("http://127.0.0.1:9")  # nobody is there
    found = away.json("dossier", "verify", str(path), "--keys", str(keys))
    assert (found["session"], found["result"], found["complete"]) == ("issue-7", "PASSED", True)
    assert away.run("dossier", "verify", str(path), status=4).stderr
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 3] ^= 1
    path.write_bytes(damaged)
    refused = away.run("dossier", "verify", str(path), "--keys", str(keys), status=1)
    assert f"{path} proves nothing" in refused.stderr
    keys.write_text("{}")
    refused = away.run("dossier", "verify", str(path), "--keys", str(keys), status=2)
    assert f"{keys} is no key set" in refused.stderr
    refused = away.run("dossier", "verify", str(path), "--keys", str(path), status=2)
    assert f"{path} is no key set" in refused.stderr
    for name, start in (("out.json", b'{"format":"durable-sessions-dossier/1"'), ("out.md", b"# Dossier")):
        ds.run("dossier", "issue-7", "-o", str(tmp_path / name))
        assert (tmp_path / name).read_bytes().startswith(start)
    assert (
        "engineering, research, trading" in ds.run("dossier", "issue-7", "--kind", "novel", status=2).stderr
    )
    # A session may have this name, too.
    ds.run("append", "verify", "--type", "user.message", "--text", "Hi")
    assert ds.run("dossier", "--", "verify").stdout.startswith("# Dossier of `verify`")


def test_both_clients_save_the_same_bytes(ds: Commands, shared: BackgroundServer, tmp_path: Path) -> None:
    with Client(shared.url) as client:
        session = client.session("issue-7")
        saved = session.dossier("engineering").save(tmp_path / "sync.zip")
        assert session.dossier("research").read()["kind"] == "research"
        assert session.dossier().text().startswith("# Dossier")
        assert json.loads(session.dossier().save(tmp_path / "d.json").read_bytes())["complete"]

    async def save() -> bytes:
        async with AsyncClient(shared.url) as client:
            session = client.session("issue-7")
            assert (await session.dossier("research").read())["kind"] == "research"
            assert (await session.dossier("report", at=2).text()).startswith("# Dossier")
            return (await session.dossier("engineering").save(tmp_path / "async.zip")).read_bytes()

    assert asyncio.run(save()) == saved.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["async.zip", "d.json", "sync.zip"]


def test_the_graph_is_exported_as_a_drawing(ds: Commands, tmp_path: Path) -> None:
    assert ds.run("export", "issue-7", "--format", "mermaid").stdout.startswith("graph")
    path = tmp_path / "issue-7.dot"
    told = ds.json("export", "issue-7", "-o", str(path))
    assert told == {"session": "issue-7", "format": "dot", "path": str(path), "bytes": path.stat().st_size}
    assert path.read_text().startswith("digraph")
    assert ds.run("graph", "issue-7", "--format", "dot").stdout == path.read_text()
