"""``python -m bench.pacing URL RATE PREFIX COUNT SUFFIX``: appends at a steady pace, spread over many paths.

One process of its own, so that who measures meanwhile is not kept waiting. Prints ``ready`` when it writes,
ends when its input does, and prints what came of it as JSON.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import uvloop

from bench import feeding
from bench.figures import Figures, percentile
from bench.load import EVENT

LANES = 40
STOP_SECONDS_MAX = 30.0
_STRIDE = 7919
"""A prime: the paths are visited in an order that is not theirs, all of them equally often."""


@contextlib.contextmanager
def paced(url: str, rate: int, prefix: str, count: int, suffix: str) -> Iterator[Callable[[], Figures]]:
    """Append so many events a second while the block runs; what is given ends it and says how it went."""
    command = [sys.executable, "-m", "bench.pacing", url, str(rate), prefix, str(count), suffix]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout is not None
        ready = writer.stdout.readline()
        assert ready == "ready\n", f"the writer did not get ready: {ready!r}"
        yield lambda: json.loads(writer.communicate(timeout=STOP_SECONDS_MAX)[0])
    finally:
        writer.kill()
        writer.wait()


async def _write(url: str, rate: int, prefix: str, count: int, suffix: str) -> None:
    parts = urlsplit(url)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    took: list[float] = []
    streams = [await asyncio.open_connection(parts.hostname, parts.port) for _ in range(LANES)]
    print("ready", flush=True)
    begin = time.perf_counter()

    async def write(lane: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = lane
        while not ended.is_set():
            await asyncio.sleep(begin + number / rate - time.perf_counter())
            path = f"{prefix}{number * _STRIDE % count}{suffix}"
            sent = time.perf_counter()
            writer.write(feeding.post(path, EVENT.encode()))
            answer = await reader.readuntil(b"\r\n\r\n")
            took.append((time.perf_counter() - sent) * 1000)
            assert b" 204 " in answer[:20], answer
            number += LANES

    await asyncio.gather(*(write(lane, *stream) for lane, stream in enumerate(streams)))
    spent = time.perf_counter() - begin
    ordered = sorted(took)
    figures = {
        "appends_per_second": len(took) / spent,
        "append_p50_ms": percentile(ordered, 0.5),
        "append_p99_ms": percentile(ordered, 0.99),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    uvloop.run(_write(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5]))
