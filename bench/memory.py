"""Memory: what writing one costs beside a plain append, and reading beside a session's own routes."""

import json

from bench import feeding
from bench.figures import Row, interleave, say
from bench.graph import APPENDED, ASKED, CONNECTIONS, SESSIONS, appending, timed
from bench.options import Options
from bench.place import Place
from bench.report import Claim, Part, Table, figure
from bench.server import Server, ours
from bench.slots import Connection

ENTRIES = 10_000
PER_REQUEST = 250
WORD = "boundary"
PLAIN, WRITTEN = "plain", "ds.memory.written with one ref"
OBJECT, BY_KEY = "the session object", f"by key, in a scope of {ENTRIES:,}"
SEARCH, BY_WORDS = "search in a session", f"by words, in a scope of {ENTRIES:,}"


def run(place: Place, options: Options) -> Part:
    """Measure memory beside what it is made of."""
    with ours(place) as server:
        _prepare(server)
        say(f"filling a scope with {ENTRIES:,} entries")
        _fill(server)
        written = json.dumps(_written("project:written", "k", "x" * 150))
        appended = interleave(
            [
                Row(PLAIN, appending(server, "plain", options.seconds)),
                Row(WRITTEN, appending(server, "remembering", options.seconds, event=written)),
            ],
            options.rounds,
        )
        asked = interleave([_reading(server, *one, options.seconds) for one in _ASKED], options.rounds)
    results = [*appended, *asked]
    tables = [
        Table(f"Appends from {CONNECTIONS} connections to {SESSIONS} sessions", APPENDED, appended),
        Table("Requests one after the other", ASKED, asked),
    ]

    def rate(name: str) -> float | None:
        return figure(results, name, "events_per_second")

    def p50(name: str) -> float | None:
        return figure(results, name, "p50_ms")

    claims = [
        Claim("`ds.memory.written` with one ref ÷ plain", rate(WRITTEN), rate(PLAIN), 0.3, 0.5),
        Claim("memory by key ÷ the session object", p50(BY_KEY), p50(OBJECT), 3.0, 1.5, at_most=True),
        Claim("memory by words ÷ search in a session", p50(BY_WORDS), p50(SEARCH), 2.0, 1.2, at_most=True),
    ]
    return Part(
        "Memory", tables, claims, [f"Every tenth of {ENTRIES:,} entries has the word that is sought."]
    )


_ASKED = (
    (OBJECT, "/v1/sessions/filled"),
    (BY_KEY, f"/v1/memory?scope=project:read&key=key-{ENTRIES // 2}"),
    (SEARCH, f"/v1/sessions/filled/events?q={WORD}&limit=100"),
    (BY_WORDS, f"/v1/memory?scope=project:read&q={WORD}&limit=100"),
)


def _prepare(server: Server) -> None:
    """Make the sessions that write, each with the evidence that its memories name."""
    connection = Connection(server.url)
    for number in range(SESSIONS):
        evidence = {"type": "note", "id": "evidence"}
        connection.request("POST", f"/v1/sessions/remembering-{number}/events", evidence)


def _fill(server: Server) -> None:
    """Fill a scope, and with it the session that writes: both have the same texts."""
    connection = Connection(server.url)
    connection.request("POST", "/v1/sessions/filled/events", {"type": "note", "id": "evidence"})
    batches = (
        json.dumps({"events": [_entry(number) for number in range(first, first + PER_REQUEST)]})
        for first in range(0, ENTRIES, PER_REQUEST)
    )
    path = "/v1/sessions/filled/events"
    feeding.send(server.url, (feeding.post(path, batch.encode()) for batch in batches), lanes=1)
    connection.request("GET", f"/v1/memory?scope=project:read&q={WORD}")


def _entry(number: int) -> dict[str, object]:
    text = f"The test of part {number} fails at the {WORD if number % 10 == 0 else 'start'} of its range."
    return _written("project:read", f"key-{number}", text)


def _written(scope: str, key: str, value: str) -> dict[str, object]:
    return {
        "type": "ds.memory.written",
        "scope": scope,
        "key": key,
        "value": value,
        "why": "tool_result",
        "refs": [{"rel": "because", "id": "evidence"}],
    }


def _reading(server: Server, name: str, path: str, seconds: float) -> Row:
    def ask(connection: Connection, _number: int) -> None:
        connection.request("GET", path)

    return Row(name, timed(server, ask, seconds))
