"""Outlines: what a block costs when it is made, and when it is there.

``python -m bench.outline [blocks]`` fills a session with events like those of an agent, and outlines it.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from durable_sessions.clock import SystemClock
from durable_sessions.ids import RandomIds
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.sessions import drafts
from durable_sessions.sessions.batch import Batch
from durable_sessions.sessions.outline.block import BLOCK_EVENTS, folded
from durable_sessions.sessions.outline.outlines import Outlines
from durable_sessions.sessions.store import Sessions, session_key
from durable_sessions.sessions.views_file import ViewsFile
from durable_sessions.storage.door import Slice, StreamView
from durable_sessions.storage.partition import Partition
from durable_sessions.streams.append import Append
from durable_sessions.testing.memory_log import MemoryLog

BLOCKS = 16
AT_ONCE = 1_000
TEXT = "Let me run the tests again and look at the first failure. " * 4


def event(number: int) -> dict[str, object]:
    """Return the next event of a run: a request, what was said, a call and its result, in turn."""
    match number % 4:
        case 0:
            return {
                "type": "span.model_request_end",
                "model_usage": {"input_tokens": number, "output_tokens": 9},
            }
        case 1:
            return {"type": "agent.message", "content": [{"type": "text", "text": TEXT}]}
        case 2:
            call = {"command": f"pytest -q tests/test_{number}.py"}
            return {"type": "agent.tool_use", "id": f"call-{number}", "name": "bash", "input": call}
        case _:
            return {"type": "agent.tool_result", "tool_use_id": f"call-{number - 1}", "content": TEXT}


async def run(blocks: int) -> dict[str, float]:
    """Return microseconds an event to make blocks, and milliseconds to serve what is there."""
    clock, limits = SystemClock(), DEFAULT_LIMITS
    partition = await Partition.open(MemoryLog(), clock, limits)
    sessions = Sessions(partition, clock, RandomIds(), limits, ONLY_PARTITION)
    key = session_key("default", "long")
    for begin in range(0, blocks * BLOCK_EVENTS, AT_ONCE):
        stop = min(begin + AT_ONCE, blocks * BLOCK_EVENTS)
        body = msgspec.json.encode([event(number) for number in range(begin, stop)])
        batch = Batch(drafts.parse(body, limits), "bench", Append(body, "application/json"))
        await sessions.append_named(key, batch, len(body))
    durable = sessions.find(key)
    events_read = 0
    plain = partition.read

    async def counted(view: StreamView, start: int, bytes_max: int, stop: int | None = None) -> Slice:
        nonlocal events_read
        found = await plain(view, start, bytes_max, stop)
        events_read += found.next - found.first
        return found

    partition.read = counted  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory(prefix="bench-outline-") as name:
        views = ViewsFile(Path(name, "views.sqlite"), limits.views_bytes_max)
        outlines = Outlines(sessions, views, limits)
        began = time.perf_counter()
        while (found := await outlines.overview(durable, 1_000)).through < found.events:
            pass
        cold = time.perf_counter() - began
        made = events_read
        warm, overview = [], []
        for number in range(blocks):
            began = time.perf_counter()
            await outlines.block(durable, number * BLOCK_EVENTS)
            warm.append(time.perf_counter() - began)
            began = time.perf_counter()
            await outlines.overview(durable, 1_000)
            overview.append(time.perf_counter() - began)
        page = await sessions.events.page(durable, 0, BLOCK_EVENTS, BLOCK_EVENTS)
        events = page.events()
        began = time.perf_counter()
        folded(0, events, lambda call: None)
        fold = time.perf_counter() - began
        views.close()
    await partition.close()
    return {
        "fold, µs an event": 1e6 * fold / len(events),
        "cold, µs an event": 1e6 * cold / durable.tail,
        "warm block, ms": 1e3 * statistics.median(warm),
        "overview, ms": 1e3 * statistics.median(overview),
        f"events read for a block (at most {BLOCK_EVENTS:,})": made / blocks,
    }


def tell(blocks: int) -> None:
    """Measure, and print what each way costs."""
    for what, took in asyncio.run(run(blocks)).items():
        print(f"{what}: {took:.2f}")


if __name__ == "__main__":
    tell(int(sys.argv[1]) if len(sys.argv) > 1 else BLOCKS)
