"""Workers: what several processes on one data directory add, and what one costs beside the version before."""

import contextlib
import os
from collections.abc import Callable
from statistics import median

from bench import load
from bench.appends import CONNECTIONS
from bench.figures import Figures, Result, Row, interleave
from bench.options import Options
from bench.place import Place
from bench.report import Claim, Column, Part, Table
from bench.server import BEFORE, Server, ours

STREAMS = 256
"""Enough that the streams of all connections are spread over the partitions as evenly as chance allows."""
OWN, RANDOM = "a session per connection", "random sessions"
_MICROSECONDS = "{:.1f}".format
COLUMNS = (
    Column("events/s", "events_per_second"),
    Column("p50 ms", "p50_ms", "{:.2f}".format),
    Column("p99 ms", "p99_ms", "{:.2f}".format),
    Column("server µs", "server_us", _MICROSECONDS),
    Column("client µs", "client_us", _MICROSECONDS),
    Column("failures", "failures"),
)
NOTES = (
    f"{CONNECTIONS} connections, one event of about 260 bytes per request, streams face. With {OWN} every "
    "connection stays with its session, as an agent does; it moves to the worker that has it. With random "
    "sessions half of the requests to two workers are passed on.",
    "Server and client µs are the processor time per append of all processes of the server, and of `load.c`, "
    "in user and system mode. They share the cores, so that two workers cannot reach twice the rate of one.",
    "A ratio is the median of the ratios of each round, whose rows were measured one right after the other.",
)


def run(place: Place, options: Options) -> Part:
    """Measure one and two workers in turn, and the version before where there is one."""
    python = os.environ.get(BEFORE, "")
    with contextlib.ExitStack() as stack:

        def row(name: str, kind: str, *server_options: str, python: str | None = None) -> Row:
            chosen = {} if python is None else {"python": python}
            server = stack.enter_context(ours(place, *server_options, streams=STREAMS, **chosen))
            return Row(f"{name}, {kind}", _appends(server, kind, options.seconds), server)

        two = ("--workers", "2")
        # What is divided by each other is measured next to each other.
        rows = [row("1 worker", OWN), row("2 workers", OWN, *two), row("2 workers", RANDOM, *two)]
        rows.append(row("1 worker", RANDOM))
        if python:
            rows.append(row("before", RANDOM, python=python))
        results = interleave(rows, options.rounds)
    table = Table("Durable appends by the number of workers", COLUMNS, results)
    return Part("Workers", [table], _claims(results, python), [*NOTES, *_refusals(results)])


def _appends(server: Server, kind: str, seconds: float) -> Callable[[], Figures]:
    def measure() -> Figures:
        begin = server.cpu_seconds()
        figures = load.appends(
            server.url, connections=CONNECTIONS, seconds=seconds, streams=STREAMS, own_stream=kind == OWN
        )
        return {**figures, "server_us": (server.cpu_seconds() - begin) / figures["answers"] * 1e6}

    return measure


def _claims(results: list[Result], python: str) -> list[Claim]:
    missing = "" if python else f"name the Python of the version before in {BEFORE}"
    one_random = f"1 worker, {RANDOM}"
    own = _ratio(results, f"2 workers, {OWN}", f"1 worker, {OWN}")
    random = _ratio(results, f"2 workers, {RANDOM}", one_random)
    before = _ratio(results, one_random, f"before, {RANDOM}")
    return [
        Claim(f"2 workers ÷ 1, {OWN}", own, 1.0, 1.3, 1.6),
        Claim(f"2 workers ÷ 1, {RANDOM}", random, 1.0, 0.9, 1.2),
        Claim("1 worker ÷ the version before", before, 1.0, 0.97, 1.0, skipped=missing),
    ]


def _ratio(results: list[Result], ours: str, theirs: str) -> float | None:
    """Return the median of the ratios of the rates, each of one round."""
    rounds = {result.name: result.rounds for result in results}
    if theirs not in rounds:
        return None
    what = "events_per_second"
    return median(one[what] / two[what] for one, two in zip(rounds[ours], rounds[theirs], strict=True))


def _refusals(results: list[Result]) -> list[str]:
    """Say how often each error code was answered; nothing where all was well."""
    said = []
    for result in results:
        found = sorted({name for one in result.rounds for name in one if name.startswith(load.REFUSED)})
        sums = {name: sum(one.get(name, 0) for one in result.rounds) for name in found}
        counts = ", ".join(
            f"{count:,.0f} `{name.removeprefix(load.REFUSED)}`" for name, count in sums.items()
        )
        if counts:
            said.append(f"{result.name} refused {counts}.")
    return said
