"""A server that is refused leaves nothing behind, and takes nothing away."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from durable_sessions.cli.created_files import remove_data
from tests.support.process import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS

NO_S3 = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "x"}


def serve(*options: str) -> subprocess.CompletedProcess[str]:
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith("DURABLE_SESSIONS_")
    }
    command = [sys.executable, "-m", "durable_sessions", "serve", *options]
    return subprocess.run(
        command, env=variables | NO_S3, capture_output=True, text=True, check=False, timeout=500
    )


def test_a_taken_port_is_told_before_anything_is_made(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = serve("--port", str(port), "--data", str(tmp_path / "a" / "b"))
    assert done.returncode == 1
    assert f"port {port}" in done.stderr
    other = port + 1 if port < 65_535 else port - 1
    assert f"choose another port with --port, or with DURABLE_SESSIONS_PORT={other} before" in done.stderr
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--host", "0.0.0.0"), "Without keys the server listens on loopback only"),
        (("--bucket", "s3://nowhere/x"), "bucket"),
    ],
)
def test_a_refused_start_leaves_nothing(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    (tmp_path / "a").mkdir()
    done = serve("--port", "0", "--data", str(tmp_path / "a" / "b" / "c"), *options)
    assert done.returncode == 1
    assert said in done.stderr
    assert [*(tmp_path / "a").iterdir()] == []


def test_data_that_was_there_stays(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data"):
        pass
    kept = {path for path in (tmp_path / "data").rglob("*") if path.suffix in (".log", ".json", ".sqlite")}
    assert kept
    assert serve("--port", "0", "--data", str(tmp_path / "data"), "--host", "0.0.0.0").returncode == 1
    assert all(path.exists() for path in kept if path.name != "first-key.json")


def test_a_bucket_that_does_not_fit_is_not_left_behind(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        assert httpx2.put(f"{server.url}/v1/sessions/s", timeout=PATIENCE_SECONDS).status_code == 201
    (tmp_path / "a").mkdir()
    kept = {path for path in (tmp_path / "data" / "bucket").rglob("*") if path.is_file()}
    bucket = tmp_path / "a" / "deep" / "bucket"
    done = serve("--port", "0", "--data", str(tmp_path / "data"), "--bucket", str(bucket))
    assert done.returncode == 1
    assert "--bucket-is-lost" in done.stderr
    assert [*(tmp_path / "a").iterdir()] == []
    assert kept
    assert all(path.exists() for path in kept)


def test_data_of_another_bucket_get_none_of_their_own(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--bucket", str(tmp_path / "bucket")) as server:
        assert httpx2.put(f"{server.url}/v1/sessions/s", timeout=PATIENCE_SECONDS).status_code == 201
    done = serve("--port", "0", "--data", str(tmp_path / "data"))
    assert done.returncode == 1
    assert "belongs to a bucket" in done.stderr
    assert not (tmp_path / "data" / "bucket").exists()


def test_nothing_is_made_for_an_address_that_needs_keys(tmp_path: Path) -> None:
    places = ("--data", str(tmp_path / "data"), "--bucket", str(tmp_path / "deep" / "bucket"))
    done = serve("--port", "0", "--host", "0.0.0.0", *places)
    assert done.returncode == 1
    assert "Without keys the server listens on loopback only" in done.stderr
    assert [*tmp_path.iterdir()] == []


def test_a_bucket_that_was_there_stays(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data"):
        pass
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    assert serve("--port", "0", "--data", str(tmp_path / "data"), "--bucket", str(bucket)).returncode == 1
    assert bucket.is_dir()


def test_the_directory_of_another_server_that_came_first_stays(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    with ServerProcess(tmp_path / "made" / "data") as other:
        remove_data(other.data, tmp_path / "made")  # what a start does that was refused meanwhile
        assert (other.data / "log").is_dir()
        assert httpx2.post(f"{other.url}/v1/sessions/s/events", json={"type": "note"}).status_code == 204
    assert (tmp_path / "made" / "data" / "log").is_dir()


def test_neighbours_of_a_directory_that_is_removed_stay(tmp_path: Path) -> None:
    (tmp_path / "made" / "data").mkdir(parents=True)
    (tmp_path / "made" / "neighbour").write_text("mine")
    remove_data(tmp_path / "made" / "data", tmp_path / "made")
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["neighbour"]


def test_a_file_is_no_data_directory(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    done = serve("--port", "0", "--data", str(tmp_path / "notes"))
    assert done.returncode == 1
    assert f"data is {tmp_path / 'notes'}, which is a file: name a directory instead." in done.stderr
    assert (tmp_path / "notes").read_text() == "mine"
