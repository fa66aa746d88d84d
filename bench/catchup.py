"""Catch-up: reading a whole session from memory and from Parquet, beside the reference."""

import contextlib
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import agents, feeding, reference
from bench.figures import Figures, Result, Row, interleave, say
from bench.options import Options
from bench.place import Place
from bench.reading import Reader
from bench.report import Claim, Column, Part, Table, figure
from bench.server import Server
from durable_sessions.bucket.segment import GROUP_BYTES
from durable_sessions.limits import DEFAULT_LIMITS

EVENTS = 50_000
EVENT_CHARACTERS = 190
PATH = "/v1/stream/session"
EVENTS_PER_REQUEST = 1_000
HOT, COLD, COLDEST = (
    "ours, from memory",
    "ours, from Parquet",
    "ours, from Parquet, page cache dropped before each pass",
)
COLUMNS = (
    Column("events/s", "events_per_second"),
    Column("MB/s", "mb_per_second", "{:,.0f}".format),
    Column("ms per pass", "pass_ms", "{:,.1f}".format),
    Column("requests per pass", "requests"),
    Column("blocks fetched from the bucket per pass", "blocks", "{:.1f}".format),
)


def run(place: Place, options: Options) -> Part:
    """Read the same session from every server in turn."""
    count = EVENTS
    events = agents.Agents().messages(count, EVENT_CHARACTERS)
    bodies = list(agents.batched(events, EVENTS_PER_REQUEST))
    skipped: list[Result] = []
    with contextlib.ExitStack() as stack:
        rows = [_hot(place, stack, bodies, count, options.seconds)]
        rows += _cold(place, stack, bodies, count, options.seconds)
        if problem := reference.missing():
            skipped.append(Result("Node reference", skipped=problem))
        else:
            rows += _reference(place, stack, bodies, count, options.seconds)
        results = interleave(rows, options.rounds) + skipped
    size = sum(map(len, events))
    title = f"One client reads a session of {count:,} events ({size / 1e6:.1f} MB) from the start to the end"
    return Part("Catch-up", [Table(title, COLUMNS, results)], _claims(results, skipped), _notes())


def _hot(place: Place, stack: contextlib.ExitStack, bodies: list[bytes], count: int, seconds: float) -> Row:
    server = stack.enter_context(Server(place))
    _write(server.url, PATH, bodies)
    _verify(server.url, PATH, count)
    return Row(HOT, _passes(server.url, itertools.repeat(PATH), count, seconds), server)


def _cold(
    place: Place, stack: contextlib.ExitStack, bodies: list[bytes], count: int, seconds: float
) -> Iterator[Row]:
    """Flush more sessions than fit into the caches, restart, and read them in turn."""
    server = stack.enter_context(Server(place, "--memory-bytes", "1MiB"))
    size = sum(map(len, bodies))
    copies = 2 + DEFAULT_LIMITS.block_cache_bytes_max // size
    paths = [f"{PATH}-{number}" for number in range(copies)]
    for path in paths:
        _write(server.url, path, bodies)
    server.flush()
    server.restart()
    _verify(server.url, paths[0], count)
    turn = itertools.cycle(paths)
    least_blocks = size / GROUP_BYTES / 2

    def measured(before: Callable[[], None]) -> Callable[[], Figures]:
        return lambda: _cold_passes(server, turn, count, seconds, before, least_blocks)

    yield Row(COLD, measured(lambda: None), server)
    yield Row(COLDEST, measured(lambda: _drop_pages(server.data / "bucket")), server)


def _reference(
    place: Place, stack: contextlib.ExitStack, bodies: list[bytes], count: int, seconds: float
) -> Iterator[Row]:
    for kind in reference.KINDS:
        process, url = stack.enter_context(reference.reference(place, kind))
        _write(url, PATH, bodies)
        _verify(url, PATH, count)
        yield Row(f"Node reference {kind}", _passes(url, itertools.repeat(PATH), count, seconds), process)


def _write(url: str, path: str, bodies: list[bytes]) -> None:
    feeding.send(url, [feeding.put(path)])
    feeding.send(url, (feeding.post(path, body) for body in bodies), lanes=1)


def _verify(url: str, path: str, count: int) -> None:
    """Parse everything once: what is measured afterwards is only counted."""
    found, offset = 0, "-1"
    with Reader(url) as reader:
        while True:
            headers, length = reader.get(f"{path}?offset={offset}")
            found += len(json.loads(reader.body(length)))
            offset = headers[b"stream-next-offset"].decode()
            if headers.get(b"stream-up-to-date") == b"true":
                break
    assert found == count, f"{found} of {count} events came back"


def _passes(
    url: str, turn: Iterator[str], count: int, seconds: float, before: Callable[[], None] = lambda: None
) -> Callable[[], Figures]:
    return lambda: timed_passes(url, turn, count, seconds, before)


def timed_passes(
    url: str,
    turn: Iterator[str],
    count: int,
    seconds: float,
    before: Callable[[], None] = lambda: None,
    query: str = "",
) -> Figures:
    """Read again and again for so long; only the reading is timed."""
    spent, passes, size, requests = 0.0, 0, 0, 0
    with Reader(url) as reader:
        while spent < seconds:
            before()
            begin = time.perf_counter()
            done = reader.catch_up(next(turn), query)
            spent += time.perf_counter() - begin
            passes, size, requests = passes + 1, size + done.body_bytes, requests + done.requests
    return {
        "events_per_second": passes * count / spent,
        "mb_per_second": size / spent / 1e6,
        "pass_ms": spent / passes * 1000,
        "requests": requests / passes,
        "passes": passes,
    }


def _cold_passes(
    server: Server,
    turn: Iterator[str],
    count: int,
    seconds: float,
    before: Callable[[], None],
    least_blocks: float,
) -> Figures:
    missed = server.metrics()["block_cache_misses_total"]
    figures = timed_passes(server.url, turn, count, seconds, before)
    blocks = (server.metrics()["block_cache_misses_total"] - missed) / figures["passes"]
    if blocks < least_blocks:
        say(f"WARNING: only {blocks:.1f} blocks per pass came from the bucket")
    return {**figures, "blocks": blocks}


def _drop_pages(folder: Path) -> None:
    """Make the kernel forget what it has cached of the files; they were synced when they were written."""
    for file in folder.rglob("*.parquet"):
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _claims(results: list[Result], skipped: list[Result]) -> list[Claim]:
    def rate(name: str) -> float | None:
        return figure(results, name, "events_per_second")

    why = skipped[0].skipped if skipped else ""
    hot = rate(HOT)
    memory, files = rate("Node reference in memory"), rate("Node reference file-backed")
    return [
        Claim("catch-up: ours from memory ÷ Node reference, in memory", hot, memory, 5, 20, skipped=why),
        Claim("catch-up: ours from memory ÷ Node reference, file-backed", hot, files, 5, 20, skipped=why),
        Claim("catch-up: ours from Parquet ÷ ours from memory", rate(COLD), hot, 0.3, 0.5),
        Claim(
            "catch-up: ours from Parquet, page cache dropped ÷ ours from memory", rate(COLDEST), hot, 0.3, 0.5
        ),
        Claim("catch-up: ours from Parquet ÷ Node reference, file-backed", rate(COLD), files, skipped=why),
    ]


def _notes() -> list[str]:
    cache = DEFAULT_LIMITS.block_cache_bytes_max / 2**20
    return [
        "The client is one blocking socket that reads into one buffer and follows `Stream-Next-Offset` "
        "until an answer says that it is up to date; it does not parse. Every session was parsed and "
        "counted once before.",
        "From Parquet: everything was flushed, the server was ended with `kill -9` and started with "
        "`--memory-bytes 1MiB`. As many sessions are read in turn as do not fit into the block cache of "
        f"{cache:.0f} MiB together, so that each has left it when its turn comes again; the last column "
        "counts what was fetched. In the row that says so, the kernel was told to forget the files "
        "(`POSIX_FADV_DONTNEED`) before each pass. The reference's files stay cached.",
    ]
