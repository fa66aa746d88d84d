"""Dossiers at each of their limits, and one past it."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.limits import Limits
from durable_sessions.sessions.dossier.dossiers import Dossiers
from durable_sessions.sessions.dossier.made import MadeDossier
from durable_sessions.testing.server import local_server
from tests.support.evidence import post
from tests.support.process import counts_in_one_process
from tests.support.sessions import code
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio
PIECES = 40


@asynccontextmanager
async def limited(tmp_path: Path, **limits: int) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        local_server(tmp_path / "data", limits=Limits(**limits)) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
    ):
        yield api


async def asked(api: httpx2.AsyncClient, kind: str = "report", form: str = "json") -> httpx2.Response:
    return await api.get(f"/sessions/s/dossier?kind={kind}&format={form}")


async def require_limit(api: httpx2.AsyncClient, limit: str, form: str = "json") -> None:
    refused = await asked(api, form=form)
    assert (refused.status_code, code(refused)) == (400, "dossier_too_large"), refused.text
    assert limit in refused.json()["error"]["message"]


async def test_sessions(tmp_path: Path) -> None:
    async with limited(tmp_path, dossier_sessions_max=3) as api:
        await post(api, "s", {"type": "note"})
        for name in ("f1", "f2"):
            await api.put(f"/sessions/{name}", headers={"Stream-Forked-From": "/v1/sessions/s"})
        assert (await asked(api)).status_code == 200
        await api.put("/sessions/f3", headers={"Stream-Forked-From": "/v1/sessions/s"})
        await require_limit(api, "more than 3 sessions")


async def test_events(tmp_path: Path) -> None:
    async with limited(tmp_path, dossier_events_max=5) as api:
        await post(api, "s", *({"type": "note"} for _ in range(4)))
        await api.put("/sessions/f", headers={"Stream-Forked-From": "/v1/sessions/s"})
        await post(api, "f", {"type": "note"})
        assert (await asked(api)).status_code == 200
        await post(api, "f", {"type": "note"})
        await require_limit(api, "more than 5 events")
        assert (await api.get("/sessions/f/dossier?kind=report&at=5")).status_code == 200


async def test_artifacts(tmp_path: Path) -> None:
    async with limited(tmp_path, dossier_artifacts_max=2) as api:
        for number in range(3):
            if number == 2:
                assert (await asked(api, form="zip")).status_code == 200
            data = b"%d" % number
            digest = hashlib.sha256(data).hexdigest()
            await api.put(f"/artifacts/{digest}", content=data)
            await post(api, "s", {"type": "ds.artifact", "sha256": digest, "name": "n", "role": "input"})
        await require_limit(api, "more than 2 artifacts", "zip")


async def test_items_and_values(tmp_path: Path) -> None:
    async with limited(tmp_path, dossier_bytes_max=4_000, dossier_value_bytes_max=100) as api:
        call: dict[str, Any] = {"type": "agent.tool_use", "name": "n", "input": "x" * 98}
        await post(api, "s", call, {**call, "input": "x" * 99})
        items = (await asked(api)).json()["sections"]["tool_logs"]["items"]
        assert [item["input"] for item in items] == ["x" * 98, None]
        await post(api, "s", *(call for _ in range(20)))
        await require_limit(api, "more than 4,000 bytes of items")


async def test_trials(tmp_path: Path) -> None:
    async with limited(tmp_path, dossier_trials_max=2) as api:
        for name in ("s", "t", "u"):
            if name == "u":
                assert (await asked(api, "trading")).status_code == 200
            await api.put(f"/sessions/{name}", json={"metadata": {"trial_of": "x"}})
        refused = await asked(api, "trading")
        assert (refused.status_code, code(refused)) == (400, "dossier_too_large")
        assert (await asked(api, "report")).status_code == 200


async def test_archives(tmp_path: Path) -> None:
    async with limited(tmp_path, dossier_archive_bytes_max=20_000, dossier_spool_bytes_max=50) as api:
        await post(api, "s", {"type": "note", "text": "x" * 10_000})
        zipped = await asked(api, form="zip")
        assert zipped.status_code == 200
        await post(api, "s", {"type": "note", "text": "x" * 10_000})
        await require_limit(api, "more than 20,000 bytes of events and artifacts", "zip")
        assert (await asked(api)).status_code == 200
    async with limited(tmp_path) as api:  # what is kept in memory changes no byte
        assert (await api.get("/sessions/s/dossier?kind=report&format=zip&at=1")).content == zipped.content


@counts_in_one_process
@pytest.mark.parametrize(
    ("limits", "most"), [({"dossiers_max": 2}, 2), ({"dossiers_per_key_max": 1, "dossiers_max": 9}, 1)]
)
async def test_how_many_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int], most: int
) -> None:
    made, waiting, reached = Dossiers.make, 0, asyncio.Event()

    async def slow(self: Dossiers, *arguments: Any, **options: Any) -> MadeDossier:
        nonlocal waiting
        waiting += 1
        assert waiting <= most
        if waiting == most:
            reached.set()
        await reached.wait()
        await asyncio.sleep(0)
        waiting -= 1
        return await made(self, *arguments, **options)

    monkeypatch.setattr(Dossiers, "make", slow)
    async with limited(tmp_path, **limits) as api:
        await post(api, "s", {"type": "note"})
        answers = await asyncio.gather(*(asked(api) for _ in range(7)))
        assert {answer.status_code for answer in answers} == {200}
        assert len({json.dumps(answer.json()) for answer in answers}) == 1
