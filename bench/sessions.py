"""Sessions: what their face costs beside the bare streams below it, and how it lists many of them."""

import contextlib
import itertools
import json
import time
from collections.abc import Callable

from bench import agents, catchup, feeding, load, tailing
from bench.appends import CONNECTIONS, STREAMS
from bench.figures import Figures, Result, Row, interleave, percentile
from bench.options import Options
from bench.place import Place
from bench.reading import Reader
from bench.report import Claim, Column, Part, Table, figure
from bench.server import Server, ours

ROOT = "/v1/sessions/"
SUBSCRIBERS = 500
SESSIONS = 100_000
PAGE = 1_000
PAGE_EVENTS = 10_000
SESSIONS_FACE, STREAMS_FACE = "sessions face", "streams face"
FRESH, RESTARTED = "in the server that took them", "after a restart, from the catalog"
COLUMNS = (
    Column("events/s", "events_per_second"),
    Column("p50 ms", "p50_ms", "{:.2f}".format),
    Column("p99 ms", "p99_ms", "{:.2f}".format),
    Column("MB/s", "mb_per_second"),
    Column("delivered %", "delivered_percent", "{:.2f}".format),
)
LISTING = (
    Column("sessions", "sessions"),
    Column("seconds for all pages", "all_seconds", "{:.2f}".format),
    Column("page p50 ms", "p50_ms", "{:.1f}".format),
    Column("page p99 ms", "p99_ms", "{:.1f}".format),
)
NOTES = (
    "An event of the sessions face is stored with its id, offset, times and actor, about 200 bytes more than "
    "was sent; the streams face stores what was sent. Both catch up on the same session.",
    "Events carry no ids of their own, and their types change no summary, as most do not.",
)


def run(place: Place, options: Options) -> Part:
    """Measure both faces in turn, then list many sessions."""
    with contextlib.ExitStack() as stack:
        rows = [*_appends(place, stack, options), *_catch_up(place, stack, options)]
        rows.append(_tail(place, stack, options))
        results = interleave(rows, options.rounds)
    listed = _list(place, options)
    tables = [
        Table("The sessions face beside the streams face", COLUMNS, results),
        Table(f"Listing by pages of {PAGE:,}", LISTING, listed),
    ]

    def of(name: str, what: str = "events_per_second") -> float | None:
        return figure(results, name, what)

    claims = [
        Claim(
            "sessions face ÷ streams face: appends",
            of(f"{SESSIONS_FACE}, appends"),
            of(f"{STREAMS_FACE}, appends"),
            0.7,
        ),
        Claim(
            "sessions face ÷ streams face: catch-up",
            of(f"{SESSIONS_FACE}, catch-up"),
            of(f"{STREAMS_FACE}, catch-up"),
            0.9,
        ),
        Claim("SSE on one session: % delivered", of("SSE", "delivered_percent"), 1, 100, unit=" %"),
        Claim(
            f"listing {options.scaled(SESSIONS, 2_000):,} sessions: just made ÷ after a restart",
            figure(listed, FRESH, "all_seconds"),
            figure(listed, RESTARTED, "all_seconds"),
            1.2,
            1,
            at_most=True,
        ),
    ]
    return Part("Sessions", tables, claims, list(NOTES))


def _appends(place: Place, stack: contextlib.ExitStack, options: Options) -> list[Row]:
    rows = []
    for name, prefix, suffix in (
        (STREAMS_FACE, load.PREFIX, ""),
        (SESSIONS_FACE, ROOT + "bench-", "/events"),
    ):
        server = stack.enter_context(ours(place, streams=STREAMS))
        rows.append(Row(f"{name}, appends", _append(server, prefix, suffix, options.seconds), server))
    return rows


def _append(server: Server, prefix: str, suffix: str, seconds: float) -> Callable[[], Figures]:
    return lambda: load.appends(
        server.url, connections=CONNECTIONS, seconds=seconds, streams=STREAMS, prefix=prefix, suffix=suffix
    )


def _catch_up(place: Place, stack: contextlib.ExitStack, options: Options) -> list[Row]:
    server = stack.enter_context(Server(place))
    events = agents.Agents().messages(catchup.EVENTS, catchup.EVENT_CHARACTERS)
    bodies = list(agents.batched(events, catchup.EVENTS_PER_REQUEST))
    feeding.send(server.url, (feeding.post(f"{ROOT}read/events", body) for body in bodies), lanes=1)

    def read(path: str, query: str) -> Callable[[], Figures]:
        turn = itertools.repeat(path)
        return lambda: catchup.timed_passes(server.url, turn, len(events), options.seconds, query=query)

    return [
        Row(f"{STREAMS_FACE}, catch-up", read("/v1/stream/sessions/read", ""), server),
        Row(f"{SESSIONS_FACE}, catch-up", read(f"{ROOT}read/events", f"limit={PAGE_EVENTS}&"), server),
    ]


def _tail(place: Place, stack: contextlib.ExitStack, options: Options) -> Row:
    server = stack.enter_context(Server(place))
    path = f"{ROOT}tail/events"
    feeding.send(server.url, [feeding.post(path, b'{"type":"first"}')])
    count = options.scaled(SUBSCRIBERS, 50)
    seconds = float(options.scaled(int(tailing.SECONDS), 2))
    return Row("SSE", lambda: tailing.measure(server, server.url, count, seconds, path), server)


def _list(place: Place, options: Options) -> list[Result]:
    """Make many sessions, and list all of them page by page: at once, and after they have left memory."""
    count = options.scaled(SESSIONS, 2_000)
    with Server(place) as server:
        paths = (f"{ROOT}listed-{number}/events" for number in range(count))
        feeding.send(server.url, (feeding.post(path, b'{"type":"first"}') for path in paths))
        fresh = Result(FRESH, [_pages(server.url, count)])
        server.flush()
        server.restart()
        return [fresh, Result(RESTARTED, [_pages(server.url, count)])]


def _pages(url: str, count: int) -> Figures:
    took: list[float] = []
    seen, page = 0, ""
    with Reader(url) as reader:
        while True:
            begin = time.perf_counter()
            _, length = reader.get(f"/v1/sessions?limit={PAGE}{page}")
            took.append(1000 * (time.perf_counter() - begin))
            answer = json.loads(reader.body(length))
            seen += len(answer["data"])
            if answer["next_page"] is None:
                break
            page = f"&page={answer['next_page']}"
    assert seen == count, f"{seen} of {count} sessions were listed"
    ordered = sorted(took)
    return {
        "sessions": seen,
        "all_seconds": sum(took) / 1000,
        "p50_ms": percentile(ordered, 0.5),
        "p99_ms": percentile(ordered, 0.99),
    }
