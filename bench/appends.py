"""Appends: ours on its carriers, beside the reference, PostgreSQL, Redis, empty answers and the bare disk."""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Required, TypedDict

from bench import disk, feeding, load, postgres, redis, reference, server
from bench.figures import Figures, Result, Row, interleave
from bench.options import Options
from bench.place import Place
from bench.process import Process
from bench.report import Claim, Column, Part, Table, figure

CONNECTIONS = 64
STREAMS = 100
BATCH_EVENTS = 100
MANY, ONE, BATCH, SINGLE = (
    f"{CONNECTIONS} connections, {STREAMS} streams",
    f"{CONNECTIONS} connections, 1 stream",
    f"{CONNECTIONS} connections, {BATCH_EVENTS} events per request",
    "1 connection",
)


class Load(TypedDict, total=False):
    """What ``load.appends`` is told of a load."""

    connections: Required[int]
    streams: Required[int]
    events: int


LOADS: dict[str, Load] = {
    MANY: {"connections": CONNECTIONS, "streams": STREAMS},
    ONE: {"connections": CONNECTIONS, "streams": 1},
    BATCH: {"connections": CONNECTIONS, "streams": STREAMS, "events": BATCH_EVENTS},
    SINGLE: {"connections": 1, "streams": STREAMS},
}
SESSIONS = f"{MANY}, sessions face"
"""The same load on sessions, whose events are indexed for search meanwhile."""
FLUSHED_EVENTS = 100_000
"""A little less than makes the server flush by itself."""
STILL, FLUSHING = f"{MANY}, nothing to flush", f"{MANY}, while {FLUSHED_EVENTS:,} events are flushed"
BARE = "bare write + `fdatasync`, one at a time"
COLUMNS = (
    Column("events/s", "events_per_second"),
    Column("requests/s", "requests_per_second"),
    Column("p50 ms", "p50_ms", "{:.2f}".format),
    Column("p99 ms", "p99_ms", "{:.2f}".format),
    Column("server µs per event", "server_us", "{:.1f}".format),
    Column("failures", "failures"),
)
NOTES = (
    "Every peer runs for itself: while one is measured, all others are stopped with `SIGSTOP`, so that "
    "nobody's flush, checkpoint or vacuum counts against another, but each counts against its own.",
    "`load.c` (one thread) sends to everything that speaks HTTP; `pgbench` (prepared statements, one thread) "
    "and `redis-benchmark` to the others, over TCP on loopback, with the same event. With 100 events per "
    "request PostgreSQL takes one insert of 100 rows, Redis a pipeline of 100.",
    "Server µs are the processor time of all processes of a server, in user and system mode, per event.",
)


def run(place: Place, options: Options) -> Part:
    """Measure all rows in turn and set ours against theirs."""
    skipped: list[Result] = []
    with contextlib.ExitStack() as stack:
        rows = list(_ours(place, stack, options.seconds))
        rows += _flushing(place, stack, options)
        rows += _faces(place, stack, options.seconds)
        rows.append(Row(BARE, lambda: disk.bare_appends(place, options.seconds)))
        rows += _carriers(place, stack, options.seconds)
        for name, missing, peer in (
            ("Node reference", reference.missing, _reference),
            ("PostgreSQL", postgres.missing, _postgres),
            ("Redis Streams", redis.missing, _redis),
        ):
            if problem := missing():
                skipped.append(Result(name, skipped=problem))
            else:
                rows += peer(place, stack, options.seconds)
        results = interleave(rows, options.rounds) + skipped
    table = Table("Durable appends of one event of about 260 bytes", COLUMNS, results)
    return Part("Appends", [table], _claims(results), list(NOTES))


def _ours(place: Place, stack: contextlib.ExitStack, seconds: float) -> Iterator[Row]:
    # One server for each load: the flush that one leaves behind must not burden the next.
    for name in LOADS:
        one = stack.enter_context(server.ours(place, streams=STREAMS))
        yield Row(f"ours, {name}", _appends(one, one.url, name, seconds), one)


def _flushing(place: Place, stack: contextlib.ExitStack, options: Options) -> Iterator[Row]:
    """Yield the same load while nothing is flushed, and while a whole flush is."""
    one = stack.enter_context(server.ours(place, streams=STREAMS))
    seconds = min(options.seconds, 2.0)  # not much longer than the flush, and less than fills the next one
    events = options.scaled(FLUSHED_EVENTS, FLUSHED_EVENTS // 16)
    paths = (f"/v1/stream/filled-{number}" for number in itertools.count())

    def still() -> Figures:
        one.flush()
        return load.appends(one.url, seconds=seconds, **LOADS[MANY])

    def flushing() -> Figures:
        one.flush()
        feeding.fill(one.url, next(paths), events)
        with ThreadPoolExecutor(1) as beside:
            flushed = beside.submit(one.flush)
            figures = load.appends(one.url, seconds=seconds, **LOADS[MANY])
            flushed.result()
        return figures

    yield Row(f"ours, {STILL}", still, one)
    yield Row(f"ours, {FLUSHING}", flushing, one)


def _faces(place: Place, stack: contextlib.ExitStack, seconds: float) -> Iterator[Row]:
    """Yield the sessions face, and both faces of the version before where there is one."""
    one = stack.enter_context(server.ours(place, streams=STREAMS))
    yield Row(f"ours, {SESSIONS}", _session_appends(one, seconds), one)
    if python := os.environ.get(server.BEFORE, ""):
        one = stack.enter_context(server.ours(place, streams=STREAMS, python=python))
        yield Row(f"before, {MANY}", _appends(one, one.url, MANY, seconds), one)
        one = stack.enter_context(server.ours(place, streams=STREAMS, python=python))
        yield Row(f"before, {SESSIONS}", _session_appends(one, seconds), one)


def _carriers(place: Place, stack: contextlib.ExitStack, seconds: float) -> Iterator[Row]:
    for name in server.CARRIERS[1:]:
        opened = server.carrier(place, name, application="streams", streams=STREAMS)
        process, url = stack.enter_context(opened)
        yield Row(f"ours as ASGI on {name}, {MANY}", _appends(process, url, MANY, seconds), process)
    for name in server.CARRIERS:
        process, url = stack.enter_context(server.carrier(place, name, application="empty"))
        shown = "our server" if name == "built-in" else name
        measured = _appends(process, url, MANY, seconds)
        yield Row(f"empty 204 from {shown}, {CONNECTIONS} connections", measured, process)


def _reference(place: Place, stack: contextlib.ExitStack, seconds: float) -> Iterator[Row]:
    for kind in reference.KINDS:
        for name in LOADS:
            process, url = stack.enter_context(reference.reference(place, kind, streams=STREAMS))
            yield Row(f"Node reference {kind}, {name}", _appends(process, url, name, seconds), process)


def _postgres(place: Place, stack: contextlib.ExitStack, seconds: float) -> Iterator[Row]:
    for name, clients, rows in ((MANY, CONNECTIONS, 1), (BATCH, CONNECTIONS, BATCH_EVENTS), (SINGLE, 1, 1)):
        one = stack.enter_context(postgres.postgres(place))
        yield Row(f"PostgreSQL, {name}", _inserts(one, clients, rows, seconds), one.process)


def _redis(place: Place, stack: contextlib.ExitStack, seconds: float) -> Iterator[Row]:
    for name, clients, streams, pipeline in (
        (MANY, CONNECTIONS, STREAMS, 1),
        (ONE, CONNECTIONS, 1, 1),
        (BATCH, CONNECTIONS, STREAMS, BATCH_EVENTS),
        (SINGLE, 1, STREAMS, 1),
    ):
        one = stack.enter_context(redis.redis(place))
        yield Row(f"Redis Streams, {name}", _adds(one, clients, streams, pipeline, seconds), one.process)


def _appends(process: Process, url: str, name: str, seconds: float) -> Callable[[], Figures]:
    chosen = LOADS[name]
    return _costed(process, chosen.get("events", 1), lambda: load.appends(url, seconds=seconds, **chosen))


def _session_appends(one: server.Server, seconds: float) -> Callable[[], Figures]:
    def measure() -> Figures:
        return load.appends(
            one.url, seconds=seconds, prefix="/v1/sessions/bench-", suffix="/events", **LOADS[MANY]
        )

    return _costed(one, 1, measure)


def _costed(process: Process, events: int, measure: Callable[[], Figures]) -> Callable[[], Figures]:
    """Add the processor time per event, with so many events in a request."""

    def measured() -> Figures:
        begin = process.cpu_seconds()
        figures = measure()
        spent = process.cpu_seconds() - begin
        return {**figures, "server_us": spent / (figures["answers"] * events) * 1e6}

    return measured


def _inserts(one: postgres.Postgres, clients: int, rows: int, seconds: float) -> Callable[[], Figures]:
    return _costed(one.process, rows, lambda: one.inserts(clients=clients, seconds=seconds, rows=rows))


def _adds(
    one: redis.Redis, clients: int, streams: int, pipeline: int, seconds: float
) -> Callable[[], Figures]:
    return _costed(
        one.process,
        pipeline,
        lambda: one.adds(clients=clients, seconds=seconds, streams=streams, pipeline=pipeline),
    )


def _claims(results: list[Result]) -> list[Claim]:
    why = {result.name: result.skipped for result in results if result.skipped}

    def rate(name: str) -> float | None:
        return figure(results, name, "events_per_second")

    def p50(name: str) -> float | None:
        return figure(results, name, "p50_ms")

    def beside(
        what: str, theirs: str, must: float | None, aim: float | None, load_name: str = MANY, peer: str = ""
    ) -> Claim:
        ours = rate(f"ours, {load_name}")
        return Claim(what, ours, rate(theirs), must, aim, skipped=why.get(peer, ""))

    def cost(what: str, ours: str, theirs: str, must: float | None, aim: float, skipped: str) -> Claim:
        mine, others = (figure(results, name, "server_us") for name in (ours, theirs))
        whole = f"processor time per append, {what}"
        return Claim(whole, mine, others, must, aim, at_most=True, skipped=skipped)

    unnamed = f"name the Python of the version before in {server.BEFORE}"
    no_before = "" if os.environ.get(server.BEFORE, "") else unnamed
    node, sql, streams = "Node reference", "PostgreSQL", "Redis Streams"
    unbatched = f"durable appends, {MANY}: ours ÷ "
    return [
        beside(f"{unbatched}Node reference, file-backed", f"{node} file-backed, {MANY}", 10, 20, peer=node),
        beside(f"{unbatched}Node reference, in memory", f"{node} in memory, {MANY}", 1.5, 3, peer=node),
        beside(f"{unbatched}PostgreSQL, inserts", f"{sql}, {MANY}", 1, 2, peer=sql),
        beside(
            f"{unbatched}Redis Streams, `appendfsync always`", f"{streams}, {MANY}", None, 0.5, peer=streams
        ),
        beside(
            f"{unbatched}uvicorn, empty 204", f"empty 204 from uvicorn, {CONNECTIONS} connections", 0.5, 1
        ),
        beside(f"{unbatched}the same on uvicorn", f"ours as ASGI on uvicorn, {MANY}", None, None),
        beside(f"{unbatched}the same on granian", f"ours as ASGI on granian, {MANY}", None, None),
        beside(f"{CONNECTIONS} writers: ours on 1 stream ÷ ours on {STREAMS}", f"ours, {MANY}", 0.9, 1, ONE),
        beside(f"{BATCH_EVENTS} events per request: ours ÷ ours unbatched", f"ours, {MANY}", 10, 20, BATCH),
        beside(
            f"{BATCH_EVENTS} events per request: ours ÷ PostgreSQL", f"{sql}, {BATCH}", None, None, BATCH, sql
        ),
        cost("streams face: ours ÷ before", f"ours, {MANY}", f"before, {MANY}", 0.5, 0.5, no_before),
        cost("sessions face: ours ÷ before", f"ours, {SESSIONS}", f"before, {SESSIONS}", 0.5, 0.5, no_before),
        cost("streams face: ours ÷ PostgreSQL", f"ours, {MANY}", f"{sql}, {MANY}", None, 1, why.get(sql, "")),
        cost(
            "streams face: ours ÷ Redis", f"ours, {MANY}", f"{streams}, {MANY}", None, 2, why.get(streams, "")
        ),
        Claim(
            f"{SINGLE}, p50: ours ÷ bare `fdatasync`", p50(f"ours, {SINGLE}"), p50(BARE), 2, 1.5, at_most=True
        ),
        Claim(
            f"{MANY}, p99: while {FLUSHED_EVENTS:,} events are flushed ÷ without",
            figure(results, f"ours, {FLUSHING}", "p99_ms"),
            figure(results, f"ours, {STILL}", "p99_ms"),
            1.5,
            1.1,
            at_most=True,
        ),
        Claim(
            f"{SINGLE}, p50: ours ÷ PostgreSQL",
            p50(f"ours, {SINGLE}"),
            p50(f"{sql}, {SINGLE}"),
            at_most=True,
            skipped=why.get(sql, ""),
        ),
    ]
