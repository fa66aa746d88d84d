"""Background tasks of a real server: each is made to fail, says so, and works again without a restart."""

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.http.api.artifact_sweep import ArtifactSweep
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.node.disk_space import DiskSpace
from durable_sessions.node.engine_keeper import EngineKeeper
from durable_sessions.node.garbage_collector import Collector
from durable_sessions.search.waiting_searches import WaitingSearches
from durable_sessions.sessions.times_backfill import TimesBackfill
from durable_sessions.sessions.views_cleaning import ViewsCleaning
from durable_sessions.storage.flush import Flusher
from durable_sessions.storage.listeners import Listeners
from durable_sessions.storage.outbox_delivery import OutboxDelivery
from durable_sessions.storage.partition import Partition
from durable_sessions.storage.wakeups import Wakeups
from durable_sessions.testing.server import LocalServer, local_server
from durable_sessions.tier.maintenance import Maintenance
from tests.support.trial import until
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

LIMITS = replace(
    DEFAULT_LIMITS,
    task_restart_seconds=0.1,
    task_restart_seconds_max=0.2,
    expiry_sweep_seconds=0.01,
    maintenance_seconds=0.01,
    disk_look_seconds=0.01,
    artifact_sweep_seconds=0.01,
)
PULLED = {"type": "pull-wake", "pattern": "**", "wake_stream": "w"}
JSON = {"Content-Type": "application/json"}


class Fault:
    """Replaces a method: its calls fail until the fault is mended, then they do what they did."""

    def __init__(self, owner: type, name: str, error: Exception, patch: pytest.MonkeyPatch) -> None:
        self.is_mended = False
        self.calls_since = 0
        whole: Callable[..., Any] = getattr(owner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if not self.is_mended:
                raise error
            self.calls_since += 1
            return whole(*arguments, **named)

        patch.setattr(owner, name, call)


SQLITE = sqlite3.OperationalError("disk I/O error")
OURS = AssertionError("a fault of ours")
TASKS: dict[str, tuple[type, str, Exception]] = {
    "artifacts": (ArtifactSweep, "sweep", SQLITE),
    "listeners": (Listeners, "run", OURS),
    "collector": (Collector, "run", OURS),
    "disk space": (DiskSpace, "check", OURS),
    "engine": (EngineKeeper, "_keep_open", OURS),
    "expiry": (Partition, "expire_in_steps", SQLITE),
    "flusher": (Flusher, "_due", OURS),
    "maintenance": (Maintenance, "_recovered", OURS),
    "outbox": (OutboxDelivery, "deliver_all", OURS),
    "original times": (TimesBackfill, "_named", SQLITE),
    "search feed": (WaitingSearches, "awaited", SQLITE),
    "subscriptions": (Wakeups, "_reconcile", SQLITE),
    "subscription": (Wakeups, "_deliver_due", SQLITE),
    "views": (ViewsCleaning, "clean", SQLITE),
}


async def use(client: httpx2.AsyncClient, name: str) -> None:
    """Give every background task something to do."""
    answer = await client.put(f"/v1/stream/{name}", headers=JSON, content=b"[1]")
    assert answer.status_code == 201
    answer = await client.put(
        f"/v1/stream/__ds/subscriptions/{name}",
        json=PULLED,
    )
    assert answer.is_success, answer.text
    answer = await client.post("/v1/sessions", json={})
    assert answer.is_success, answer.text
    session = answer.json()["id"]
    answer = await client.post(f"/v1/sessions/{session}/events", json={"events": [{"type": "note"}]})
    assert answer.is_success, answer.text


@pytest.mark.parametrize("task", TASKS)
async def test_a_task_that_fails_says_so_and_recovers(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = Fault(*TASKS[task], monkeypatch)
    async with (
        local_server(tmp_path, limits=LIMITS, flush_seconds=0.01) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client,
    ):
        await use(client, "a")
        told = await failing(client, task)
        assert told["error"] == str(TASKS[task][2])
        assert (await client.get("/livez")).status_code == 200
        fault.is_mended = True
        await use(client, "b")
        await until(lambda: fault.calls_since > 0)
        await until(lambda: not server.node.supervisor.failures())
        assert (await client.get("/readyz")).json()["status"] == "ready"
        assert restarts(server, task) >= 1
        metrics = (await client.get("/metrics")).text
        assert f'durable_sessions_task_restarts_total{{task="{task}"}} {restarts(server, task)}.0' in metrics


async def failing(client: httpx2.AsyncClient, task: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            said = (await client.get("/readyz")).json()
            for one in said.get("tasks", ()):
                if one["task"] == task:
                    assert said["status"] == "degraded"
                    return dict(one)
            await asyncio.sleep(0.01)


def restarts(server: LocalServer, task: str) -> int:
    return server.node.supervisor.restarts[task]


async def test_every_task_of_a_server_is_supervised(tmp_path: Path) -> None:
    async with local_server(tmp_path, limits=LIMITS) as server:
        async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
            await use(client, "a")
        await until(lambda: set(server.node.supervisor.restarts) >= set(TASKS))
        # A new long-lived task belongs in TASKS above, so that its failure is tried.
        assert set(server.node.supervisor.restarts) == set(TASKS)
