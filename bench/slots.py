"""Slots: what it costs to take one, and to find an event by one among few and among many."""

import contextlib
import http.client
import json
import os
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from bench.figures import Figures, Result, Row, interleave, percentile
from bench.options import Options
from bench.place import Place
from bench.report import Claim, Column, Part, Table, figure
from bench.server import BEFORE, Server, ours

MATCHES = 10
BATCH = 1_000
COLUMNS = (
    Column("requests/s", "requests_per_second"),
    Column("p50 ms", "p50_ms", "{:.3f}".format),
    Column("p99 ms", "p99_ms", "{:.3f}".format),
)
_TEXT = "x" * 200


class Connection:
    """One connection that sends a request after the other."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc)

    def request(self, method: str, path: str, body: object = None) -> bytes:
        """Send a request, and return the body of the answer."""
        content = None if body is None else json.dumps(body).encode()
        return self._send(method, path, content, {"Content-Type": "application/json"})

    def fork(self, path: str, source: str) -> None:
        """Create a session as a fork of another, at its end."""
        self._send("PUT", path, None, {"Stream-Forked-From": source})

    def _send(self, method: str, path: str, content: bytes | None, headers: dict[str, str]) -> bytes:
        self._connection.request(method, path, content, headers)
        answer = self._connection.getresponse()
        data = answer.read()
        assert answer.status < 300, data
        return data


def run(place: Place, options: Options) -> Part:
    """Measure appends and reads in turn, on a session with few slots and on one with many."""
    many = options.scaled(1_000_000, 20_000)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(ours(place))
        _fill(server, "few", 100)
        _fill(server, "many", many)
        server.flush()
        rows = list(_rows(server, many, options.seconds))
        python = os.environ.get(BEFORE, "")
        if python:
            before = stack.enter_context(ours(place, python=python))
            rows.append(
                Row("append, plain, before", _timed(before, _append(plain=True), options.seconds), before)
            )
        results = interleave(rows, options.rounds)
    table = Table("Slots, one request after the other", COLUMNS, results)
    return Part("Slots", [table], _claims(results, many, python), [f"{many:,} slots in the large session."])


def _fill(server: Server, session: str, slots: int) -> None:
    """Let events hold so many slots, ten of which have a prefix of their own."""
    connection = Connection(server.url)
    names = [f"w/{number:07}" for number in range(slots - MATCHES)] + [f"m/{n}" for n in range(MATCHES)]
    for begin in range(0, len(names), BATCH):
        events = [
            {"type": "row", "id": f"id-{name}", "slot": name, "text": _TEXT}
            for name in names[begin : begin + BATCH]
        ]
        connection.request("POST", f"/v1/sessions/{session}/events", {"events": events})


def _append(*, plain: bool = False, slot: bool = False) -> Callable[[Connection, int], None]:
    def append(connection: Connection, number: int) -> None:
        event: dict[str, object] = {"type": "row", "text": _TEXT}
        if slot:
            event["slot"] = f"s/{number % 1_000}"
        elif not plain:
            event["id"] = f"event-{number}-{time.monotonic_ns()}"
        connection.request("POST", f"/v1/sessions/appended-{plain}-{slot}/events", event)

    return append


def _rows(server: Server, many: int, seconds: float) -> Iterator[Row]:
    def reading(path: str) -> Callable[[], Figures]:
        return _timed(server, lambda connection, _: _read(connection, path), seconds)

    yield Row("append, plain", _timed(server, _append(plain=True), seconds))
    yield Row("append with an id", _timed(server, _append(), seconds))
    yield Row("append with a slot", _timed(server, _append(slot=True), seconds))
    yield Row("one event by id", reading("/v1/sessions/few/events/id-m%2F3"))
    yield Row("one slot by name", reading("/v1/sessions/few/slots?slot=m/3"))
    yield Row("prefix of 10 in 100", reading("/v1/sessions/few/slots?prefix=m/"))
    yield Row(f"prefix of 10 in {many:,}", reading("/v1/sessions/many/slots?prefix=m/"))


def _read(connection: Connection, path: str) -> None:
    connection.request("GET", path)


def _timed(server: Server, act: Callable[[Connection, int], None], seconds: float) -> Callable[[], Figures]:
    def run_for_a_while() -> Figures:
        connection = Connection(server.url)
        taken: list[float] = []
        end = time.perf_counter() + seconds
        while (begin := time.perf_counter()) < end:
            act(connection, len(taken))
            taken.append(time.perf_counter() - begin)
        taken.sort()
        return {
            "requests_per_second": len(taken) / sum(taken),
            "p50_ms": 1_000 * percentile(taken, 0.5),
            "p99_ms": 1_000 * percentile(taken, 0.99),
        }

    return run_for_a_while


def _claims(results: list[Result], many: int, python: str) -> list[Claim]:
    def rate(name: str) -> float | None:
        return figure(results, name, "requests_per_second")

    def p50(name: str) -> float | None:
        return figure(results, name, "p50_ms")

    missing = "" if python else f"name the Python of the version before in {BEFORE}"
    few, large = p50("prefix of 10 in 100"), p50(f"prefix of 10 in {many:,}")
    by_id, by_slot = p50("one event by id"), p50("one slot by name")
    plain, before = rate("append, plain"), rate("append, plain, before")
    return [
        Claim(
            "append with a slot ÷ with an id", rate("append with a slot"), rate("append with an id"), 0.9, 1.0
        ),
        Claim("plain appends ÷ the version before", plain, before, 0.98, 1.0, skipped=missing),
        Claim("one slot by name ÷ one event by id", by_slot, by_id, 1.3, 1.1, at_most=True),
        Claim("prefix of 10 in many ÷ in 100", large, few, 1.5, 1.1, at_most=True),
    ]
