"""A full disk, and S3 away, while dossiers are made and memory stores changed: whole, or refused."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.evidence.verification import public_keys, verify
from tests.support.evidence import post, tell_story
from tests.support.process import ServerProcess
from tests.support.s3 import S3Server, seaweedfs
from tests.support.sessions import code
from tests.support.shim import Shim
from tests.support.trial import HASTY, HASTY_OPTIONS, TAIL_OPTIONS, restart, until
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]
ZIP = "/sessions/issue-7/dossier?kind=engineering&format=zip"
LARGE = "x" * 900_000


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with seaweedfs(tmp_path_factory.mktemp("s3")) as server:
        yield server


@asynccontextmanager
async def running(server: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    await asyncio.to_thread(server.start)
    try:
        url = server.url + "/v1"
        async with httpx2.AsyncClient(base_url=url, verify=False, timeout=PATIENCE_SECONDS) as api:
            yield api
    finally:
        await asyncio.to_thread(server.kill)


async def require_proof(api: httpx2.AsyncClient, tmp_path: Path) -> bytes:
    """Return the archive of the story, which must verify."""
    answer = await api.get(ZIP)
    assert answer.status_code == 200, answer.text
    path = tmp_path / "issue-7.zip"
    path.write_bytes(answer.content)
    known = public_keys((await api.get("/stream/__ds/jwks.json")).content)
    assert verify(path, known).result == "PASSED"
    return answer.content


async def contents(api: httpx2.AsyncClient, store: str) -> dict[str, str]:
    """Return the memories of a store, each as its newest version has it."""
    memories = (await api.get(f"/memory_stores/{store}/memories?view=full&limit=20")).json()["data"]
    return {one["path"]: one["content"] for one in memories}


async def test_the_disk_is_full(tmp_path: Path, shim: Shim) -> None:
    options = (*TAIL_OPTIONS, *HASTY_OPTIONS)
    server = ServerProcess(tmp_path / "data", *options, environment=shim.environment, limits=HASTY)
    async with running(server) as api:
        await tell_story(api)
        for _ in range(2):
            await post(api, "issue-7", {"type": "note", "text": LARGE})  # so that it does not stay in memory
        whole = await require_proof(api, tmp_path)
        store = (await api.post("/memory_stores", json={"name": "notes"})).json()["id"]
        memories = f"/memory_stores/{store}/memories"
        first = await api.post(memories, json={"path": "/a", "content": "one"})
        shim.limit_space(0)
        for _ in range(3):
            refused = await api.get(ZIP)
            assert (refused.status_code, code(refused)) == (503, "view_unavailable"), refused.text
            assert "No space left on device" in refused.json()["error"]["message"]
        assert (await api.get("/sessions/issue-7/dossier?kind=engineering")).status_code == 200
        # A dossier stops nothing; a change of a store is one of the log.
        assert httpx2.get(server.url + "/readyz", verify=False).status_code == 200
        changed = await api.post(f"{memories}/{first.json()['id']}", json={"content": "two"})
        created = await api.post(memories, json={"path": "/b", "content": "two"})
        assert (changed.status_code, created.status_code) == (503, 503), (changed.text, created.text)
        assert await contents(api, store) == {"/a": "one"}
        shim.free_space()
        await until(lambda: httpx2.get(server.url + "/readyz", verify=False).status_code == 200)
        assert await require_proof(api, tmp_path) == whole
        # Whoever got no answer sends it again: it is there once.
        seen = await contents(api, store)
        assert {path: text for path, text in seen.items() if text != "two"} in ({}, {"/a": "one"})
        changed = await api.post(f"{memories}/{first.json()['id']}", json={"content": "two"})
        assert changed.status_code == 200, changed.text
        await api.post(memories, json={"path": "/b", "content": "two"})
        assert await contents(api, store) == {"/a": "two", "/b": "two"}
        versions = (await api.get(f"/memory_stores/{store}/memory_versions?limit=20")).json()["data"]
        assert [one["operation"] for one in versions].count("created") == 2


async def test_s3_is_away(s3: S3Server, tmp_path: Path) -> None:
    environment = {**s3.environment, "DURABLE_SESSIONS_BUCKET": s3.url(tmp_path.name)}
    limits: dict[str, Any] = {**HASTY, "block_cache_bytes_max": 0}
    server = ServerProcess(tmp_path / "data", *TAIL_OPTIONS, environment=environment, limits=limits)
    async with running(server) as api:
        await tell_story(api)
        whole = await require_proof(api, tmp_path)
        store = (await api.post("/memory_stores", json={"name": "notes"})).json()["id"]
        memories = f"/memory_stores/{store}/memories"
        first = await api.post(memories, json={"path": "/a", "content": "one"})
        assert (await api.post("/admin/flush")).status_code == 200
        await restart(server)  # what was flushed is cold now
        s3.stop()
        try:
            for path in (ZIP, ZIP.replace("zip", "json"), "/sessions/issue-7/graph"):
                refused = await api.get(path)
                assert refused.status_code == 503, refused.text
                assert code(refused) in ("view_unavailable", "cold_read_failed"), refused.text
            # What was said to a store before is in the bucket only; what is new is in the log.
            changed = await api.post(f"{memories}/{first.json()['id']}", json={"content": "two"})
            created = await api.post(memories, json={"path": "/b", "content": "two"})
            assert {changed.status_code, created.status_code} <= {200, 201, 503}
        finally:
            s3.start()
        await asyncio.to_thread(s3.wait_for_objects)
        assert await require_proof(api, tmp_path) == whole
        before = {"/a": "one", "/b": ""}
        for answer, path in ((changed, "/a"), (created, "/b")):
            now = (await contents(api, store)).get(path, "")
            assert now == ("two" if answer.status_code < 300 else before[path])
        again = await api.post(f"{memories}/{first.json()['id']}", json={"content": "three"})
        assert again.status_code == 200, again.text
        assert (await contents(api, store))["/a"] == "three"
