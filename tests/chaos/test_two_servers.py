"""Two servers on one bucket: the last to start has it, the other steps down, and nothing is mixed or lost."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from tests.support.process import ServerProcess

JSON = {"Content-Type": "application/json"}
PATIENCE_SECONDS = 120.0
LINGER = {"step_down_seconds": 15.0}


def server(data: Path, bucket: Path, flush_seconds: int = 1) -> ServerProcess:
    """Return a server that does not mind others on its machine, as if it were on another one."""
    options = ("--bucket", str(bucket), "--flush-seconds", str(flush_seconds), "--take-bucket")
    return ServerProcess(data, *options, limits=LINGER)


def create(one: ServerProcess, stream: str) -> None:
    answer = httpx2.put(f"{one.url}/v1/stream/{stream}", headers=JSON)
    assert answer.status_code == 201, answer.text


def append(one: ServerProcess, stream: str, value: str) -> httpx2.Response:
    return httpx2.post(f"{one.url}/v1/stream/{stream}", headers=JSON, json=value)


def acknowledged(one: ServerProcess, stream: str, values: list[str]) -> list[str]:
    for value in values:
        answer = append(one, stream, value)
        assert answer.status_code == 204, answer.text
    return values


def read(one: ServerProcess, stream: str) -> list[str]:
    answer = httpx2.get(f"{one.url}/v1/stream/{stream}?offset=-1")
    assert answer.status_code == 200, answer.text
    assert "stream-up-to-date" in answer.headers
    return list(answer.json())


def flush(one: ServerProcess) -> None:
    answer = httpx2.post(f"{one.url}/v1/admin/flush")
    assert answer.status_code == 200, answer.text


def fenced(one: ServerProcess, stream: str, name: str, *, idle: bool = False) -> list[str]:
    """Work with a server until it says that it has lost its bucket; return what it acknowledged meanwhile."""
    taken: list[str] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if not idle:
            answer = append(one, stream, f"{name}-{len(taken)}")
            if answer.status_code == 204:
                taken.append(f"{name}-{len(taken)}")
                continue
        answer = httpx2.get(f"{one.url}/v1/stream/{stream}?offset=-1")
        if answer.status_code == 503:
            assert answer.json()["error"]["code"] == "partition_fenced", answer.text
            return taken
        time.sleep(0.05)
    raise TimeoutError


def check_stepped_down(one: ServerProcess, stream: str, how: str) -> None:
    """Everything that rests on data is refused, /readyz says why, and the process ends by itself with 1."""
    for path in (f"/v1/stream/{stream}", "/v1/sessions", "/v1/keys", "/v1/stream/nobody-has-this"):
        answer = httpx2.get(one.url + path)
        assert answer.status_code == 503, answer.text
    assert append(one, stream, "late").json()["error"]["code"] == "partition_fenced"
    ready = httpx2.get(one.url + "/readyz")
    assert ready.status_code == 503
    for word in (how, str(one.data / "log"), "dump log --from"):
        assert word in ready.json()["reason"]
    assert httpx2.get(one.url + "/livez").status_code == 200
    assert one.process is not None
    assert one.process.wait(PATIENCE_SECONDS) == 1
    assert how in one.log.read_text()


def check_refused(one: ServerProcess, what: str) -> None:
    """A restart is refused and names where the rest is."""
    one.spawn()
    assert one.process is not None
    assert one.process.wait(PATIENCE_SECONDS) == 1
    said = one.log.read_text().splitlines()[-1]
    assert what in said
    assert str(one.data / "log") in said
    assert "dump log --from" in said


def on_disk(one: ServerProcess) -> str:
    command = [sys.executable, "-m", "durable_sessions", "dump", "log", "--data", str(one.data), "--json"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.parametrize("idle", [False, True], ids=["writing", "idle"])
def test_a_new_directory_on_a_bucket_takes_it_from_the_server_that_had_it(tmp_path: Path, idle: bool) -> None:
    bucket = tmp_path / "bucket"
    with server(tmp_path / "a", bucket) as a:
        create(a, "of-a")
        flushed = acknowledged(a, "of-a", ["flushed-0", "flushed-1"])
        flush(a)
        with server(tmp_path / "b", bucket) as b:
            create(b, "of-b")
            mine = acknowledged(b, "of-b", [f"b-{number}" for number in range(20)])
            taken = fenced(a, "of-a", "a", idle=idle)
            check_stepped_down(a, "of-a", "with another data directory")
            mine += acknowledged(b, "of-b", ["b-later"])
            check_refused(a, "a server with another data directory")
            b.kill()
            b.start()
            assert read(b, "of-b") == mine
            assert read(b, "of-a")[: len(flushed)] == flushed
            assert set(read(b, "of-a")) <= {*flushed, *taken}
            rest = on_disk(a)
            assert all(value in rest or value in read(b, "of-a") for value in taken)
            assert b.terminate() == 0
        found = a.run("verify", "--bucket", str(bucket), "--json")
        assert found.returncode == 1
        assert "not the log of this bucket" in found.stdout
        assert b.run("verify", "--bucket", str(bucket)).returncode == 0
        planned = json.loads(a.run("repair", "--bucket", str(bucket), "--json").stdout)
        assert any("is set aside" in action["what"] for action in planned["actions"])


def test_of_two_copies_of_a_directory_one_steps_down_and_is_refused(tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    with server(tmp_path / "a", bucket, flush_seconds=3600) as a:
        create(a, "shared")
        before = acknowledged(a, "shared", ["before"])
        assert a.terminate() == 0
        shutil.copytree(tmp_path / "a", tmp_path / "b")
        a.start()
        create(a, "only-a")
        of_a = acknowledged(a, "only-a", [f"a-{number}" for number in range(20)])
        flush(a)
        refused = server(tmp_path / "b", bucket)
        check_refused(refused, "with a copy of this data directory")
        assert a.terminate() == 0
        shutil.rmtree(tmp_path / "b")
        shutil.copytree(tmp_path / "a", tmp_path / "b")
        a.start()
        with server(tmp_path / "b", bucket) as b:
            of_b = acknowledged(b, "shared", [f"b-{number}" for number in range(20)])
            taken = acknowledged(a, "shared", [f"a-only-{number}" for number in range(10)])
            lost = httpx2.post(f"{a.url}/v1/admin/flush")
            assert lost.status_code == 503
            assert "Another server has become the writer of the bucket" in lost.text
            check_stepped_down(a, "shared", "with a copy of this data directory")
            flush(b)
            check_refused(a, "with a copy of this data directory")
            b.kill()
            b.start()
            assert read(b, "shared") == before + of_b
            assert read(b, "only-a") == of_a
            rest = on_disk(a)
            assert all(value in rest for value in taken)
            found = a.run("verify", "--bucket", str(bucket), "--json")
            assert found.returncode == 1
            assert "a copy of this directory" in found.stdout
            planned = a.run("repair", "--bucket", str(bucket), "--json")
            assert f"{len(taken)} records in 1 streams" in planned.stdout
            assert b.terminate() == 0
        assert b.run("verify", "--bucket", str(bucket)).returncode == 0


def test_a_restored_directory_is_refused_on_an_empty_bucket(tmp_path: Path) -> None:
    with server(tmp_path / "a", tmp_path / "bucket") as a:
        create(a, "s")
        acknowledged(a, "s", ["x"])
        assert a.terminate() == 0
    other = ServerProcess(tmp_path / "a", "--bucket", str(tmp_path / "empty"))
    other.spawn()
    assert other.process is not None
    assert other.process.wait(PATIENCE_SECONDS) == 1
    assert "belongs to a bucket, and this one is empty" in other.log.read_text()
    assert not list((tmp_path / "empty").glob("*.json")), "nothing was written to it"


def test_a_second_server_on_a_machine_is_refused_before_it_takes_the_bucket(tmp_path: Path) -> None:
    """One mistyped command does not end the server that has the bucket; a dead one does not keep it."""
    bucket = tmp_path / "bucket"
    (tmp_path / "link").symlink_to(bucket)
    with ServerProcess(tmp_path / "a", "--bucket", str(bucket)) as a:
        create(a, "of-a")
        kept = acknowledged(a, "of-a", ["before"])
        manifests = sorted(bucket.rglob("*manifest*"))
        for place in (bucket, tmp_path / "link"):
            second = ServerProcess(tmp_path / "b", "--bucket", str(place))
            second.spawn()
            assert second.process is not None
            assert second.process.wait(PATIENCE_SECONDS) == 1
            said = second.log.read_text()
            assert f"The bucket {place} is in use by another server on this machine" in said
            assert "--take-bucket" in said
            assert not (tmp_path / "b" / "log").exists()
        assert sorted(bucket.rglob("*manifest*")) == manifests
        kept += acknowledged(a, "of-a", ["after"])
        flush(a)
        a.kill()
        with ServerProcess(tmp_path / "c", "--bucket", str(bucket)) as c:
            assert read(c, "of-a") == kept
