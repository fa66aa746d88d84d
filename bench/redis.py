"""Redis Streams as a peer: every write synced before it is answered, entries added by redis-benchmark."""

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator

from bench.figures import Figures
from bench.load import EVENT
from bench.place import Place
from bench.process import Process, free_port, listens

SETTINGS = {"appendonly": "yes", "appendfsync": "always", "save": ""}
CALIBRATION_ROUNDS = 20
"""How many requests each client sends to find out how fast it goes."""
SETUP_SECONDS_MAX = 60.0
_FIGURES = 7


class Redis:
    """A running server."""

    def __init__(self, process: Process, port: int) -> None:
        self.process = process
        self._port = port

    def adds(self, *, clients: int, seconds: float, streams: int, pipeline: int = 1) -> Figures:
        """Add entries for about so long: redis-benchmark counts requests, so that its pace is found first."""
        pace = self._run(clients, CALIBRATION_ROUNDS * clients * pipeline, streams, pipeline)
        requests = max(int(pace["events_per_second"] * seconds), clients * pipeline)
        figures = self._run(clients, requests, streams, pipeline)
        # All of them, since the processor time of a measurement is divided by its answers.
        return {**figures, "answers": pace["answers"] + figures["answers"]}

    def _run(self, clients: int, requests: int, streams: int, pipeline: int) -> Figures:
        options = ["-h", "127.0.0.1", "-p", str(self._port), "-c", str(clients), "-n", str(requests)]
        entry = ["XADD", "bench:__rand_int__", "*", "body", EVENT]
        chosen = ["-r", str(streams), "-P", str(pipeline), "--csv", *entry]
        text = subprocess.run(
            ["redis-benchmark", *options, *chosen],
            capture_output=True,
            text=True,
            check=True,
            timeout=SETUP_SECONDS_MAX + requests / 100,
        ).stdout
        # The first cell repeats the command with the event and is not quoted well; only the numbers count.
        head, values = (re.findall(r'"([\w.]+)"', line) for line in text.splitlines()[-2:])
        found = dict(zip(head[-_FIGURES:], values[-_FIGURES:], strict=True))
        rate = float(found["rps"])
        return {
            "requests_per_second": rate / pipeline,
            "p50_ms": float(found["p50_latency_ms"]),
            "p99_ms": float(found["p99_latency_ms"]),
            "failures": 0,
            "answers": requests / pipeline,
            "events_per_second": rate,
        }


def missing() -> str:
    """Return what must be installed before it can be measured, or nothing."""
    if shutil.which("redis-server") is None or shutil.which("redis-benchmark") is None:
        return "install Redis (Debian: apt-get install redis-server)"
    return ""


def version() -> str:
    """Return the version of the server."""
    text = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
    return text.partition("v=")[2].split()[0]


@contextlib.contextmanager
def redis(place: Place) -> Iterator[Redis]:
    """Run a new server on loopback."""
    port, data = free_port(), place.fresh("redis")
    options = [part for name, value in SETTINGS.items() for part in (f"--{name}", value)]
    where = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(data)]
    with Process(["redis-server", *where, *options], place.log("redis")) as process:
        process.wait_until(lambda: listens(port))
        yield Redis(process, port)
