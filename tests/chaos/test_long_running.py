"""The long-running example while worker and server are killed at random: it ends, and nothing runs twice.

Every other run has keys: the server then knows by itself who judges, and lets nobody else.
"""

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from durable_sessions import Client
from durable_sessions.client.errors import PermissionDeniedError
from tests.support.keys import BOOTSTRAP, make_secret
from tests.support.process import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.walkthrough import ROOT

RUNS = int(os.environ.get("LONG_RUNNING_RUNS", "1"))
KILLS = 4
LIFE_SECONDS_MAX = 2.5
FEATURES = {"add", "mul", "neg"}


def keys_of(server: ServerProcess) -> dict[str, str]:
    """Make a key for each of the two who work, and return them as the example finds them."""

    async def made() -> dict[str, str]:
        return {
            "CODER_KEY": await make_secret(server.url, "writer", principal="coder"),
            "JUDGE_KEY": await make_secret(server.url, "evaluator", principal="judge"),
        }

    return asyncio.run(made())


def start(server: ServerProcess, folder: Path, keys: dict[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / "long_running.py"), "--folder", str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "DURABLE_SESSIONS_URL": server.url, **keys},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def killed_after(process: "subprocess.Popen[str]", seconds: float) -> bool:
    """Kill a worker after some time, and say whether that came before its end."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate()
    return process.returncode != 0


@pytest.mark.parametrize("seed", range(RUNS))
def test_everything_is_judged_by_another_and_happens_once(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    folder = tmp_path / "work"
    is_keyed = seed % 2 == 0
    environment = {"DURABLE_SESSIONS_API_KEY": BOOTSTRAP} if is_keyed else {}
    with ServerProcess(tmp_path / "data", environment=environment) as server:
        keys = keys_of(server) if is_keyed else {}
        for _ in range(KILLS):
            worker = start(server, folder, keys)
            if chance.random() < 0.5:
                try:
                    worker.wait(chance.uniform(0, LIFE_SECONDS_MAX))
                except subprocess.TimeoutExpired:
                    pass
                server.kill()
                server.start()
            killed_after(worker, chance.uniform(0, LIFE_SECONDS_MAX))
        with start(server, folder, keys) as last:
            said, errors = last.communicate(timeout=PATIENCE_SECONDS)
        assert last.returncode == 0, errors
        assert {line.partition(":")[0] for line in said.splitlines()} == FEATURES
        with Client(server.url, keys.get("CODER_KEY")) as client:
            assert_all_well(client, folder)
            if is_keyed:
                assert_refused_to_judge(client)


def assert_refused_to_judge(coder: Client) -> None:
    """The key of the one who worked may not judge, whatever name it gives itself."""
    session = coder.sessions.create(outcome=[{"id": "add", "text": "There is a function add."}])
    coder.session(session.id).append({"type": "agent.message", "id": "said", "content": "It works."})
    with coder.wake(session.id) as work, pytest.raises(PermissionDeniedError):
        work.evaluate("add", "pass", evidence=["said"])


def assert_all_well(client: Client, folder: Path) -> None:
    session = client.session("long-running")
    state, events = session.state(), list(session.events())
    assert (state["done"], state["lifecycle"]) == (True, "closed")
    assert {one["evaluated_by"] for one in state["outcome"]["features"]} == {"judge"}
    assert state["generators"] == ["coder"]
    calls = [event.id for event in events if event.type == "agent.tool_use"]
    results = [event["tool_use_id"] for event in events if event.type == "agent.tool_result"]
    assert sorted(calls) == sorted(results)
    assert len(set(calls)) == len(calls)
    sent = [line.split("\t")[0] for line in (folder / "outbox.txt").read_text().splitlines()]
    assert sorted(sent) == sorted(call for call in calls if call.endswith("-announce"))
    acknowledged = (folder / "acknowledged.txt").read_text().split()
    assert acknowledged
    assert set(acknowledged) <= state["facts"].keys()
