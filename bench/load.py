"""Load from a native client of our own, so that the client is hardly part of what is measured.

``load.c`` is compiled when it is first needed. It is one thread that does nothing but send, wait and count:
server and client share the cores, and what the client takes the server cannot have.
"""

import atexit
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from bench.figures import Figures

EVENT = '{"type":"agent.message","content":[{"type":"text","text":"' + "x" * 190 + '"}]}'
"""One event as it is sent to everybody: about 260 bytes with what HTTP or SQL adds."""

PREFIX = "/v1/stream/bench-"

_STEP = 7919
"""A prime: the streams are visited in an order that is not theirs, all of them equally often."""
REFUSED = "refused."
"""What the figures begin with that count refusals by their error code."""


def missing() -> str:
    """Say what is missing for compiling the client, if anything is."""
    return (
        ""
        if shutil.which("cc")
        else "cc is missing; install a C compiler (Debian: apt-get install gcc libc6-dev)"
    )


def appends(
    url: str,
    *,
    connections: int,
    seconds: float,
    streams: int,
    events: int = 1,
    prefix: str = PREFIX,
    suffix: str = "",
    own_stream: bool = False,
    event: str = EVENT,
    headers: Mapping[str, str] | None = None,
) -> Figures:
    """Append JSON events to the streams ``bench-N``, or to what else is named so, from many connections.

    With ``own_stream`` each connection stays with one stream.
    """
    body = event if events == 1 else "[" + ",".join([event] * events) + "]"
    more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    after = (
        f"{suffix} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    )
    request = f"POST {prefix}\0{after}"
    step = 0 if own_stream else _STEP
    figures = _run(url, request, connections=connections, seconds=seconds, streams=streams, step=step)
    return {**figures, "events_per_second": figures["requests_per_second"] * events}


def reads(url: str, target: str, *, connections: int, seconds: float) -> Figures:
    """Read the same target over and over."""
    request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n\0"
    return _run(url, request, connections=connections, seconds=seconds, streams=0, step=0)


def _run(url: str, request: str, *, connections: int, seconds: float, streams: int, step: int) -> Figures:
    numbers = (urlsplit(url).port, connections, seconds, streams, step)
    text = subprocess.run(
        [_program(), *map(str, numbers)],
        input=request.encode(),
        capture_output=True,
        check=True,
        timeout=seconds + 60,
    ).stdout.decode()
    found = {name: float(value) for name, _, value in (line.partition(" ") for line in text.splitlines())}
    refused = {name: count for name, count in found.items() if name.startswith(REFUSED)}
    return {
        "requests_per_second": found["answers"] / found["seconds"],
        "p50_ms": found["p50_ms"],
        "p95_ms": found["p95_ms"],
        "p99_ms": found["p99_ms"],
        "client_us": found["processor_seconds"] / found["answers"] * 1e6,
        "answers": found["answers"],
        "failures": found["broken"] + sum(refused.values()),
        **refused,
    }


@functools.cache
def _program() -> str:
    """Compile the client."""
    if problem := missing():
        raise RuntimeError(problem)
    directory = tempfile.mkdtemp(prefix="bench-load-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    program = Path(directory) / "load"
    source = Path(__file__).with_name("load.c")
    subprocess.run(["cc", "-O2", "-o", str(program), str(source)], check=True, timeout=120)
    return str(program)
