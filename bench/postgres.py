"""PostgreSQL as a peer: a cluster of its own, synchronous commits, rows inserted directly by pgbench."""

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Figures, percentile
from bench.load import EVENT
from bench.place import Place
from bench.process import Process, free_port

SETTINGS = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
STREAMS = 100
CONNECT_SECONDS = 3
"""The shortest run: pgbench counts the time in which its clients connect."""
SETUP_SECONDS_MAX = 120.0
_TABLE = "create table events (stream int not null, position bigserial primary key, body text not null)"


class Postgres:
    """A running cluster."""

    def __init__(self, process: Process, port: int) -> None:
        self.process = process
        self.url = f"postgresql://bench@127.0.0.1:{port}/postgres"
        self._port = port

    def inserts(self, *, clients: int, seconds: float, rows: int = 1) -> Figures:
        """Insert rows with a prepared statement, each transaction durable before it is answered."""
        values = ",".join(["(:stream,:body)"] * rows)
        script = f"\\set stream random(0,{STREAMS - 1})\ninsert into events (stream,body) values {values};\n"
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "insert.sql"
            file.write_text(script)
            length = str(max(CONNECT_SECONDS, round(seconds)))
            options = ["-n", "-M", "prepared", "-j", "1", "-c", str(clients), "-T", length]
            named = ["-f", str(file), "-D", f"body={EVENT}", "-l", f"--log-prefix={folder}/took"]
            text = self._client("pgbench", *options, *named, seconds=seconds + SETUP_SECONDS_MAX)
            took = sorted(_milliseconds(Path(folder)))
        rate = re.search(r"tps = ([\d.]+) \(without initial connection time\)", text)
        assert rate is not None, text
        assert took, text
        return {
            "requests_per_second": float(rate[1]),
            "p50_ms": percentile(took, 0.5),
            "p99_ms": percentile(took, 0.99),
            "failures": 0,
            "answers": len(took),
            "events_per_second": float(rate[1]) * rows,
        }

    def prepare(self) -> None:
        """Make the table, and check that commits are as durable as is claimed."""
        self._client("psql", "-qc", _TABLE)
        for name, value in SETTINGS.items():
            found = self._client("psql", "-Atc", f"show {name}").strip()
            assert found == value, f"{name} is {found}"

    def ready(self) -> bool:
        """Say whether the server takes connections."""
        try:
            self._client("psql", "-Atc", "select 1")
        except subprocess.CalledProcessError:
            return False
        return True

    def _client(self, program: str, *options: str, seconds: float = SETUP_SECONDS_MAX) -> str:
        where = ["-h", "127.0.0.1", "-p", str(self._port), "-U", "bench"]
        database = ["-d", "postgres"] if program == "psql" else []
        command = [_binary(program), *where, *database, *options]
        if program == "pgbench":
            command.append("postgres")
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds).stdout


def missing() -> str:
    """Return what must be installed before it can be measured, or nothing."""
    try:
        for program in ("initdb", "postgres", "pgbench", "psql"):
            _binary(program)
    except FileNotFoundError:
        return "install PostgreSQL (Debian: apt-get install postgresql)"
    return ""


def version() -> str:
    """Return the version of the server."""
    command = [_binary("postgres"), "--version"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[2]


@contextlib.contextmanager
def postgres(place: Place) -> Iterator[Postgres]:
    """Run a new cluster on loopback, as another user if we are root, which it refuses to run as."""
    data, port, user = place.fresh("postgres"), free_port(), _user()
    if user is not None:
        shutil.chown(data, user, user)
    subprocess.run(
        [_binary("initdb"), "-D", str(data), "-U", "bench", "--auth=trust", "-E", "UTF8", "--locale=C"],
        check=True,
        capture_output=True,
        cwd="/",
        timeout=SETUP_SECONDS_MAX,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )
    given = {**SETTINGS, "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
    options = [part for name, value in given.items() for part in ("-c", f"{name}={value}")]
    command = [_binary("postgres"), "-D", str(data), "-p", str(port), *options]
    # SIGQUIT is its immediate shutdown: nothing is written any more, but shared memory is given back.
    with Process(command, place.log("postgres"), user=user, stop_signal=signal.SIGQUIT) as process:
        server = Postgres(process, port)
        process.wait_until(server.ready, pause_seconds=0.1)
        server.prepare()
        yield server


def _user() -> str | None:
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _binary(name: str) -> str:
    """Return the newest installed one; Debian keeps the server's programs out of the search path."""
    installed = Path("/usr/lib/postgresql").glob(f"*/bin/{name}")
    newest = max(installed, key=lambda path: float(path.parts[4]), default=None)
    found = str(newest) if newest else shutil.which(name)
    if found is None:
        raise FileNotFoundError(name)
    return found


def _milliseconds(folder: Path) -> Iterator[float]:
    """Yield what each transaction took, from the logs of pgbench: its third column, in microseconds."""
    for file in folder.glob("took.*"):
        for line in file.read_text().splitlines():
            yield int(line.split()[2]) / 1000
