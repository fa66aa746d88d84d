"""``make cluster``: what it starts, what it writes, and that it ends everything."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from tools.local_cluster import PORTS, free_ports, inherited

from durable_sessions.settings import ENVIRONMENT_PREFIX
from tests.cluster.conftest import require_servers
from tests.support.trial import SOAK_VARIABLE
from tests.support.waiting import wait_until
from tests.support.walkthrough import ROOT


def is_running(pid: int) -> bool:
    """Say whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_command_runs_it_as_it_is() -> None:
    (recipe,) = re.findall(r"^cluster: .*\n\t(.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe == "@exec $(BIN)/python -m tools.local_cluster"
    assert PORTS == (4437, 4438, 4439)


def test_a_soak_runs_although_settings_are_strict() -> None:
    assert SOAK_VARIABLE in (ROOT / "Makefile").read_text()
    assert not SOAK_VARIABLE.startswith(ENVIRONMENT_PREFIX), "it would be taken for a setting, and refused"


def test_settings_of_another_server_do_not_reach_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_PREFIX + "PORT", "1")
    monkeypatch.setenv("AWS_REGION", "nowhere")
    assert not any(name.startswith(ENVIRONMENT_PREFIX) for name in inherited())
    assert inherited()["AWS_REGION"] == "nowhere"


def test_it_says_when_it_is_ready_restarts_nothing_and_ends_everything(tmp_path: Path) -> None:
    require_servers()
    ports, data, said = free_ports(3), tmp_path / "data", tmp_path / "said"
    command = [sys.executable, "-m", "tools.local_cluster", "--data", str(data)]
    with said.open("wb") as output:
        cluster = subprocess.Popen(
            [*command, "--ports", ",".join(map(str, ports))], cwd=ROOT, stdout=output, stderr=output
        )
    pids: list[int] = []
    try:

        def is_ready() -> bool:
            assert cluster.poll() is None, said.read_text()
            return "The cluster is ready." in said.read_text()

        wait_until(is_ready)
        written = json.loads((data / "pids.json").read_text())
        assert {kind: type(found) for kind, found in written.items()} == {
            "nodes": list,
            "nats": list,
            "s3": int,
        }
        assert [len(written["nodes"]), len(written["nats"])] == [3, 3]
        pids = [*written["nodes"], *written["nats"], written["s3"]]
        assert len(set(pids)) == 7
        assert all(map(is_running, pids))
        for port in ports:
            assert httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=60).status_code == 200
        victims = [written["nodes"][2], written["nats"][2]]
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        wait_until(lambda: not any(map(is_running, victims)))
        assert json.loads((data / "pids.json").read_text()) == written, "nothing was restarted"
        cluster.send_signal(signal.SIGINT)
        assert cluster.wait(120) == 0, said.read_text()
        assert not any(map(is_running, pids))
        assert said.read_text().splitlines()[-1] == "Everything has ended."
        assert not (data / "pids.json").exists()
    finally:
        if cluster.poll() is None:
            cluster.kill()
        for pid in filter(is_running, pids):
            os.kill(pid, signal.SIGKILL)
