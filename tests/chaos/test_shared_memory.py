"""Two agents in two processes share a memory scope while the server is killed: nothing is lost or returns."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.sessions.memory.records import FOLDER
from durable_sessions.streams.partition_map import home_partition
from tests.support.memory_agent import found
from tests.support.memory_history import judge
from tests.support.process import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.support.worker_processes import worker_pids

pytestmark = pytest.mark.chaos

SCOPE = "project:shared"
OPERATIONS = 100
KILLS = 3
WORKERS = 2
MEMORY = home_partition("default", FOLDER, WORKERS)


def named(*, with_memory: bool) -> str:
    """Return a session that lies in the partition of the memory, or in the other one."""
    places = (
        (name, home_partition("default", f"sessions/{name}", WORKERS)) for name in map("s{}".format, count())
    )
    return next(name for name, partition in places if (partition == MEMORY) == with_memory)


def test_agents_see_what_was_acknowledged_while_the_server_is_killed(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--workers", "1") as server:
        judge_agents(server, ("ada", "bob"), lambda _: restarted(server))


def test_agents_see_what_was_acknowledged_while_workers_are_killed(tmp_path: Path) -> None:
    """The records of one agent go to another partition than its events, in a step of their own."""

    def kill(chance: random.Random) -> None:
        if chance.random() < 0.3:
            restarted(server)
        else:
            wait_until(lambda: worker_pids(server))
            os.kill(chance.choice(worker_pids(server)), signal.SIGKILL)

    with ServerProcess(tmp_path / "data", "--workers", str(WORKERS)) as server:
        judge_agents(server, (named(with_memory=True), named(with_memory=False)), kill)


def judge_agents(
    server: ServerProcess, names: tuple[str, ...], kill: Callable[[random.Random], None]
) -> None:
    """Let agents work while the server is killed, and judge what they saw by log and sessions."""
    agents = [started(server, name, seed) for seed, name in enumerate(names)]
    try:
        chance = random.Random(7)
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.1, 0.4))  # any moment will do
            kill(chance)
        said = [line for agent in agents for line in ended(agent)]
    finally:
        for agent in agents:
            agent.kill()
    assert len(said) == len(names) * OPERATIONS
    restarted(server)
    log = asked(server, "memory/log", scope=SCOPE, limit=1000)["data"]
    begun, last = time.monotonic(), asked(server, "memory", scope=SCOPE)
    read = {"act": "read", "at": last["at"], "found": found(last["data"]), "by": "the test"}
    judge([*said, {**read, "begun": begun, "ended": time.monotonic()}], log)
    for name in names:
        events = asked(server, f"sessions/{name}/events", limit=1000)["data"]
        recorded = [one["id"] for one in events if one["type"].startswith("ds.memory.")]
        assert recorded == [one["id"] for one in log if one["session"] == name]


def restarted(server: ServerProcess) -> None:
    server.kill()
    server.start()


def asked(server: ServerProcess, path: str, **query: Any) -> Any:
    answer = httpx2.get(f"{server.url}/v1/{path}", params=query, timeout=PATIENCE_SECONDS)
    assert answer.status_code == 200, answer.text
    return answer.json()


def started(server: ServerProcess, name: str, seed: int) -> "subprocess.Popen[str]":
    agent = [sys.executable, "-m", "tests.support.memory_agent"]
    command = [*agent, server.url, name, str(seed), str(OPERATIONS), SCOPE]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])


def ended(agent: "subprocess.Popen[str]") -> list[dict[str, Any]]:
    out, _ = agent.communicate(timeout=PATIENCE_SECONDS)
    assert agent.returncode == 0
    return [json.loads(line) for line in out.splitlines()]
