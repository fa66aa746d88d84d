"""Search: how fast, how fresh, how large and how good, beside SQLite FTS5 with the same words."""

import contextlib
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec
import tantivy

from bench import agents, calls, feeding, load, quality
from bench.figures import Figures, Result, Row, interleave, percentile, say
from bench.fts5 import Fts5
from bench.options import Options
from bench.pacing import paced
from bench.place import Place
from bench.process import memory_mib
from bench.reading import Reader
from bench.report import Claim, Column, Part, Table, figure
from bench.server import Server
from bench.transcripts import EVENTS_PER_PIECE, LONG, LONG_EVENTS, SESSIONS, Transcripts
from bench.writing import Writer
from durable_sessions.search.index import View
from durable_sessions.search.query import parse
from durable_sessions.search.scope import POSITION_MAX, Scope
from durable_sessions.search.text import searchable

ROOT = "/v1/sessions/"
WORKSPACE = "default"
LIMIT = 10
QUESTIONS = 100
"""Different ones of each kind; whoever is slow is asked fewer, but the same ones first."""
ASK_SECONDS = 0.8
WARM_QUESTIONS = 1
WORDS = 4
PHRASE_WORDS = 3
APPENDS_PER_SECOND = 1_000
PROBES_PER_SECOND = 20
BUILD_SECONDS_MAX = 300.0
SETTLE_SECONDS_MAX = 15
P50_MUST, P50_AIM = 0.1, 0.033
RARE_MS_MUST, RARE_MS_AIM = 3, 1.5
BESIDE_MUST, BESIDE_AIM = 5, 2
BESIDE_CONNECTIONS = 64
APPENDING_SECONDS = 0.5
"""How long appends run at full speed before the searches beside them are timed."""

RARE, COMMON, VERY_COMMON = "a rare word", f"{WORDS} common words", f"{WORDS} very common words"
PHRASE = f"a phrase of {PHRASE_WORDS} words"
HTTP, BARE, COUNTED, UNCOUNTED = "ours over HTTP", "ours, the bare index", "FTS5", "FTS5 without the count"
JOINED = "FTS5 without the count, session by join"

ASKED = (
    Column("p50 ms", "p50_ms", "{:.2f}".format),
    Column("p99 ms", "p99_ms", "{:.2f}".format),
    Column("events that match", "matching"),
    Column("questions asked per round", "asked"),
)
FRESH = (
    Column("p50 ms", "p50_ms", "{:.2f}".format),
    Column("p99 ms", "p99_ms", "{:.2f}".format),
    Column("worst ms", "max_ms", "{:.1f}".format),
    Column("searches", "searches"),
    Column("did not find it", "missed"),
    Column("appends/s meanwhile", "appends_per_second"),
    Column("append p50 ms", "append_p50_ms", "{:.2f}".format),
    Column("append p99 ms", "append_p99_ms", "{:.2f}".format),
)
BESIDE = (
    Column("p50 ms", "p50_ms", "{:.2f}".format),
    Column("p99 ms", "p99_ms", "{:.2f}".format),
    Column("searches", "asked"),
    Column("appends/s meanwhile", "appends_per_second"),
    Column("append p99 ms", "append_p99_ms", "{:.2f}".format),
)
BUILT = (
    Column("events/s", "events_per_second"),
    Column("seconds", "seconds", "{:.1f}".format),
    Column("index bytes per event", "bytes_per_event"),
    Column("index bytes per payload byte", "bytes_per_payload_byte", "{:.2f}".format),
)
MEMORY = (
    Column("resident MiB", "resident_mib"),
    Column("of it its own, not the index's files, MiB", "own_mib"),
    Column("most resident MiB", "most_mib"),
)
NOTES = (
    "Both index the same words: text is taken apart by our own rules before it is given to FTS5 "
    "(`unicode61`, contentless, `optimize`d to one segment, 512 MiB of cache, memory-mapped). Its rowids are "
    "laid out by session, so that a search in a session is one in a range of rowids: the fastest shape we "
    "have found, faster than a column for the session that is matched too. By join is how it is asked "
    "otherwise.",
    "An event says 28 words on average. A common word is in 1 % to 10 % of all events, a very common one in "
    "5 % to 26 %, a rare one in about one of 15,000.",
    f"Both return the {LIMIT} best by BM25 for any of the words, and how many match: FTS5 by a second query, "
    "which the rows without the count leave out. Over HTTP ours also reads the events and makes a snippet of "
    "each; most have left memory by then and come from the bucket, up to a millisecond each. Across all "
    "sessions it groups by session and counts those too.",
    "The bare index is read by the process that measures, as FTS5 is, so that the target compares one index "
    "with the other; what HTTP, reading the events and snippets add to it is in the row next to it. Files "
    "are in the page cache.",
    "Freshness is from the acknowledgement of an append to the answer of the first search for a word that no "
    "other event has, on the same machine as everything else.",
    "Ours is built by `POST /v1/admin/reindex`: from the log, with parsing the events, until a search has "
    "seen all. For FTS5 only splitting words, inserting (a transaction per session) and `optimize` count.",
)


def run(place: Place, options: Options) -> Part:
    """Fill both, then ask them in turn."""
    part = Part("Search", notes=list(NOTES))
    transcripts = Transcripts(options.scaled(SESSIONS, SESSIONS // 50), options.scaled(LONG_EVENTS, 1_000))
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Server(place))
        fts5 = stack.enter_context(contextlib.closing(Fts5(place.fresh("fts5"))))
        _build(server, fts5, transcripts, part)
        _ask(server, fts5, transcripts, options, part)
        _freshness(server, transcripts, options, part)
        _beside_appends(server, transcripts, options, part)
        pid = server.child("durable_sessions.search.worker")
        fields = {"resident_mib": "VmRSS", "own_mib": "RssAnon", "most_mib": "VmHWM"}
        memory = {name: memory_mib(pid, field) for name, field in fields.items()}
        part.tables.append(
            Table("Memory at the end", MEMORY, [Result("the process that searches", [memory])])
        )
    part.tables.append(quality.measure()[0])
    return part


# Building -----------------------------------------------------------------------------------


def _build(server: Server, fts5: Fts5, transcripts: Transcripts, part: Part) -> None:
    bodies: dict[tuple[str, int], bytes] = {}

    def requests() -> Iterator[bytes]:
        for name, number in transcripts.in_turn():
            (body,) = agents.batched(transcripts.piece(name, number), EVENTS_PER_PIECE)
            bodies[name, number] = body
            yield feeding.post(f"{ROOT}{name}/events", body)

    took = feeding.send(server.url, requests())
    payload = sum(map(len, bodies.values()))
    say(f"{transcripts.events:,} events, {payload / 1e6:,.0f} MB, made and appended in {took:.0f} s")

    def built(seconds: float, size: int) -> Figures:
        figures = {
            "events_per_second": transcripts.events / seconds,
            "seconds": seconds,
            "bytes_per_event": size / transcripts.events,
            "bytes_per_payload_byte": size / payload,
        }
        say(f"built: {figures}")
        return figures

    seconds = _reindex(server)
    ours = built(seconds, _settled_size(server.data / "search"))
    server.pause()
    theirs = built(*_build_fts5(fts5, transcripts, bodies))
    server.resume()
    results = [Result("ours", [ours]), Result("FTS5", [theirs])]
    part.tables.append(Table(f"Building the index of {transcripts.events:,} events", BUILT, results))
    for what, name, must, aim in (
        ("events indexed per second", "events_per_second", 1, 2),
        ("bytes of the index", "bytes_per_event", None, None),
    ):
        part.claims.append(Claim(f"{what}: ours ÷ FTS5", ours[name], theirs[name], must, aim))


def _reindex(server: Server) -> float:
    """Return after how many seconds a new index has all events."""
    begin = time.perf_counter()
    status, _, body = calls.request("POST", server.url + "/v1/admin/reindex")
    assert status < 300, body
    while _state(server) != "ready":
        assert time.perf_counter() - begin < BUILD_SECONDS_MAX, "the index takes too long to build"
        time.sleep(0.05)
    answer = json.loads(calls.request("GET", f"{server.url}/v1/search?q=everything")[2])
    assert answer["up_to_date"], answer
    return time.perf_counter() - begin


def _state(server: Server) -> str:
    said = json.loads(calls.request("GET", server.url + "/readyz")[2])
    return str(said["search"]["state"])


def _settled_size(folder: Path) -> int:
    """Return the size of what is in a folder when merges have ended, or after some time."""
    sizes = [-1, _size(folder)]
    while sizes[-1] != sizes[-2] and len(sizes) < SETTLE_SECONDS_MAX:
        time.sleep(1)
        sizes.append(_size(folder))
    return sizes[-1]


def _size(folder: Path) -> int:
    size = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a merge has just removed it
            size += file.stat().st_size if file.is_file() else 0
    return size


def _build_fts5(
    fts5: Fts5, transcripts: Transcripts, bodies: dict[tuple[str, int], bytes]
) -> tuple[float, int]:
    """Add all sessions, and return the seconds that it took, and the size of the file."""
    seconds = 0.0
    for name in transcripts.names:
        texts = [
            searchable(event).text
            for number in range(transcripts.pieces(name))
            for event in msgspec.json.decode(bodies.pop((name, number)), type=list[msgspec.Raw])
        ]
        begin = time.perf_counter()
        fts5.add(name, texts)
        seconds += time.perf_counter() - begin
    begin = time.perf_counter()
    size = fts5.finish()
    seconds += time.perf_counter() - begin
    fts5.add_places()
    return seconds, size


# Asking -------------------------------------------------------------------------------------

Ask = Callable[[str], int]
"""Asks one question and returns how many events match, 0 if nobody has counted."""


def _ask(server: Server, fts5: Fts5, transcripts: Transcripts, options: Options, part: Part) -> None:
    chance = random.Random("questions")
    makers: dict[str, Callable[[], str]] = {
        RARE: lambda: transcripts.rare(chance),
        COMMON: lambda: transcripts.common(chance, WORDS),
        VERY_COMMON: lambda: transcripts.very_common(chance, WORDS),
        PHRASE: lambda: f'"{transcripts.phrase(chance, PHRASE_WORDS)}"',
    }
    questions = {kind: [make() for _ in range(QUESTIONS)] for kind, make in makers.items()}
    scopes = {f"in a session of {transcripts.length(LONG):,}": LONG, f"in all {transcripts.events:,}": None}
    view = _view(server.data / "search" / WORKSPACE)
    stream = _stream(view, transcripts)
    seconds = options.scaled(int(ASK_SECONDS * 1000), 200) / 1000
    with Reader(server.url) as reader:
        rows = []
        for kind, asked in questions.items():
            for where, session in scopes.items():
                askers = {
                    HTTP: _over_http(reader, session),
                    BARE: _bare(view, None if session is None else stream),
                    COUNTED: _fts5(fts5, session, counted=True),
                    UNCOUNTED: _fts5(fts5, session, counted=False),
                }
                if session is not None and kind == COMMON:
                    askers[JOINED] = _joined(fts5, session)
                rows += [
                    Row(
                        f"{kind} {where}: {name}",
                        _timed(ask, asked, seconds),
                        server if name == HTTP else None,
                    )
                    for name, ask in askers.items()
                ]
        results = interleave(rows, options.rounds)
        server.resume()
    part.tables.append(Table(f"The {LIMIT} best events, one search at a time", ASKED, results))
    for kind in (COMMON, VERY_COMMON, RARE, PHRASE):
        for where, session in scopes.items():
            is_target = kind == COMMON and session is not None
            ours, theirs = (figure(results, f"{kind} {where}: {name}", "p50_ms") for name in (HTTP, COUNTED))
            must, aim = (P50_MUST, P50_AIM) if is_target else (None, None)
            what = f"search for {kind} {where}, p50"
            bare = figure(results, f"{kind} {where}: {BARE}", "p50_ms")
            part.claims.append(Claim(f"{what}: {BARE} ÷ {COUNTED}", bare, theirs, must, aim, at_most=True))
            part.claims.append(Claim(f"{what}: {HTTP} ÷ {COUNTED}", ours, theirs))
            if kind == RARE and session is None:
                limits = (RARE_MS_MUST, RARE_MS_AIM)
                part.claims.append(Claim(f"{what}: {HTTP}", ours, 1, *limits, at_most=True, unit=" ms"))


def _view(folder: Path) -> View:
    """Look at the index from outside, without the lock of who writes to it."""
    index = tantivy.Index.open(str(folder))
    index.config_reader("Manual")
    index.reload()
    return View(index.searcher(), index.schema)


def _stream(view: View, transcripts: Transcripts) -> int:
    """Return the number of the long session's stream: the one with the most of a common word."""
    word = transcripts.common(random.Random(0), 1)
    hits = view.search(parse(word), Scope(), 1_000).hits
    streams = [hit.stream for hit in hits]
    return max(set(streams), key=streams.count)


def _over_http(reader: Reader, session: str | None) -> Ask:
    if session is None:
        target = f"/v1/search?limit={LIMIT}&hits=1&q="
    else:
        target = f"{ROOT}{session}/events?limit={LIMIT}&q="

    def ask(question: str) -> int:
        _, length = reader.get(target + quote(question))
        return int(reader.body(length).rpartition(b'"total_hits":')[2].partition(b",")[0])

    return ask


def _bare(view: View, stream: int | None) -> Ask:
    scope = Scope() if stream is None else Scope(chain=((stream, 0, POSITION_MAX),))
    return lambda question: view.search(parse(question), scope, LIMIT).total


def _fts5(fts5: Fts5, session: str | None, *, counted: bool) -> Ask:
    def ask(question: str) -> int:
        match = _any_word(question)
        fts5.search(match, session, LIMIT)
        return fts5.count(match, session) if counted else 0

    return ask


def _joined(fts5: Fts5, session: str) -> Ask:
    def ask(question: str) -> int:
        fts5.search_joined(_any_word(question), session, LIMIT)
        return 0

    return ask


def _any_word(question: str) -> str:
    return question if question.startswith('"') else question.replace(" ", " OR ")


def _timed(ask: Ask, questions: Sequence[str], seconds: float) -> Callable[[], Figures]:
    def measure() -> Figures:
        for question in questions[:WARM_QUESTIONS]:
            ask(question)
        took: list[float] = []
        matching: list[int] = []
        end = time.perf_counter() + seconds
        for question in questions:
            begin = time.perf_counter()
            matching.append(ask(question))
            took.append((time.perf_counter() - begin) * 1000)
            if time.perf_counter() > end:
                break
        figures = {"p50_ms": percentile(sorted(took), 0.5), "p99_ms": percentile(sorted(took), 0.99)}
        counted = {"matching": sum(matching) / len(matching)} if any(matching) else {}
        return {**figures, **counted, "asked": len(took)}

    return measure


# Freshness ----------------------------------------------------------------------------------


def _freshness(server: Server, transcripts: Transcripts, options: Options, part: Part) -> None:
    searches = {"in the session": f"{ROOT}{LONG}/events?q=", "in all sessions": "/v1/search?q="}
    others = len(transcripts.names) - 1
    results = []
    for where, target in searches.items():
        result = Result(where)
        for _ in range(options.rounds):
            with paced(server.url, APPENDS_PER_SECOND, f"{ROOT}s", others, "/events") as paced_writer:
                figures = _probe(server, target, options.seconds)
                result.rounds.append({**figures, **paced_writer()})
            say(f"fresh {where}: {result.rounds[-1]}")
        results.append(result)
    title = f"From an acknowledgement to the search that finds it, with {APPENDS_PER_SECOND:,} appends/s"
    part.tables.append(Table(title, FRESH, results))
    rounds = [figures for result in results for figures in result.rounds]
    found = 1 - sum(one["missed"] for one in rounds) / sum(one["searches"] for one in rounds)
    what = f"% of appended events that the next search finds, with {APPENDS_PER_SECOND:,} appends/s"
    part.claims.append(Claim(what, 100 * found, 1, 100, unit=" %"))


def _probe(server: Server, target: str, seconds: float) -> Figures:
    """Append an event with a word of its own at each tick, and search for it at once."""
    took: list[float] = []
    missed = 0
    with Writer(server.url) as writer, Reader(server.url) as reader:
        start = time.perf_counter()
        for number in range(int(seconds * PROBES_PER_SECOND)):
            time.sleep(max(0.0, start + number / PROBES_PER_SECOND - time.perf_counter()))
            word = f"fresh{time.time_ns()}"
            writer.post(f"{ROOT}{LONG}/events", b'{"type":"user.message","content":"%b"}' % word.encode())
            begin = time.perf_counter()
            _, length = reader.get(target + word)
            took.append((time.perf_counter() - begin) * 1000)
            missed += json.loads(reader.body(length))["total_hits"] != 1
    ordered = sorted(took)
    return {
        "p50_ms": percentile(ordered, 0.5),
        "p99_ms": percentile(ordered, 0.99),
        "max_ms": ordered[-1],
        "searches": len(took),
        "missed": missed,
    }


# Beside appends -----------------------------------------------------------------------------


def _beside_appends(server: Server, transcripts: Transcripts, options: Options, part: Part) -> None:
    """Search all sessions alone, and while 64 connections append to sessions as fast as they can."""
    chance = random.Random("beside appends")
    questions = [transcripts.common(chance, WORDS) for _ in range(QUESTIONS)]
    alone, beside = Result("nothing else"), Result(f"appends from {BESIDE_CONNECTIONS} connections")
    with Reader(server.url) as reader:
        ask = _over_http(reader, None)
        for number in range(options.rounds):
            alone.rounds.append(_timed(ask, _turned(questions, number), options.seconds)())
            with _appending(server, transcripts, options.seconds) as appended:
                figures = _timed(ask, _turned(questions, number), options.seconds)()
            beside.rounds.append({**figures, **appended})
            say(f"beside appends: {beside.rounds[-1]}, alone: {alone.rounds[-1]}")
            ask(questions[0])  # waits until the index has what was appended
    part.tables.append(Table(f"{COMMON} in all sessions, beside appends", BESIDE, [alone, beside]))
    what = "search beside appends at full speed, p99 ÷ without them"
    theirs = alone.median("p99_ms")
    claim = Claim(what, beside.median("p99_ms"), theirs, BESIDE_MUST, BESIDE_AIM, at_most=True)
    part.claims.append(claim)


def _turned(questions: Sequence[str], number: int) -> list[str]:
    """Return the questions in another order for each round, the same for both rows."""
    at = number * len(questions) // 3 % len(questions)
    return [*questions[at:], *questions[:at]]


@contextlib.contextmanager
def _appending(server: Server, transcripts: Transcripts, seconds: float) -> Iterator[dict[str, float]]:
    """Append at full speed for a little longer than the block needs, and then say how it went."""
    said: dict[str, float] = {}

    def run() -> None:
        figures = load.appends(
            server.url,
            connections=BESIDE_CONNECTIONS,
            seconds=seconds + 2 * APPENDING_SECONDS,
            streams=len(transcripts.names) - 1,
            prefix=f"{ROOT}s",
            suffix="/events",
        )
        said["appends_per_second"] = figures["events_per_second"]
        said["append_p99_ms"] = figures["p99_ms"]

    thread = threading.Thread(target=run)
    thread.start()
    try:
        time.sleep(APPENDING_SECONDS)
        yield said
    finally:
        thread.join()
