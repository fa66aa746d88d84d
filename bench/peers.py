"""The servers that are compared: ours on three carriers, and the Node reference."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2

HERE = Path(__file__).parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(command: list[str], port: int, environment: dict[str, str] | None = None) -> Iterator[str]:
    """Run a server until the block ends and give its URL; it is ended by its pid."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(500):
            assert process.poll() is None, f"{command} ended with {process.returncode}"
            with contextlib.suppress(httpx2.TransportError):
                httpx2.get(url + "/v1/stream/probe")
                break
            time.sleep(0.02)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def ours(carrier: str = "built-in", *, application: str = "streams") -> Iterator[str]:
    """Our application, durable, on the built-in server, uvicorn or granian; or an empty 204."""
    port = free_port()
    with tempfile.TemporaryDirectory() as data:
        environment = {"BENCH_DATA": data, "BENCH_APPLICATION": application}
        if carrier == "built-in":
            command = [sys.executable, "-m", "bench.carriers", str(port)]
        elif carrier == "uvicorn":
            options = ["--loop", "uvloop", "--http", "httptools", "--log-level", "error", "--no-access-log"]
            command = [sys.executable, "-m", "uvicorn", "bench.carriers:app", "--port", str(port), *options]
        else:
            options = ["--interface", "asgi", "--loop", "uvloop", "--workers", "1", "--no-access-log"]
            command = [sys.executable, "-m", "granian", "bench.carriers:app", "--port", str(port), *options]
        with running(command, port, environment) as url:
            yield url


@contextlib.contextmanager
def node_reference(*, durable: bool) -> Iterator[str]:
    """The reference server of the protocol, file-backed or in memory."""
    folder = _node_folder()
    port = free_port()
    with tempfile.TemporaryDirectory() as data:
        command = ["node", str(folder / "reference.mjs"), str(port), *([data] if durable else [])]
        with running(command, port) as url:
            yield url


def has_node() -> bool:
    return shutil.which("node") is not None and shutil.which("npm") is not None


def _node_folder() -> Path:
    cache = (
        Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        / "durable-sessions"
        / "bench-reference-0.3.7"
    )
    if not (cache / ".ready").exists():
        cache.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        subprocess.run([*install, "@durable-streams/server@0.3.7"], cwd=cache, check=True)
        (cache / ".ready").touch()
    shutil.copy(HERE / "reference.mjs", cache)
    return cache


def create_streams(url: str, count: int) -> None:
    with httpx2.Client(base_url=url) as client:
        for number in range(count):
            answer = client.put(f"/v1/stream/bench-{number}", headers={"Content-Type": "application/json"})
            assert answer.status_code == 201, answer.text
