"""Load from wrk, a native client, so that the client is never what is measured."""

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

EVENT = '{"type":"agent.message","content":[{"type":"text","text":"' + "x" * 190 + '"}]}'

_SCRIPT = """
local n, id = 0, 0
function setup(thread) id = id + 1; thread:set("id", id) end
wrk.method = "POST"
wrk.body = [==[%(body)s]==]
wrk.headers["Content-Type"] = "application/json"
request = function()
  n = n + 1
  return wrk.format(nil, "%(prefix)s" .. ((n * 7 + id * 13) %% %(streams)d))
end
"""


@dataclass(frozen=True)
class Measured:
    """What one run of the load gave."""

    per_second: float
    p50_ms: float
    p99_ms: float
    failures: int


def require_wrk() -> None:
    if shutil.which("wrk") is None:
        sys.exit("bench: wrk is missing; install it (Debian: apt-get install wrk)")


def appends(url: str, *, connections: int, seconds: float, streams: int, events: int = 1) -> Measured:
    """Append JSON events to streams ``/v1/stream/bench-N`` from several connections at once."""
    body = EVENT if events == 1 else "[" + ",".join([EVENT] * events) + "]"
    script = _SCRIPT % {"body": body, "prefix": "/v1/stream/bench-", "streams": streams}
    return run(url, script, connections=connections, seconds=seconds)


def run(url: str, script: str, *, connections: int, seconds: float) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "load.lua"
        file.write_text(script)
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--latency", "-s", str(file), url]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    failures = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    assert rate is not None, text
    return Measured(
        float(rate[1]),
        _milliseconds(text, "50%"),
        _milliseconds(text, "99%"),
        int(failures[1]) if failures else 0,
    )


def _milliseconds(text: str, row: str) -> float:
    found = re.search(rf"{row}\s+([\d.]+)(us|ms|s)\b", text)
    assert found is not None, text
    return float(found[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[found[2]]
