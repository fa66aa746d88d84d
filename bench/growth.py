"""Growth: what more streams, longer streams and more data cost in speed, memory and time to restart."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator

from bench import agents, calls, feeding, load, opening
from bench.figures import Figures, Result, Row, interleave, say
from bench.options import Options
from bench.place import Place
from bench.reading import Reader
from bench.report import Claim, Column, Part, Table, figure
from bench.server import Server
from durable_sessions.limits import DEFAULT_LIMITS

CONNECTIONS = 64
STREAM_COUNTS = (100, 10_000, 100_000)
LENGTHS = (1_000, 1_000_000)
DATA_EVENTS = (10_000, 100_000, 1_000_000)
EVENTS_PER_STREAM = 500
EVENTS_PER_REQUEST = 100
MESSAGE_CHARACTERS = 180
LAST_EVENTS = 50
MEMORY = "32MiB"
REST_SECONDS_MAX = 60.0
GROWTH_MAX = 1.25
"""What counts as not growing, given that two equal things differ by about so much on a shared machine."""
MB_PER_MIB = 2**20 / 1e6

APPEND_COLUMNS = (
    Column("appends/s", "requests_per_second"),
    Column("p50 ms", "p50_ms", "{:.2f}".format),
    Column("p99 ms", "p99_ms", "{:.2f}".format),
    Column("failures", "failures"),
)
READ_COLUMNS = (
    Column("reads/s", "requests_per_second"),
    Column("p50 ms", "p50_ms", "{:.3f}".format),
    Column("p99 ms", "p99_ms", "{:.3f}".format),
    Column("first read after a restart, ms", "first_ms", "{:.1f}".format),
)
DATA_COLUMNS = (
    Column("payload MiB", "payload_mib"),
    Column("written in s", "written_seconds", "{:.1f}".format),
    Column("most resident MiB", "most_mib"),
    Column("log on disk MiB", "log_mib"),
    Column("restart after `kill -9`, s", "restart_seconds", "{:.2f}".format),
)
OPEN_COLUMNS = (
    Column("open in s", "open_seconds", "{:.2f}".format),
    Column("processor s", "processor_seconds", "{:.2f}".format),
)
IDLE_COLUMNS = (
    Column("resident MiB", "resident_mib"),
    Column("above the empty server, MB", "above_mb"),
)


def run(place: Place, options: Options) -> Part:
    """Grow one thing at a time."""
    part = Part("Growth")
    _streams(place, options, part)
    _lengths(place, options, part)
    _data(place, options, part)
    _openings(place, options, part)
    return part


# More streams -------------------------------------------------------------------------------


def _streams(place: Place, options: Options, part: Part) -> None:
    counts = [options.scaled(count, min(count, 2_000 + count // 100)) for count in STREAM_COUNTS]
    with contextlib.ExitStack() as stack:
        rows, idle = [], []
        for count in counts:
            server = stack.enter_context(Server(place))
            empty_mib = server.memory_mib("VmRSS")
            body = b'{"type":"session.created"}'
            took = feeding.send(server.url, (feeding.put(f"{load.PREFIX}{n}", body) for n in range(count)))
            say(f"{count:,} streams created in {took:.1f} s")
            if count == counts[-1]:
                idle = _idle(server, count, empty_mib)
            rows.append(Row(f"{count:,} streams", _appends(server.url, count, options.seconds), server))
            server.pause()
        results = interleave(rows, options.rounds)
    title = f"Appends from {CONNECTIONS} connections, spread over all streams"
    part.tables += [Table(title, APPEND_COLUMNS, results), Table("Idle streams", IDLE_COLUMNS, idle)]
    first = results[0]
    for result in results[1:]:
        for what, name in (("requests_per_second", "appends/s"), ("p99_ms", "p99")):
            claim = f"{name}: {result.name} ÷ {first.name}"
            wanted = what == "requests_per_second" and result is results[-1]
            figures = result.median(what), first.median(what)
            part.claims.append(Claim(claim, *figures, 0.7 if wanted else None, 0.9 if wanted else None))
    part.claims.append(
        Claim(
            f"{idle[0].name}, resident above the empty server",
            idle[0].median("above_mb"),
            1,
            100,
            50,
            at_most=True,
            unit=" MB",
        )
    )


def _appends(url: str, streams: int, seconds: float) -> Callable[[], Figures]:
    return lambda: load.appends(url, connections=CONNECTIONS, streams=streams, seconds=seconds)


def _idle(server: Server, count: int, empty_mib: float) -> list[Result]:
    """Flush, wait until idle streams have left memory, and look; then look again after a restart."""
    server.flush()
    deadline = time.monotonic() + REST_SECONDS_MAX
    while time.monotonic() < deadline:
        time.sleep(1)
        if server.metrics()["active_streams"] <= DEFAULT_LIMITS.active_streams_max:
            break
    results = [_resident(server, f"{count:,} idle streams, in the process that created them", empty_mib)]
    server.restart()
    results.append(_resident(server, f"{count:,} idle streams, after a restart", empty_mib))
    return results


def _resident(server: Server, name: str, empty_mib: float) -> Result:
    resident = server.memory_mib("VmRSS")
    return Result(name, [{"resident_mib": resident, "above_mb": (resident - empty_mib) * MB_PER_MIB}])


# Longer streams -----------------------------------------------------------------------------


def _lengths(place: Place, options: Options, part: Part) -> None:
    lengths = [options.scaled(length, min(length, 10_000)) for length in LENGTHS]
    with Server(place) as server:
        targets = {}
        for length in lengths:
            path = f"/v1/stream/length-{length}"
            feeding.fill(server.url, path, length)
            targets[f"{length:,} events"] = _last_events(server.url, path)
        rows = [
            Row(f"{name}, from memory", _reads(server.url, target, options.seconds / 2), server)
            for name, target in targets.items()
        ]
        results = interleave(rows, options.rounds)
        server.resume()
        server.flush()
        rows = [
            Row(f"{name}, from the bucket", _cold_reads(server, target, options.seconds / 2), server)
            for name, target in targets.items()
        ]
        results += interleave(rows, options.rounds)
    title = f"Reading the last {LAST_EVENTS} events of a stream, one connection"
    note = "From the bucket: flushed, ended with `kill -9`, started again; then the blocks are cached."
    part.tables.append(Table(title, READ_COLUMNS, results, note))
    for where in ("from memory", "from the bucket"):
        few, many = (f"{name}, {where}" for name in targets)
        ours, theirs = figure(results, many, "p50_ms"), figure(results, few, "p50_ms")
        what = f"last {LAST_EVENTS} events {where}, p50: {lengths[1]:,} ÷ {lengths[0]:,} events"
        part.claims.append(Claim(what, ours, theirs, GROWTH_MAX, at_most=True))


def _last_events(url: str, path: str) -> str:
    """Return the target that reads the last events of a stream."""
    tail = calls.request("HEAD", url + path)[1]["stream-next-offset"]
    epoch, _, position = tail.partition("_")
    return f"{path}?offset={epoch}_{int(position) - LAST_EVENTS:016d}"


def _reads(url: str, target: str, seconds: float) -> Callable[[], Figures]:
    return lambda: load.reads(url, target, connections=1, seconds=seconds)


def _cold_reads(server: Server, target: str, seconds: float) -> Callable[[], Figures]:
    def measure() -> Figures:
        server.restart()
        with Reader(server.url) as reader:
            begin = time.perf_counter()
            reader.get(target)
            first_ms = (time.perf_counter() - begin) * 1000
        return {**load.reads(server.url, target, connections=1, seconds=seconds), "first_ms": first_ms}

    return measure


# More data ----------------------------------------------------------------------------------


def _data(place: Place, options: Options, part: Part) -> None:
    results = []
    for full in DATA_EVENTS:
        events = options.scaled(full, full // 20)
        result = Result(f"{events:,} events in {events // EVENTS_PER_STREAM:,} streams")
        with Server(place, "--memory-bytes", MEMORY) as server:
            figures = _write(server, events)
            for _ in range(options.rounds):
                result.rounds.append({**figures, "restart_seconds": server.restart()})
                _require_all(server)
        say(f"{result.name}: {result.rounds[-1]}")
        results.append(result)
    title = f"Data and restarts, `--memory-bytes {MEMORY}`, {EVENTS_PER_REQUEST} events per request"
    part.tables.append(Table(title, DATA_COLUMNS, results))
    last = results[-1]
    what = f"restart after `kill -9` until it serves, {last.name}"
    part.claims.append(Claim(what, last.median("restart_seconds"), 1, 3, 1, at_most=True, unit=" s"))


def _write(server: Server, events: int) -> Figures:
    streams = events // EVENTS_PER_STREAM
    messages = agents.Agents().messages(50 * EVENTS_PER_REQUEST, MESSAGE_CHARACTERS)
    bodies = list(agents.batched(messages, EVENTS_PER_REQUEST))
    feeding.send(server.url, (feeding.put(_path(number)) for number in range(streams)))
    took = feeding.send(server.url, _requests(bodies, events // EVENTS_PER_REQUEST, streams))
    metrics = server.metrics()
    assert metrics["records_total"] == events, metrics
    return {
        "payload_mib": metrics["append_bytes_total"] / 2**20,
        "written_seconds": took,
        "most_mib": server.memory_mib("VmHWM"),
        "log_mib": server.log_bytes() / 2**20,
    }


def _requests(bodies: list[bytes], count: int, streams: int) -> Iterator[bytes]:
    for number in range(count):
        yield feeding.post(_path(number % streams), bodies[number % len(bodies)])


def _require_all(server: Server) -> None:
    """Check that a stream is whole after the restart."""
    tail = calls.request("HEAD", server.url + _path(0))[1]["stream-next-offset"]
    assert int(tail.partition("_")[2]) == EVENTS_PER_STREAM, tail


def _path(number: int) -> str:
    return f"/v1/stream/data/{number}"


# Opening ------------------------------------------------------------------------------------


def _openings(place: Place, options: Options, part: Part) -> None:
    sessions = options.scaled(opening.SESSIONS, opening.SESSIONS // 20)
    filled, empty = Server(place, name="opening"), Server(place, name="empty")
    found = asyncio.run(opening.run(filled.data, sessions, options.rounds))
    results = [_opening(f"the archive alone, from {way}", took) for way, took in found.items()]
    _, snapshot, everything = results
    started = opening.run_servers(filled, empty, options.rounds)
    results += [_opening(f"a whole server, from {way}", took) for way, took in started.items()]
    part.tables.append(Table(f"Opening {sessions:,} sessions", OPEN_COLUMNS, results))
    claim = f"opening {sessions:,} sessions without a local catalog"
    whole = results[-1].median("open_seconds")
    part.claims.append(Claim(f"{claim}, a whole server", whole, 1, 3, 1, at_most=True, unit=" s"))
    ratio = f"{claim}: from a snapshot ÷ from everything"
    part.claims.append(
        Claim(ratio, snapshot.median("open_seconds"), everything.median("open_seconds"), 1, 0.1, at_most=True)
    )


def _opening(name: str, took: list[opening.Took]) -> Result:
    result = Result(name)
    result.rounds += [{"open_seconds": one.seconds, "processor_seconds": one.processor} for one in took]
    say(f"opened, {name}: {took}")
    return result
