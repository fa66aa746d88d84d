"""Tailing: one writer, hundreds of subscribers by server-sent events, beside the reference."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable

from bench import feeding, reference
from bench.figures import Figures, Result, Row, interleave, percentile
from bench.options import Options
from bench.place import Place
from bench.process import Process
from bench.report import Claim, Column, Part, Table, figure
from bench.server import Server
from bench.subscribers import LATE_SECONDS_MAX, RUN_SECONDS_MAX
from bench.writing import Writer

EVENTS_PER_SECOND = 50
SUBSCRIBERS = 500
SUBSCRIBERS_MORE = 1_000
SECONDS = 6.0
PATH = "/v1/stream/tail"
COLUMNS = (
    Column("delivered %", "delivered_percent", "{:.2f}".format),
    Column("p50 ms", "p50_ms", "{:.2f}".format),
    Column("p99 ms", "p99_ms", "{:.2f}".format),
    Column("worst ms", "max_ms", "{:.1f}".format),
    Column("append p50 ms", "append_p50_ms", "{:.2f}".format),
    Column("events/s sent", "sent_per_second", "{:.1f}".format),
    Column("server CPU %", "server_cpu_percent"),
    Column("client CPU %", "client_cpu_percent"),
    Column("client's own delay, p99 ms", "client_wait_p99_ms", "{:.2f}".format),
)
NOTES = (
    "Latency is from the moment at which the writer sends an event, which carries that time, to its arrival "
    "at the subscriber's socket as the kernel stamped it (`SO_TIMESTAMPNS`): the append is in it, for ours "
    "with its sync, and the fan-out, but not the time until a busy client looks at the socket; that is the "
    "last column.",
    "The writer waits for each acknowledgement. If appends take longer than its pace allows, it sends fewer "
    "events per second, which the table shows. What has not come five seconds after the last event counts as "
    "not delivered, and is not in the latencies.",
    "All subscribers live in one process on plain sockets and epoll. As long as it takes clearly less than a "
    "core, the client is not what is measured.",
    "The file-backed reference records every subscriber's access in its database, synchronously, for every "
    "event: with hundreds of subscribers it falls behind. The one in memory is the peer to look at.",
)


def run(place: Place, options: Options) -> Part:
    """Let everybody be tailed in turn."""
    seconds = float(options.scaled(int(SECONDS), 2))
    few, more = options.scaled(SUBSCRIBERS, 50), options.scaled(SUBSCRIBERS_MORE, 100)
    skipped: list[Result] = []
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(Server(place))
        feeding.send(ours.url, [feeding.put(PATH)])
        rows = [
            Row(f"ours, {count} subscribers", _tail(ours, ours.url, count, seconds), ours)
            for count in (few, more)
        ]
        if problem := reference.missing():
            skipped.append(Result("Node reference", skipped=problem))
        else:
            for kind in reference.KINDS:
                process, url = stack.enter_context(reference.reference(place, kind))
                feeding.send(url, [feeding.put(PATH)])
                rows.append(
                    Row(
                        f"Node reference {kind}, {few} subscribers",
                        _tail(process, url, few, seconds),
                        process,
                    )
                )
        results = interleave(rows, options.rounds) + skipped
    title = f"One writer, {EVENTS_PER_SECOND} events per second for {seconds:g} s, subscribers by SSE"
    return Part(
        "Tailing", [Table(title, COLUMNS, results)], _claims(results, skipped, few, more), list(NOTES)
    )


def _tail(process: Process, url: str, count: int, seconds: float) -> Callable[[], Figures]:
    return lambda: measure(process, url, count, seconds)


def measure(process: Process, url: str, count: int, seconds: float, path: str = PATH) -> Figures:
    """Return what subscribers see of one writer's events."""
    client = subprocess.Popen(
        [sys.executable, "-m", "bench.subscribers", url + path, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert client.stdout is not None
        ready = client.stdout.readline()
        assert ready == "ready\n", f"the subscribers did not get ready: {ready!r}"
        cpu, begin = process.cpu_seconds(), time.monotonic()
        took = sorted(_write(url, path, seconds))
        spent = time.monotonic() - begin
        share = (process.cpu_seconds() - cpu) / spent
        said, _ = client.communicate(f"{len(took)}\n", timeout=RUN_SECONDS_MAX + LATE_SECONDS_MAX)
    finally:
        client.kill()
        client.wait()
    append = {"append_p50_ms": percentile(took, 0.5), "sent_per_second": len(took) / spent}
    return {**json.loads(said), **append, "server_cpu_percent": 100 * share}


def _write(url: str, path: str, seconds: float) -> list[float]:
    """Send one event at each tick, and return what each append took in milliseconds.

    A server that keeps the writer waiting gets twice the time, and fewer events if that is not enough.
    """
    events, deadline = int(seconds * EVENTS_PER_SECOND), time.monotonic() + 2 * seconds
    took: list[float] = []
    with Writer(url) as writer:
        start_ns = time.time_ns() + 100_000_000
        for number in range(events):
            due_ns = start_ns + number * 1_000_000_000 // EVENTS_PER_SECOND
            time.sleep(max(0.0, (due_ns - time.time_ns()) / 1e9))
            begin, now_ns = time.perf_counter(), time.time_ns()
            writer.post(path, b'{"type":"agent.message","sent_ns":%d,"text":"%b"}' % (now_ns, b"x" * 190))
            took.append((time.perf_counter() - begin) * 1000)
            if time.monotonic() > deadline:
                break
    return took


def _claims(results: list[Result], skipped: list[Result], few: int, more: int) -> list[Claim]:
    why = skipped[0].skipped if skipped else ""

    def of(name: str, what: str) -> float | None:
        return figure(results, name, what)

    ours, ours_more = f"ours, {few} subscribers", f"ours, {more} subscribers"
    claims = [
        Claim(f"SSE, {few} subscribers: % delivered", of(ours, "delivered_percent"), 1, 100, unit=" %"),
        Claim(
            f"SSE, {more} subscribers: % delivered", of(ours_more, "delivered_percent"), 1, aim=100, unit=" %"
        ),
    ]
    for kind in reference.KINDS:
        theirs = of(f"Node reference {kind}, {few} subscribers", "p99_ms")
        what = f"SSE, {few} subscribers, p99: ours ÷ Node reference, {kind}"
        claims.append(Claim(what, of(ours, "p99_ms"), theirs, 0.5, at_most=True, skipped=why))
    return claims
