"""Load from wrk, a native client, so that the client is never what is measured."""

import random
import re
import subprocess
import tempfile

from bench.figures import Figures

EVENT = '{"type":"agent.message","content":[{"type":"text","text":"' + "x" * 190 + '"}]}'
"""One event as it is sent to everybody: about 260 bytes with what HTTP or SQL adds."""

PREFIX = "/v1/stream/bench-"

_APPEND = """
local n = %(first)d
wrk.method = "POST"
wrk.body = [==[%(body)s]==]
wrk.headers["Content-Type"] = "application/json"
request = function()
  n = n + %(stride)d
  return wrk.format(nil, "%(prefix)s" .. (n %% %(streams)d) .. "%(suffix)s")
end
"""
_STRIDE = 7919
"""A prime: the streams are visited in an order that is not theirs, all of them equally often."""
_MILLISECONDS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


def appends(
    url: str,
    *,
    connections: int,
    seconds: float,
    streams: int,
    events: int = 1,
    prefix: str = PREFIX,
    suffix: str = "",
) -> Figures:
    """Append JSON events to the streams ``bench-N``, or to what else is named so, from many connections."""
    body = EVENT if events == 1 else "[" + ",".join([EVENT] * events) + "]"
    values: dict[str, object] = {"body": body, "prefix": prefix, "suffix": suffix, "streams": streams}
    values["stride"] = _STRIDE
    values["first"] = random.randrange(streams)
    figures = _run(url, _APPEND % values, connections=connections, seconds=seconds)
    return {**figures, "events_per_second": figures["requests_per_second"] * events}


def reads(url: str, target: str, *, connections: int, seconds: float) -> Figures:
    """Read the same target over and over."""
    return _run(url + target, "", connections=connections, seconds=seconds)


def _run(url: str, script: str, *, connections: int, seconds: float) -> Figures:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        given = ["-s", file.name] if script else []
        command = [
            "wrk",
            "-t1",
            f"-c{connections}",
            f"-d{max(1, round(seconds))}s",
            "--timeout",
            "10s",
            "--latency",
        ]
        text = subprocess.run(
            [*command, *given, url], capture_output=True, text=True, check=True, timeout=seconds + 60
        ).stdout
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    broken = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    assert rate is not None, text
    return {
        "requests_per_second": float(rate[1]),
        "p50_ms": _milliseconds(text, "50%"),
        "p99_ms": _milliseconds(text, "99%"),
        "failures": (int(refused[1]) if refused else 0) + (sum(map(int, broken.groups())) if broken else 0),
    }


def _milliseconds(text: str, share: str) -> float:
    found = re.search(rf"{share}\s+([\d.]+)(us|ms|s)\b", text)
    assert found is not None, text
    return float(found[1]) * _MILLISECONDS[found[2]]
