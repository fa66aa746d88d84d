"""The server as a process: starting, stopping, settings, health and metrics."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx2
import pytest

from durable_sessions import __version__
from durable_sessions.testing.server import local_server
from tests.support.process import ServerProcess
from tests.support.skips import disabled
from tests.support.waiting import PATIENCE_SECONDS

TEXT = {"Content-Type": "text/plain"}


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "durable_sessions", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)


def test_sigterm_finishes_what_is_in_flight_and_exits_0(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        httpx2.put(server.url + "/v1/stream/s", headers=TEXT)
        acknowledged: list[int] = []
        failures: list[str] = []

        def write() -> None:
            with httpx2.Client(base_url=server.url) as client:
                for number in range(10_000):
                    try:
                        answer = client.post("/v1/stream/s", headers=TEXT, content=f"{number};")
                    except httpx2.TransportError as error:
                        failures.append(repr(error))
                        return
                    if answer.status_code != 204:
                        failures.append(answer.json()["error"]["code"])
                        return
                    acknowledged.append(number)

        writer = threading.Thread(target=write)
        writer.start()
        while len(acknowledged) < 50:
            time.sleep(0.01)
        assert server.terminate() == 0
        writer.join()
        assert len(failures) == 1
        server.start()
        text = httpx2.get(server.url + "/v1/stream/s").text
        assert text.startswith("".join(f"{number};" for number in acknowledged))
        assert '"stopped"' in server.log.read_text()


def test_a_second_server_on_the_same_data_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "data" / "log" / "lock"
    with ServerProcess(tmp_path / "data"):
        holder = lock.read_text().strip()
        second = run("serve", "--port", "0", "--data", str(tmp_path / "data"))
        assert second.returncode == 1
        assert f"in use by another process (pid {holder})" in second.stderr
        assert f"stop it first with kill {holder}; to run a second one, give it a directory" in second.stderr
        assert "Traceback" not in second.stderr


def test_a_taken_port_is_said_plainly(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "one") as server:
        second = run("serve", "--port", str(server.port), "--data", str(tmp_path / "two"))
        assert second.returncode == 1
        assert str(server.port) in second.stderr
        assert "Traceback" not in second.stderr


def test_settings_from_environment_and_file(tmp_path: Path) -> None:
    config = tmp_path / "ds.toml"
    config.write_text('long_poll_seconds = 0.1\nlog_level = "warning"\n')
    with ServerProcess(tmp_path / "data", environment={"DURABLE_SESSIONS_CONFIG": str(config)}) as server:
        httpx2.put(server.url + "/v1/stream/s", headers=TEXT)
        started = time.monotonic()
        assert httpx2.get(server.url + "/v1/stream/s?offset=-1&live=long-poll").status_code == 204
        assert time.monotonic() - started < 15  # the default is 20
        assert server.terminate() == 0
        assert server.log.read_text() == ""


def test_unknown_settings_name_the_nearest(tmp_path: Path) -> None:
    config = tmp_path / "ds.toml"
    config.write_text("prot = 1\n")
    refused = run("serve", "--config", str(config))
    assert refused.returncode == 2
    assert "Did you mean 'port'?" in refused.stderr


def test_help_and_version() -> None:
    assert __version__ in run("--version").stdout
    text = run("serve", "--help").stdout
    for option in ("--host", "--port", "--data", "--long-poll-seconds", "DURABLE_SESSIONS_PORT"):
        assert option in text


@pytest.fixture
def metrics(tmp_path: Path) -> str:
    with ServerProcess(tmp_path / "data") as server:
        httpx2.put(server.url + "/v1/stream/s", headers=TEXT)
        httpx2.post(server.url + "/v1/stream/s", headers=TEXT, content="abc")
        assert httpx2.get(server.url + "/livez").json() == {"status": "alive"}
        assert httpx2.get(server.url + "/readyz").json()["status"] == "ready"
        return httpx2.get(server.url + "/metrics").text


def test_metrics_count_and_are_well_named(metrics: str) -> None:
    values = dict(re.findall(r"^(\w+) ([0-9.e+]+)$", metrics, re.MULTILINE))
    assert values["durable_sessions_appends_total"] == "1.0"
    assert values["durable_sessions_append_bytes_total"] == "3.0"
    assert values["durable_sessions_streams"] == "1.0"
    assert float(values["durable_sessions_log_syncs_total"]) >= 2
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", metrics, re.MULTILINE))
    helped = set(re.findall(r"^# HELP (\w+) \S", metrics, re.MULTILINE))
    assert kinds.keys() == helped
    for name, kind in kinds.items():
        assert re.fullmatch(r"durable_sessions(_[a-z0-9]+)+", name), name
        assert (kind == "counter") == name.endswith("_total"), name
        assert kind != "histogram" or name.endswith("_seconds"), name
        assert not re.search(r"_(ms|milliseconds|kb|mb|count|sum|bucket)$", name), name
    documented = (Path(__file__).parents[2] / "docs/reference/metrics.md").read_text()
    for name in kinds:
        assert f"`{name}`" in documented


@pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason=disabled("promtool is missing: only our own lint read the metrics", "apt-get install prometheus"),
)
def test_promtool_agrees(metrics: str) -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=metrics, text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_parents_of_a_new_data_directory_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    async def run() -> None:
        async with local_server(tmp_path / "a" / "b" / "data"):
            pass

    monkeypatch.setattr(os, "fsync", noted)
    asyncio.run(run())
    for parent in (tmp_path, tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "data"):
        assert parent.stat().st_ino in synced
