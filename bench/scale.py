"""``python -m bench.scale``: a million events in 2,000 streams with little memory, then 100,000 idle streams.

Prints resident memory, the size of the log, and how long a restart after ``kill -9`` takes until it serves.
"""

import argparse
import asyncio
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx2

from bench.peers import free_port

JSON = {"Content-Type": "application/json"}
MIB = 1024 * 1024
WORDS = [
    f"{a}{b}{c}" for a in "bcdfg" for b in "aeiou" for c in ("ton", "ler", "mis", "nad", "rex", "sol", "vic")
]


class Server:
    """Our server as a process, with its memory watched from outside."""

    def __init__(self, data: Path, *options: str) -> None:
        self.data = data
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._options = options
        self.process: subprocess.Popen[bytes]

    def start(self) -> float:
        """Start and return the seconds until it is ready."""
        begin = time.perf_counter()
        command = [
            sys.executable,
            "-m",
            "durable_sessions",
            "serve",
            "--port",
            str(self.port),
            "--data",
            str(self.data),
        ]
        self.process = subprocess.Popen([*command, "--log-level", "error", *self._options])
        while True:
            assert self.process.poll() is None
            try:
                if httpx2.get(self.url + "/readyz").status_code == 200:
                    return time.perf_counter() - begin
            except httpx2.TransportError:
                time.sleep(0.01)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def memory(self, field: str) -> float:
        """Return VmRSS (now) or VmHWM (the most so far) in MiB."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) / 1024
        raise AssertionError(field)

    def log_bytes(self) -> int:
        return sum(file.stat().st_size for file in (self.data / "log").glob("*.log"))


def events(chance: random.Random, first: int, count: int) -> bytes:
    return json.dumps(
        [
            {"type": "agent.message", "id": f"evt_{first + n}", "text": " ".join(chance.choices(WORDS, k=32))}
            for n in range(count)
        ]
    ).encode()


async def in_parallel(url: str, requests: list[tuple[str, str, bytes]], lanes: int = 16) -> float:
    """Send requests from several connections at once and return the seconds it took."""
    queue = iter(requests)

    async def lane() -> None:
        async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
            for method, path, body in queue:
                while True:
                    answer = await client.request(method, path, headers=JSON, content=body)
                    if answer.status_code != 503:
                        break
                    await asyncio.sleep(0.05)
                assert answer.status_code in (201, 204), answer.text

    begin = time.perf_counter()
    await asyncio.gather(*[lane() for _ in range(lanes)])
    return time.perf_counter() - begin


def many_events(total: int, streams: int, memory: str) -> None:
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "data", "--memory-bytes", memory)
        server.start()
        empty = server.memory("VmRSS")
        creates = [("PUT", f"/v1/stream/s{n}", b"") for n in range(streams)]
        asyncio.run(in_parallel(server.url, creates))
        bodies = [events(chance, n * 100, 100) for n in range(50)]
        appends = [("POST", f"/v1/stream/s{n % streams}", bodies[n % 50]) for n in range(total // 100)]
        took = asyncio.run(in_parallel(server.url, appends))
        payload = sum(len(body) for _, _, body in appends)
        log_bytes = server.log_bytes()
        print(f"{total:,} events in {streams:,} streams, {payload / MIB:,.0f} MiB, --memory-bytes {memory}:")
        most = server.memory("VmHWM")
        print(f"  written in {took:.1f} s; resident: empty {empty:.0f} MiB, most {most:.0f} MiB")
        print(f"  log directory at the end: {log_bytes / MIB:.0f} MiB")
        server.kill()
        print(f"  restart after kill -9, until it serves: {server.start():.2f} s")
        answer = httpx2.get(server.url + "/v1/stream/s7")
        assert len(answer.json()) == total // streams
        server.kill()


def many_streams(total: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "data")
        server.start()
        empty = server.memory("VmRSS")
        creates = [("PUT", f"/v1/stream/idle/{n}", b'{"type":"session.created"}') for n in range(total)]
        took = asyncio.run(in_parallel(server.url, creates))
        httpx2.post(server.url + "/v1/admin/flush", timeout=60)
        time.sleep(100)
        idle = server.memory("VmRSS")
        print(f"{total:,} idle streams, created in {took:.0f} s:")
        print(f"  {idle - empty:.0f} MiB above the empty server's {empty:.0f} MiB")
        server.kill()
        restarted = server.start()
        print(f"  after a restart ({restarted:.2f} s): {server.memory('VmRSS') - empty:.0f} MiB above")
        server.kill()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--streams", type=int, default=2_000)
    parser.add_argument("--memory", default="32MiB")
    parser.add_argument("--idle", type=int, default=100_000)
    options = parser.parse_args()
    print(f"machine: {os.cpu_count()} cores, {platform.platform()}, Python {platform.python_version()}")
    many_events(options.events, options.streams, options.memory)
    many_streams(options.idle)


if __name__ == "__main__":
    main()
