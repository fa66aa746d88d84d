"""The session as a unit of work: what control costs an append, and what views of long sessions cost."""

import contextlib
import itertools
import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator

from bench import calls, feeding, load
from bench.figures import Figures, Result, Row, interleave, percentile, say
from bench.options import Options
from bench.place import Place
from bench.report import Claim, Column, Part, Table, figure
from bench.server import BEFORE, Server, ours
from bench.slots import Connection

LONGEST = "BENCH_GRAPH_EVENTS"
"""How many events the longest session has; 1,000,000 if it is not set."""
MIDDLE = 50_000
SESSIONS = 100
"""Enough that no session reaches the most facts that it may have."""
CONNECTIONS = 32
PER_REQUEST = 500
CONTEXT_TOKENS = 8_000
FACT = '{"type":"ds.fact","key":"cause","value":"' + "x" * 220 + '"}'
OUTCOME = {
    "features": [{"id": f"f{number}", "text": "It works", "check": "pytest -q"} for number in range(20)]
}
LEASED = {"Session-Epoch": "1"}
APPENDED = (
    Column("events/s", "events_per_second"),
    Column("µs of processor each", "cpu_us"),
    Column("p50 ms", "p50_ms", "{:.2f}".format),
    Column("p99 ms", "p99_ms", "{:.2f}".format),
    Column("failures", "failures"),
)
ASKED = (
    Column("p50 ms", "p50_ms", "{:.3f}".format),
    Column("p99 ms", "p99_ms", "{:.3f}".format),
    Column("ms of processor each", "cpu_ms", "{:.3f}".format),
)
PLAIN, LEASE, BUDGET, FACTS = "plain", "leased, with an outcome", "leased, with a budget", "ds.fact"
BEFORE_ROW, FORK_BEFORE = "plain, before", "fork of the longest, before"
_OBJECT, _STATE, _APPEND, _WAKE = "the session object", "state, nothing new", "append", "wake"
_TAIL, _CONTEXT = "the last 200 events, pairs kept", f"context of {CONTEXT_TOKENS:,} tokens"
_AT, _AT_LONG, _ALL, _FIRST = "state at random", "state at random in the longest", "all events", "first state"
_FORK = "fork of the longest at its end"


def run(place: Place, options: Options) -> Part:
    """Measure appends under control beside plain ones, and views beside plain reads."""
    longest = int(os.environ.get(LONGEST, options.scaled(1_000_000, 60_000)))
    python = os.environ.get(BEFORE, "")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(ours(place))
        _prepare(server)
        rows = list(_append_rows(server, options.seconds))
        before = stack.enter_context(ours(place, python=python)) if python else None
        if before is not None:
            rows.append(Row(BEFORE_ROW, appending(before, "plain", options.seconds), before))
        appended = interleave(rows, options.rounds)
        if before is not None:
            before.resume()  # it was left stopped, and is filled beside ours
        for name, events in (("middle", MIDDLE), ("woken", MIDDLE), ("longest", longest)):
            say(f"filling a session with {events:,} events")
            _fill(server, name, events, {"goal": "Mend it", "outcome": OUTCOME})
            if before is not None:
                _fill(before, name, events, {})  # it may not know of outcomes
        server.flush()
        _settle(server)
        if before is not None:
            _settle(before)
            before.pause()
        disturbed = _disturbed(server, "longest", options.seconds)
        first = _first_looks(server, options.rounds)
        asked = interleave(list(_view_rows(server, before, longest, options.seconds)), options.rounds)
    results = [*appended, *disturbed, *first, *asked]
    tables = [
        Table(f"Appends from {CONNECTIONS} connections to {SESSIONS} sessions", APPENDED, appended),
        Table("Appends while a session is folded for the first time", ASKED, disturbed),
        Table("Requests one after the other", ASKED, [*first, *asked]),
    ]
    return Part(
        "Session graph",
        tables,
        _claims(results, longest, python),
        [f"The sessions have {MIDDLE:,} and {longest:,} events; {LONGEST} changes the latter."],
    )


# What there is --------------------------------------------------------------------------


def _prepare(server: Server) -> None:
    """Make the sessions that are appended to: with a lease and an outcome, and with a budget."""
    connection = Connection(server.url)
    for number in range(SESSIONS):
        connection.request("PUT", f"/v1/sessions/leased-{number}", {"outcome": OUTCOME})
        budget = {"tokens": 10**12, "usd": 10**9, "tool_calls": 10**12}
        connection.request("PUT", f"/v1/sessions/limited-{number}", {"outcome": OUTCOME, "budget": budget})
        for name in ("leased", "limited"):
            connection.request("POST", f"/v1/sessions/{name}-{number}/wake", {"seconds": 3_600})


def _fill(server: Server, session: str, events: int, beginning: dict[str, object]) -> None:
    """Fill a session like a long run: requests, messages, calls with results, facts and checkpoints."""
    connection = Connection(server.url)
    connection.request("PUT", f"/v1/sessions/{session}", beginning)
    present = 2
    path = f"/v1/sessions/{session}/events"
    batches = (
        json.dumps({"events": [_event(number) for number in range(first, min(first + PER_REQUEST, events))]})
        for first in range(present, events, PER_REQUEST)
    )
    feeding.send(server.url, (feeding.post(path, batch.encode()) for batch in batches), lanes=1)


def _settle(server: Server) -> None:
    """Wait until search has taken in all events, so that this is nobody else's cost."""
    connection = Connection(server.url)
    connection.request("GET", "/v1/search?q=settled")


def _event(number: int) -> dict[str, object]:
    text = "Let me run the tests again and look at the first failure. " * 3
    if number % 500 == 0:
        return {"type": "ds.checkpoint", "units": number, "next": "f1", "instructions": text}
    if number % 250 == 1 and number < 1_000_000:
        return {"type": "ds.fact", "key": f"k{number % 100}", "value": text}
    match number % 4:
        case 0:
            usage = {"input_tokens": 900, "output_tokens": 90}
            return {"type": "span.model_request_end", "model_usage": usage, "cost_usd": 0.01}
        case 1:
            return {"type": "agent.message", "content": [{"type": "text", "text": text}]}
        case 2:
            call = {"command": f"pytest -q tests/test_{number}.py"}
            return {"type": "agent.tool_use", "id": f"call-{number}", "name": "bash", "input": call}
        case _:
            return {"type": "agent.tool_result", "tool_use_id": f"call-{number - 1}", "content": text}


# Appends --------------------------------------------------------------------------------


def _append_rows(server: Server, seconds: float) -> Iterator[Row]:
    yield Row(PLAIN, appending(server, "plain", seconds))
    yield Row(LEASE, appending(server, "leased", seconds, headers=LEASED))
    yield Row(BUDGET, appending(server, "limited", seconds, headers=LEASED))
    yield Row(FACTS, appending(server, "facts", seconds, event=FACT))


def appending(
    server: Server,
    name: str,
    seconds: float,
    *,
    event: str = load.EVENT,
    headers: dict[str, str] | None = None,
) -> Callable[[], Figures]:
    """Return what appends to many sessions for a while, and tells how fast that was."""

    def append() -> Figures:
        _settle(server)
        cpu = server.cpu_seconds()
        figures = load.appends(
            server.url,
            connections=CONNECTIONS,
            seconds=seconds,
            streams=SESSIONS,
            prefix=f"/v1/sessions/{name}-",
            suffix="/events",
            event=event,
            headers=headers,
        )
        events = figures["events_per_second"] * seconds
        _settle(server)
        return {**figures, "cpu_us": 1e6 * (server.cpu_seconds() - cpu) / events}

    return append


def _disturbed(server: Server, session: str, seconds: float) -> list[Result]:
    """Measure appends alone, and while somebody looks at a long session for the first time."""
    alone, folding = Result("appends alone"), Result("appends during a fold")
    alone.rounds.append(timed(server, _appended, seconds)())
    status: list[int] = []

    def look() -> None:
        status.append(calls.request("GET", f"{server.url}/v1/sessions/{session}/state")[0])

    looking = threading.Thread(target=look)
    looking.start()
    taken: list[float] = []
    connection = Connection(server.url)
    while looking.is_alive():
        begin = time.perf_counter()
        _appended(connection, len(taken))
        taken.append(time.perf_counter() - begin)
    looking.join()
    assert status == [200], status
    taken.sort()
    folding.rounds.append(_latencies(taken))
    return [alone, folding]


# Views ----------------------------------------------------------------------------------


def _first_looks(server: Server, rounds: int) -> list[Result]:
    """Read all events of a session, and fold them: each time on a server that knows nothing of it."""
    everything, first = Result(_ALL), Result(_FIRST)
    for _ in range(rounds):
        server.kill()
        for file in server.data.glob("views.sqlite*"):
            file.unlink()
        server.start()
        _settle(server)
        connection = Connection(server.url)
        for result, act in ((everything, _read_all), (first, _look)):
            cpu, begin = server.cpu_seconds(), time.perf_counter()
            act(connection)
            taken = 1_000 * (time.perf_counter() - begin)
            spent = 1_000 * (server.cpu_seconds() - cpu)
            result.rounds.append({"p50_ms": taken, "p99_ms": taken, "cpu_ms": spent})
            say(f"{result.name}: {taken:,.0f} ms")
    connection.request("GET", "/v1/sessions/longest/state")
    return [everything, first]


def _read_all(connection: Connection) -> None:
    position = 0
    while position < MIDDLE:
        page = json.loads(connection.request("GET", f"/v1/sessions/middle/events?from={position}&limit=1000"))
        position += len(page["data"])


def _look(connection: Connection) -> None:
    connection.request("GET", "/v1/sessions/middle/state")


def _view_rows(server: Server, before: Server | None, longest: int, seconds: float) -> Iterator[Row]:
    def reading(path: str) -> Callable[[], Figures]:
        return timed(server, lambda connection, _: _get(connection, path), seconds)

    chance = random.Random(7)
    yield Row(_OBJECT, reading("/v1/sessions/middle"))
    yield Row(_STATE, reading("/v1/sessions/middle/state"))
    for name, session, events in ((_AT, "middle", MIDDLE), (_AT_LONG, "longest", longest)):
        yield Row(name, timed(server, _at_random(session, events, chance), seconds))
    yield Row(_TAIL, reading("/v1/sessions/middle/events?tail=200&pairs=keep"))
    yield Row(_CONTEXT, reading(f"/v1/sessions/middle/context?budget_tokens={CONTEXT_TOKENS}"))
    yield Row(_FORK, timed(server, _forking(), seconds))
    if before is not None:
        yield Row(FORK_BEFORE, timed(before, _forking(), seconds), before)
    yield Row(_APPEND, timed(server, _appended, seconds))
    yield Row(_WAKE, timed(server, _woken, seconds))


def _get(connection: Connection, path: str) -> None:
    connection.request("GET", path)


def _appended(connection: Connection, _number: int) -> None:
    connection.request("POST", "/v1/sessions/beside/events", json.loads(load.EVENT))


def _woken(connection: Connection, _number: int) -> None:
    connection.request("POST", "/v1/sessions/woken/wake", {})


def _at_random(session: str, events: int, chance: random.Random) -> Callable[[Connection, int], None]:
    return lambda connection, _: _get(
        connection, f"/v1/sessions/{session}/state?at={chance.randrange(events)}"
    )


def _forking() -> Callable[[Connection, int], None]:
    numbers = itertools.count()

    def fork(connection: Connection, _number: int) -> None:
        connection.fork(f"/v1/sessions/fork-{next(numbers)}", "/v1/sessions/longest")

    return fork


def timed(server: Server, act: Callable[[Connection, int], None], seconds: float) -> Callable[[], Figures]:
    """Return what does something again and again for a while, and tells how long each took."""

    def run_for_a_while() -> Figures:
        connection = Connection(server.url)
        taken: list[float] = []
        cpu, end = server.cpu_seconds(), time.perf_counter() + seconds
        while (begin := time.perf_counter()) < end:
            act(connection, len(taken))
            taken.append(time.perf_counter() - begin)
        spent = server.cpu_seconds() - cpu
        taken.sort()
        return {**_latencies(taken), "cpu_ms": 1_000 * spent / len(taken)}

    return run_for_a_while


def _latencies(ordered: list[float]) -> Figures:
    return {"p50_ms": 1_000 * percentile(ordered, 0.5), "p99_ms": 1_000 * percentile(ordered, 0.99)}


def _claims(results: list[Result], longest: int, python: str) -> list[Claim]:
    def rate(name: str) -> float | None:
        return figure(results, name, "events_per_second")

    def p50(name: str) -> float | None:
        return figure(results, name, "p50_ms")

    missing = "" if python else f"name the Python of the version before in {BEFORE}"
    folding, alone = (figure(results, name, "p99_ms") for name in ("appends during a fold", "appends alone"))
    return [
        Claim(
            "appends without `ds.` events ÷ the version before",
            rate(PLAIN),
            rate(BEFORE_ROW),
            0.95,
            1.0,
            skipped=missing,
        ),
        Claim("`agent.*` in a lease with an outcome ÷ plain", rate(LEASE), rate(PLAIN), 0.85, 0.95),
        Claim("the same with a budget ÷ plain", rate(BUDGET), rate(PLAIN), 0.7, 0.85),
        Claim("`ds.fact` ÷ plain", rate(FACTS), rate(PLAIN), 0.5, 0.7),
        Claim("`state`, nothing new ÷ the session object", p50(_STATE), p50(_OBJECT), 3.0, 1.5, at_most=True),
        Claim(
            f"`state?at=` in {MIDDLE:,} events ÷ reading them", p50(_AT), p50(_ALL), 0.2, 0.1, at_most=True
        ),
        Claim(f"the same in {longest:,} ÷ in {MIDDLE:,}", p50(_AT_LONG), p50(_AT), 1.5, 1.1, at_most=True),
        Claim(
            f"first `state` of {MIDDLE:,} events ÷ reading them",
            p50(_FIRST),
            p50(_ALL),
            4.0,
            2.0,
            at_most=True,
        ),
        Claim(
            f"append p99 while {longest:,} events are folded ÷ without",
            folding,
            alone,
            2.0,
            1.2,
            at_most=True,
        ),
        Claim(f"`wake` in {MIDDLE:,} events ÷ append", p50(_WAKE), p50(_APPEND), 30.0, 10.0, at_most=True),
        Claim("`context` ÷ the last 200 events", p50(_CONTEXT), p50(_TAIL), 4.0, 2.0, at_most=True),
        Claim(
            f"fork of {longest:,} events ÷ the version before",
            p50(_FORK),
            p50(FORK_BEFORE),
            1.2,
            1.0,
            at_most=True,
            skipped=missing,
        ),
    ]
