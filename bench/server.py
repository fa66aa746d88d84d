"""Our server: as its users run it, on other carriers, and the carriers alone."""

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench import calls, feeding
from bench.place import Place
from bench.process import Process, free_port, listens

BEFORE = "BENCH_BEFORE_PYTHON"
"""Names the Python of an environment with the version before, which this one is set beside."""
CARRIERS = ("built-in", "uvicorn", "granian")


class Server(Process):
    """``durable-sessions serve`` on a data directory, with the default settings and what is given."""

    def __init__(
        self,
        place: Place,
        *options: str,
        name: str = "ours",
        environment: dict[str, str] | None = None,
        python: str = sys.executable,
    ) -> None:
        self.data: Path = place.fresh(name)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [python, "-m", "durable_sessions", "serve", "--log-level", "warning"]
        where = ["--port", str(port), "--data", str(self.data)]
        super().__init__([*command, *where, *options], place.log(name), environment=environment)

    def start(self) -> None:
        """Start, and return when it takes work."""
        self.start_timed()

    def start_timed(self) -> float:
        """Start, and return after how many seconds it takes work."""
        begin = time.perf_counter()
        super().start()
        self.wait_until(lambda: calls.answers(self.url + "/readyz"), pause_seconds=0.005)
        return time.perf_counter() - begin

    def restart(self) -> float:
        """End it with ``kill -9`` and return after how many seconds it takes work again."""
        self.kill()
        return self.start_timed()

    def flush(self) -> None:
        """Move all that is durable to the bucket."""
        status, _, body = calls.request("POST", self.url + "/v1/admin/flush")
        assert status == 200, body

    def metrics(self) -> dict[str, float]:
        """Return the server's own counters."""
        return calls.metrics(self.url)

    def log_bytes(self) -> int:
        """Return the size of the log directory's segments."""
        return sum(file.stat().st_size for file in (self.data / "log").glob("*.log"))


@contextlib.contextmanager
def ours(place: Place, *options: str, streams: int = 0, python: str = sys.executable) -> Iterator[Server]:
    """Run our server with the streams ``bench-N``; ``python`` may be that of another version."""
    with Server(place, *options, python=python) as server:
        feeding.create_streams(server.url, streams)
        yield server


@contextlib.contextmanager
def carrier(place: Place, name: str, *, application: str, streams: int = 0) -> Iterator[tuple[Process, str]]:
    """Run a carrier with our application (``streams``), or with one that answers an empty 204 (``empty``)."""
    port = free_port()
    commands = {
        "built-in": ["bench.carriers", str(port)],
        "uvicorn": ["uvicorn", "bench.carriers:app", "--port", str(port), *_UVICORN],
        "granian": ["granian", "bench.carriers:app", "--port", str(port), *_GRANIAN],
    }
    environment = {"BENCH_DATA": str(place.fresh(name)), "BENCH_APPLICATION": application}
    command = [sys.executable, "-m", *commands[name]]
    with Process(command, place.log(name), environment=environment) as process:
        process.wait_until(lambda: listens(port))
        url = f"http://127.0.0.1:{port}"
        feeding.create_streams(url, streams)
        yield process, url


_UVICORN = ["--loop", "uvloop", "--http", "httptools", "--log-level", "error", "--no-access-log"]
_GRANIAN = ["--interface", "asgi", "--loop", "uvloop", "--workers", "1", "--no-access-log"]
