"""Two agents in two processes share a memory scope while the server is killed: nothing is lost."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.memory_agent import KEYS
from tests.support.process import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.chaos

SCOPE = "project:shared"
OPERATIONS = 100
KILLS = 3


def test_every_read_names_only_writes_that_were_acknowledged_before_it(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        agents = [started(server, name, seed) for seed, name in enumerate(("ada", "bob"))]
        try:
            chance = random.Random(7)
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.1, 0.4))  # any moment will do
                server.kill()
                server.start()
            said = [line for agent in agents for line in ended(agent)]
        finally:
            for agent in agents:
                agent.kill()
        log = httpx2.get(f"{server.url}/v1/memory/log", params={"scope": SCOPE, "limit": 1000}).json()["data"]
    assert len(said) == len(agents) * OPERATIONS
    judge_log(said, log)
    for read in said:
        if read["act"] == "read":
            judge_read(read, said)


def started(server: ServerProcess, name: str, seed: int) -> "subprocess.Popen[str]":
    agent = [sys.executable, "-m", "tests.support.memory_agent"]
    command = [*agent, server.url, name, str(seed), str(OPERATIONS), SCOPE]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])


def ended(agent: "subprocess.Popen[str]") -> list[dict[str, Any]]:
    out, _ = agent.communicate(timeout=PATIENCE_SECONDS)
    assert agent.returncode == 0
    return [json.loads(line) for line in out.splitlines()]


def judge_log(said: list[dict[str, Any]], log: list[dict[str, Any]]) -> None:
    """Each acknowledged write is in the log once, and each read names writes that lie before it."""
    written = [one["id"] for one in log if one["type"] == "written"]
    assert sorted(written) == sorted(one["id"] for one in said if one["act"] == "write")
    places = {one["id"]: one["position"] for one in log if one["type"] == "written"}
    reads = [one for one in log if one["type"] == "read"]
    assert reads
    for read in reads:
        assert all(places[one["id"]] < read["position"] for one in read["returned"])


def judge_read(read: dict[str, Any], said: list[dict[str, Any]]) -> None:
    """A read has what was acknowledged before it, or something newer, and nothing that was taken back."""
    writes = {one["id"]: one for one in said if one["act"] == "write"}
    undone = [one for one in said if one["act"] == "undo"]
    for key in KEYS:
        found = read["found"].get(key)
        if found is not None:
            assert writes[found]["key"] == key
            assert writes[found]["begun"] < read["ended"]
            assert not any(one["id"] == found and one["ended"] < read["begun"] for one in undone)
        for write in writes.values():
            # What was acknowledged before the read, and is surely newer than what was found, must have been
            # found, unless somebody had begun to take it back.
            is_older = found is None or writes[found]["ended"] < write["begun"]
            if write["key"] == key and write["ended"] < read["begun"] and is_older:
                assert any(one["id"] == write["id"] and one["begun"] < read["ended"] for one in undone)
