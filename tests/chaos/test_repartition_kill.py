"""``ds repartition``, killed at random moments: it has happened or not, and nothing else has changed."""

import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.bucket.partition_layout import PartitionLayout, read_layout
from durable_sessions.bucket.store import Bucket
from durable_sessions.testing.server import local_server
from tests.integration.test_repartition import SESSIONS, client_of, fill, read, relate, sound
from tests.support.keys import BOOTSTRAP
from tests.support.trial import Plan

pytestmark = pytest.mark.anyio

KILLS = 4
"""How often each step, 1 to 2 and 2 to 1 partitions, is killed before it is left to end."""
ERASED = f"/v1/sessions/{SESSIONS[1]}"
LEASED, SLOTTED = f"/v1/sessions/{SESSIONS[2]}", f"/v1/sessions/{SESSIONS[3]}"


async def work(client: httpx2.AsyncClient) -> None:
    """Erase an event, wake a session, take slots: what lies beside the events must move with them."""
    asked = {"events": [f"{SESSIONS[1]}-flushed"], "reason": "a secret"}
    assert (await client.post(f"{ERASED}/redact", json=asked)).is_success
    assert (await client.post(f"{LEASED}/wake", json={"seconds": 600})).is_success
    held = [{"type": "note", "slot": f"slot-{number}", "n": number} for number in range(3)]
    assert (await client.post(f"{SLOTTED}/events", json={"events": held})).is_success


async def seen(client: httpx2.AsyncClient) -> dict[str, Any]:
    """Return what clients see of everything."""
    found = await read(client)
    found["list"] = [_timeless(json.loads(one)) for one in found["list"]]
    for name in SESSIONS:
        state = (await client.get(f"/v1/sessions/{name}/state")).json()
        state.pop("usage", None)  # it counts the seconds until now
        found[f"state of {name}"] = _timeless(state)
        found[f"slots of {name}"] = (await client.get(f"/v1/sessions/{name}/slots")).json()
    erased = found[SESSIONS[1]][0]
    assert "text" not in erased, "it was redacted"
    return found


def _timeless(shown: dict[str, Any]) -> dict[str, Any]:
    """Return what is shown without the end of its lease: after a restart that has its full time again."""
    if shown.get("lease"):
        shown["lease"].pop("expires_at")
    return shown


async def layout_of(data: Path) -> PartitionLayout:
    layout = await read_layout(await Bucket.open(data / "bucket"))
    assert layout is not None
    return layout


def begin(data: Path, partitions: int) -> "subprocess.Popen[bytes]":
    """Start the command, and return when it has opened the data."""
    command = [sys.executable, "-m", "durable_sessions", "repartition", "--data", str(data)]
    process = subprocess.Popen([*command, "--partitions", str(partitions)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def seconds_of(data: Path, copy: Path, partitions: int) -> float:
    """Return how long it takes from there to the end, on a copy."""
    shutil.copytree(data, copy)
    process = begin(copy, partitions)
    began = time.monotonic()
    process.communicate()
    assert process.returncode == 0
    shutil.rmtree(copy)
    return time.monotonic() - began


async def test_a_repartition_that_is_killed_has_happened_or_not(tmp_path: Path, plan: Plan) -> None:
    data, moments = tmp_path / "data", random.Random(plan.seed)
    async with local_server(data, api_key=BOOTSTRAP, workers=1) as server, client_of(server) as client:
        await fill(client, "flushed")
        for name in ("session-0", "session-2"):
            await client.put(f"/v1/sessions/{name}", json={})
        await client.put("/v1/stream/plain/1", headers={"content-type": "text/plain"}, content=b"source")
        assert (await client.post("/v1/admin/flush")).is_success
        await relate(client)
        await fill(client, "in the log")
        await work(client)
        before = await seen(client)
    for partitions in (2, 1):
        old, seconds = await layout_of(data), seconds_of(data, tmp_path / "copy", partitions)
        for _ in range(KILLS):
            process = begin(data, partitions)
            time.sleep(moments.uniform(0, seconds))
            process.kill()
            process.communicate()
            now = await layout_of(data)
            assert now.partitions in (old.partitions, partitions)
            assert (now == old) == (now.partitions == old.partitions), "a layout is never half of it"
            await sound(data, now, log=now == old, killed=True)
        process = begin(data, partitions)
        process.communicate()
        assert process.returncode == 0
        now = await layout_of(data)
        assert now.partitions == partitions
        await sound(data, now)
        async with (
            local_server(data, api_key=BOOTSTRAP, workers=partitions) as server,
            client_of(server) as client,
        ):
            assert await seen(client) == before
