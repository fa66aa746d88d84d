"""``serve --workers N``: several processes that serve one data directory as if they were one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from durable_sessions.streams.partition_map import home_partition
from tests.support.keys import bearer, proof
from tests.support.process import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.support.worker_processes import alive, worker_pids

SESSIONS = [f"session-{number}" for number in range(8)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data", "--workers", "2") as running:
        pids = worker_pids(running)
        yield running
    wait_until(lambda: not any(alive(pid) for pid in pids))


def client_of(server: ServerProcess, **options: object) -> httpx2.Client:
    return httpx2.Client(base_url=server.url, timeout=PATIENCE_SECONDS, **options)  # type: ignore[arg-type]


def append(client: httpx2.Client, name: str, text: str) -> httpx2.Response:
    event = {"type": "user.message", "content": [{"type": "text", "text": text}]}
    return client.post(f"/v1/sessions/{name}/events", json={"events": [event]})


def texts(client: httpx2.Client, name: str) -> list[str]:
    events = client.get(f"/v1/sessions/{name}/events").json()["data"]
    return [event["content"][0]["text"] for event in events]


def log_lines(server: ServerProcess) -> list[dict[str, object]]:
    return [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]


def home(name: str) -> int:
    return home_partition("default", f"sessions/{name}", of=2)


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "durable_sessions", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)


def test_two_workers_serve_as_one(server: ServerProcess) -> None:
    assert {home(name) for name in SESSIONS} == {0, 1}
    with client_of(server) as client:
        for name in SESSIONS:
            assert append(client, name, "a needle").is_success
        for _ in range(4):
            with client_of(server) as other:  # the kernel chooses the worker
                listed = other.get("/v1/sessions", params={"order": "asc"}).json()["data"]
                assert sorted(session["id"] for session in listed) == SESSIONS
                found = other.get("/v1/search", params={"q": "needle", "limit": 20}).json()["data"]
                assert sorted(group["session"]["id"] for group in found) == SESSIONS
                assert set(other.get("/readyz").json()["partitions"]) == {"00", "01", "sys"}
                metrics = other.get("/metrics").text
                assert all(f'http_connections{{worker="{number}"}}' in metrics for number in (0, 1))
                assert set(other.post("/v1/admin/flush").json()["partitions"]) == {"00", "01", "sys"}
    said = log_lines(server)
    assert [line["workers"] for line in said if line["event"] == "listening"] == [2]
    assert {line["worker"] for line in said if line["event"] == "worker_listening"} == {0, 1}


def test_sigterm_ends_all_and_the_data_opens_with_one_worker(server: ServerProcess, tmp_path: Path) -> None:
    with client_of(server) as client:
        for name in SESSIONS:
            assert append(client, name, "before").is_success
    pids = worker_pids(server)
    assert server.terminate() == 0
    assert not any(alive(pid) for pid in pids)
    assert not [line for line in log_lines(server) if line["level"] == "error"]
    with ServerProcess(server.data) as alone, client_of(alone) as client:
        for name in SESSIONS:
            assert texts(client, name) == ["before"]


def test_a_killed_worker_comes_back_with_what_it_had(server: ServerProcess) -> None:
    with client_of(server) as client:
        for name in SESSIONS:
            assert append(client, name, "before").is_success
    for number in (0, 1):
        pids = worker_pids(server)
        os.kill(pids[number], signal.SIGKILL)
        wait_until(lambda: pids[number] not in worker_pids(server) and len(worker_pids(server)) == 2)  # noqa: B023
        with client_of(server) as client:
            wait_until(lambda: _ready(client))
            for name in SESSIONS:
                assert texts(client, name)[0] == "before"
                assert append(client, name, f"after {number}").is_success
    assert server.process is not None
    assert server.process.poll() is None


def _ready(client: httpx2.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx2.TransportError:
        return False


def test_workers_end_with_a_supervisor_that_is_killed(server: ServerProcess) -> None:
    """Those of the next one wait for them, ``worker_lock_seconds_max`` long."""
    with client_of(server) as client:
        assert append(client, SESSIONS[0], "kept").is_success
    for _ in range(2):
        pids = worker_pids(server)
        server.kill()
        server.start()  # at once: the new workers wait for the old ones
        assert not any(alive(pid) for pid in pids)
        with client_of(server) as client:
            assert texts(client, SESSIONS[0]) == ["kept"]


def test_keys_are_made_and_revoked_for_all_workers(server: ServerProcess) -> None:
    """The first key through whichever worker, and each change known everywhere when it is answered."""
    with client_of(server) as client:
        for name in SESSIONS:
            assert append(client, name, "to be deleted").is_success
    wanted = {"role": "admin", "principal": "ann"}
    with client_of(server) as client:
        made = client.post("/v1/keys", json=wanted, headers=proof(server.data))
    assert made.status_code == 201, made.text
    assert made.json()["everywhere"] is True
    ann = bearer(made.json()["secret"])
    with client_of(server, headers=ann) as client:
        assert client.delete(f"/v1/sessions/{SESSIONS[0]}").is_success
        assert client.delete(f"/v1/sessions/{SESSIONS[1]}").is_success
    for i in range(6):
        with client_of(server, headers=ann) as client:
            made = client.post("/v1/keys", json={"role": "writer", "principal": f"bob {i}"})
        bob = bearer(made.json()["secret"])
        for _ in range(4):
            assert _status(server, bob) == 200
        with client_of(server, headers=ann) as client:
            revoked = client.delete(f"/v1/keys/{made.json()['id']}")
            assert revoked.json()["everywhere"] is True
        for _ in range(4):
            assert _status(server, bob) == 401
            assert _status(server, {}) == 401
    with client_of(server, headers=ann) as client:

        def deleted() -> bool:
            acts = client.get("/v1/audit", params={"limit": 100}).json()["data"]
            found = sorted(act["session"] for act in acts if act["type"] == "session.deleted")
            return found == sorted(SESSIONS[:2])

        wait_until(deleted)


def _status(server: ServerProcess, headers: dict[str, str]) -> int:
    return httpx2.get(server.url + f"/v1/sessions/{SESSIONS[2]}", headers=headers).status_code


def test_a_connection_moves_to_the_owner_of_its_session(server: ServerProcess) -> None:
    """An agent talks to one session, so after one move its requests are not forwarded any more."""
    for name in SESSIONS:
        with client_of(server) as client:
            for i in range(3):
                assert append(client, name, f"{i}").is_success
            assert texts(client, name) == ["0", "1", "2"]
    metrics = httpx2.get(server.url + "/metrics").text
    handed = [line for line in metrics.splitlines() if line.startswith("durable_sessions_connections_handed")]
    assert sum(float(line.split()[-1]) for line in handed) > 0


def test_workers_that_cannot_share_the_partitions_are_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        assert server.terminate() == 0
    refused = run("serve", "--workers", "2", "--port", "0", "--data", str(data))
    assert refused.returncode == 1
    assert f"ds repartition --data {data} --partitions 2" in refused.stderr
    assert refused.stderr.count("cannot share evenly") == 1
    assert "or start the server with --workers 1." in refused.stderr
    assert run("repartition", "--partitions", "2", "--data", str(data)).returncode == 0
    refused = run("serve", "--workers", "3", "--port", "0", "--data", str(data))
    assert "or start the server with --workers 2." in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_refused_start_with_workers_leaves_nothing(tmp_path: Path) -> None:
    data = tmp_path / "made" / "data"
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    (bucket / "format.json").write_text('{"format":"another"}')
    options = ("--workers", "2", "--port", "0", "--data", str(data), "--bucket", str(bucket))
    assert run("serve", *options).returncode == 1
    assert not (tmp_path / "made").exists()


def test_a_second_server_on_the_data_or_port_of_workers_is_refused(
    server: ServerProcess, tmp_path: Path
) -> None:
    for options in ((), ("--workers", "2")):
        second = run("serve", "--port", "0", "--data", str(server.data), *options)
        assert second.returncode == 1
        assert "in use by another process" in second.stderr
        other = ("--port", str(server.port), "--data", str(tmp_path / "other"), *options)
        assert run("serve", *other).returncode == 1
    assert httpx2.get(server.url + "/readyz").status_code == 200


def test_port_0_is_one_port_for_all_workers(tmp_path: Path) -> None:
    command = ["serve", "--workers", "2", "--port", "0", "--data", str(tmp_path / "data")]
    log = tmp_path / "stderr"
    with log.open("wb") as stderr:
        process = subprocess.Popen([sys.executable, "-m", "durable_sessions", *command], stderr=stderr)
    try:
        wait_until(lambda: '"listening"' in log.read_text())
        said = [json.loads(line) for line in log.read_text().splitlines()]
        urls = {line["url"] for line in said if line["event"].endswith("listening")}
        assert len(urls) == 1
        assert httpx2.get(urls.pop() + "/readyz").status_code == 200
    finally:
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
