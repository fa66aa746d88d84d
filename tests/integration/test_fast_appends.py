"""Appends that are taken past the parser and the handlers: answered as if they were not."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from durable_sessions.http.carrier.message import Waiting
from durable_sessions.node.local_appends import LocalAppends
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.streams.stream import Key
from durable_sessions.testing.disk import FaultyDisk
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import BOOTSTRAP, bearer, make_key
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.wire import Answer, Connection

pytestmark = pytest.mark.anyio

TEXT, JSON = {"Content-Type": "text/plain"}, {"Content-Type": "application/json"}
HANDLED = {"X-Meaningless": "to the server"}
"""A header that the fast path does not know: such a request is handled in full."""


class Taken:
    """Notes which requests the fast path was given, and whether it took them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[bool] = []
        take = LocalAppends.take

        def noted(face: LocalAppends, common: object, target: bytes, body: bytes, waiting: Waiting) -> bool:
            self.said.append(take(face, common, target, body, waiting))
            return self.said[-1]

        monkeypatch.setattr(LocalAppends, "take", noted)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Taken:
    return Taken(monkeypatch)


@pytest.fixture(params=[1, 3], ids=["one partition", "three partitions"])
async def server(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LocalServer]:
    async with local_server(tmp_path / "data", partitions=request.param) as running:
        yield running


def counted(server: LocalServer) -> tuple[int, int, int, int]:
    """Return appends, records, their bytes, and pending bytes of all partitions."""
    found = [keeper.engine.partition.counts() for keeper in server.node.keepers.values()]
    return (
        sum(one.appends for one in found),
        sum(one.records for one in found),
        sum(one.append_bytes for one in found),
        sum(one.pending_bytes for one in found),
    )


async def appended(connection: Connection, target: str, headers: dict[str, str], body: bytes) -> Answer:
    return await connection.request("POST", target, headers, body)


class Connections(list[Connection]):
    """Connections that are closed after the test."""

    async def warmed(self, server: LocalServer, headers: dict[str, str]) -> Connection:
        """Return a connection whose last request had these headers; what it named is missing."""
        connection = Connection(server.node.server.port, PATIENCE_SECONDS)
        self.append(connection)
        await connection.request("POST", "/v1/stream/nothing-here", headers, b"x")
        return connection


@pytest.fixture
async def connections() -> AsyncIterator[Connections]:
    opened = Connections()
    yield opened
    for one in opened:
        one.close()


def comparable(answer: Answer) -> tuple[int, dict[str, str], bytes]:
    """Return an answer without what differs between any two."""
    differing = ("request-id", "date", "etag", "content-length", "session-incarnation")
    shown = {name: value for name, value in answer.headers.items() if name not in differing}
    life = answer.headers.get("session-incarnation", "-")
    body = answer.body.replace(answer.headers["request-id"].encode(), b"").replace(life.encode(), b"")
    return answer.status, {**shown, "has-life": str(life != "-")}, body.replace(b"full", b"fast")


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/plain", b"hello"),
        ("text/plain", b""),
        ("text/plain; charset=utf-8", b"hello"),
        ("application/octet-stream", bytes(range(256)) * 200),
        ("application/json", b'{"a": 1}'),
        ("application/json", b' {"a": [1, {"b": null}]} '),
        ("application/json", b'{"a": 1} x'),
        ("application/json", b'{"a": "\\ud800"}'),
        ("application/json", '{"a": "é"}'.encode()),
        ("application/json", b'{"a": "\xff"}'),
        ("application/json", b'[{"a": 1}, 2]'),
        ("application/json", b"[]"),
        ("application/json", b"3"),
        ("application/json", b"{"),
        ("application/json", b"{" * 2000),
        ("application/json", b'{"a":' * 200 + b"1" + b"}" * 200),
        ("application/json", b""),
    ],
)
async def test_a_stream_answers_alike(
    server: LocalServer, connections: Connections, taken: Taken, content_type: str, body: bytes
) -> None:
    headers = {"Content-Type": content_type}
    fast = await connections.warmed(server, headers)
    answers = []
    for path, sent in (("/v1/stream/fast", headers), ("/v1/stream/full", {**headers, **HANDLED})):
        for kind in ("text/plain", "application/octet-stream", "application/json"):
            await fast.request("PUT", f"{path}/{kind}", {"Content-Type": kind})
            first = await appended(fast, f"{path}/{kind}", sent, body)
            again = await appended(fast, f"{path}/{kind}", sent, body)
            read = await fast.request("GET", f"{path}/{kind}?offset=-1")
            answers.append([comparable(one) for one in (first, again, read)])
    assert answers[:3] == answers[3:]
    assert len(taken.said) == 6, "none of those with another header"


EVENTS = [
    b'{"type":"note"}',
    b'{"type":"agent.message","content":[{"type":"text","text":"hi"}]}',
    b'{"type":"user.message","content":[]}',
    b'{"type":"note","id":"mine"}',
    b'{"type":"note","created_at":"2026-11-15T12:00:00Z"}',
    b'{"type":"note","session_thread_id":"t"}',
    b'{"type":"note","slot":"s"}',
    b'{"type":"note","source":{"a":1}}',
    b'{"type":"note","type":"other"}',
    b'{"type":"note","original_id":"x"}',
    b'{"type":"session.updated"}',
    b'{"type":"session.status_running"}',
    b'{"type":"ds.fact","key":"a","value":"b"}',
    b'{"type":"ds.nothing"}',
    b'{"type":"user.define_outcome","description":"d"}',
    b'{"events":[{"type":"a"},{"type":"b"}]}',
    b'{"type":"note","events":[]}',
    b'[{"type":"a"}]',
    b'{"type":""}',
    b'{"type":1}',
    b'{"typ":"a"}',
    b' {"type":"note"} ',
    b'{"type":"note"',
    b"",
]


async def test_a_session_answers_alike(server: LocalServer, connections: Connections, taken: Taken) -> None:
    connection = await connections.warmed(server, JSON)
    for number, event in enumerate(EVENTS):
        answers = []
        for name, sent in (("fast", JSON), ("full", {**JSON, **HANDLED})):
            target = f"/v1/sessions/{name}-{number}/events"
            said = [await appended(connection, target, sent, event) for _ in range(3)]
            read = await connection.request("GET", target)
            stored = read.json().get("data", [])
            shown = [{key: value for key, value in one.items() if key not in CHANGING} for one in stored]
            answers.append(([comparable(one) for one in said], shown))
            assert all(
                one["id"].endswith(f"{at:010x}") or one["id"] == "mine" for at, one in enumerate(stored)
            )
        assert answers[0] == answers[1], event
    assert sum(taken.said) >= 4, "plain events were taken, from the second of a session on"
    assert not all(taken.said)


CHANGING = ("id", "created_at", "processed_at", "outcome_id")


async def test_a_closed_or_mortal_or_deleted_stream_answers_alike(
    server: LocalServer, connections: Connections, taken: Taken
) -> None:
    connection = await connections.warmed(server, TEXT)
    answers = []
    for name, sent in (("fast", TEXT), ("full", {**TEXT, **HANDLED})):
        said: list[object] = []
        await connection.request("PUT", f"/v1/stream/{name}-closed", {**TEXT, "Stream-Closed": "true"})
        await connection.request("PUT", f"/v1/stream/{name}-mortal", {**TEXT, "Stream-TTL": "3600"})
        await connection.request("PUT", f"/v1/stream/{name}-gone", TEXT)
        await connection.request("DELETE", f"/v1/stream/{name}-gone")
        for state in ("closed", "mortal", "gone", "missing", "__ds", "sessions/nothing"):
            answer = await appended(connection, f"/v1/stream/{name}-{state}", sent, b"x")
            status, headers, body = comparable(answer)
            said.append((status, headers, body.replace(b"fast-", b"")))
        answers.append(said)
    assert answers[0] == answers[1]
    assert taken.said == [False] * len(taken.said)
    assert len(taken.said) == 6


async def test_what_comes_together_is_answered_in_order(
    server: LocalServer, connections: Connections, taken: Taken
) -> None:
    connection = await connections.warmed(server, JSON)
    await connection.request("PUT", "/v1/stream/s", JSON)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.node.server.port)
    one = b"POST /v1/stream/s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    one += b"Content-Length: 7\r\n\r\n"
    for sent in (1, 1, 3, 1, 2):
        for number in range(sent):
            writer.write(one + b'{"a":%d}' % number)
            if number == 0 and sent == 2:
                await writer.drain()  # the second comes while the first is being made durable
        answers = [await reader.readuntil(b"\r\n\r\n") for _ in range(sent)]
        assert all(answer.startswith(b"HTTP/1.1 204 ") for answer in answers)
        tails = [int(answer.partition(b"Stream-Next-Offset: ")[2][17:33]) for answer in answers]
        assert tails == list(range(tails[0], tails[0] + sent))
    writer.close()
    assert any(taken.said)
    read = await connection.request("GET", "/v1/stream/s?offset=-1")
    assert len(read.json()) == 8


async def test_a_peer_that_leaves_loses_nothing(
    server: LocalServer, connections: Connections, taken: Taken
) -> None:
    connection = await connections.warmed(server, TEXT)
    await connection.request("PUT", "/v1/stream/s", TEXT)
    for _ in range(20):
        leaving = await connections.warmed(server, TEXT)
        sending = asyncio.create_task(appended(leaving, "/v1/stream/s", TEXT, b"x"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        leaving.close()
        await asyncio.gather(sending, return_exceptions=True)
    answer = await appended(connection, "/v1/stream/s", TEXT, b".")
    read = await connection.request("GET", "/v1/stream/s?offset=-1")
    assert answer.headers["stream-next-offset"].endswith(f"{len(read.body):016d}")
    assert read.body.endswith(b".")


async def test_a_failed_disk_is_answered_alike(
    tmp_path: Path, connections: Connections, taken: Taken
) -> None:
    answers = []
    for name, sent in (("fast", JSON), ("full", {**JSON, **HANDLED})):
        disk = FaultyDisk()
        async with local_server(tmp_path / name, disk=disk) as server:
            stream, session = await connections.warmed(server, JSON), await connections.warmed(server, JSON)
            await stream.request("PUT", "/v1/stream/s", JSON)
            for _ in range(2):
                await appended(session, "/v1/sessions/s/events", sent, b'{"type":"note"}')
            disk.fail("sync", 5)
            both = await asyncio.gather(
                appended(stream, "/v1/stream/s", sent, b"{}"),
                appended(session, "/v1/sessions/s/events", sent, b'{"type":"note"}'),
            )
            after = await appended(stream, "/v1/stream/s", sent, b"{}")
            answers.append([comparable(one) for one in (*both, after)])
            assert [one.status for one in (*both, after)] == [503] * 3
    assert [one[:2] for one in answers[0]] == [one[:2] for one in answers[1]]
    assert taken.said.count(True) >= 3


async def test_a_key_is_looked_at_for_every_request(
    tmp_path: Path, connections: Connections, taken: Taken
) -> None:
    async with local_server(tmp_path, api_key=BOOTSTRAP) as server:
        keys = {role: await make_key(server.url, role, "w") for role in ("reader", "writer")}
        writer = {**TEXT, **bearer(keys["writer"]["secret"])}
        connection = await connections.warmed(server, writer)
        await connection.request("PUT", "/v1/stream/s", writer)
        assert (await appended(connection, "/v1/stream/s", writer, b"x")).status == 204
        assert taken.said[-1:] == [True]
        reader = {**TEXT, **bearer(keys["reader"]["secret"])}
        other = await connections.warmed(server, reader)
        assert (await appended(other, "/v1/stream/s", reader, b"x")).status == 403
        removed = await connection.request("DELETE", f"/v1/keys/{keys['writer']['id']}", bearer(BOOTSTRAP))
        assert removed.status == 200
        assert (await appended(connection, "/v1/stream/s", writer, b"x")).status == 401
        limited = await make_key(server.url, "writer", "w", requests_per_second=1)
        spent = {**TEXT, **bearer(limited["secret"])}
        third = await connections.warmed(server, spent)
        said = [(await appended(third, "/v1/stream/s", spent, b"x")).status for _ in range(8)]
        assert 429 in said, "its rate counts every request"
        assert taken.said.count(True) == 1


async def test_the_first_key_ends_what_needed_none(
    tmp_path: Path, connections: Connections, taken: Taken
) -> None:
    async with local_server(tmp_path) as server:
        connection = await connections.warmed(server, TEXT)
        await connection.request("PUT", "/v1/stream/s", TEXT)
        assert (await appended(connection, "/v1/stream/s", TEXT, b"x")).status == 204
        assert taken.said[-1]
        server.node.keys.bootstrap("secret")
        assert (await appended(connection, "/v1/stream/s", TEXT, b"x")).status == 401
        assert not taken.said[-1]


async def test_a_subscription_quota_and_metrics_see_every_append(
    server: LocalServer, connections: Connections, taken: Taken
) -> None:
    connection = await connections.warmed(server, JSON)
    await connection.request("PUT", "/v1/stream/s", JSON)
    before = counted(server)
    answered = server.node.server.requests_by_class()["2xx"]
    for _ in range(5):
        await appended(connection, "/v1/stream/s", JSON, b'{"a":1}')
    after = counted(server)
    assert [now - then for now, then in zip(after, before, strict=True)] == [5, 5, 5 * len(b'{"a":1},'), 0]
    assert after[3] == 0
    assert server.node.server.requests_by_class()["2xx"] - answered == 5
    assert taken.said.count(True) == 5


async def test_a_fork_that_lives_with_its_source_is_handled(
    tmp_path: Path, connections: Connections, taken: Taken
) -> None:
    async with local_server(tmp_path, partitions=3) as server:
        connection = await connections.warmed(server, JSON)
        keepers = server.node.keepers
        await connection.request("PUT", "/v1/stream/source", JSON)
        assert (await appended(connection, "/v1/stream/source", JSON, b'{"a":0}')).status == 204
        forked = {**JSON, "Stream-Forked-From": "/v1/stream/source"}
        at_home, said = [], []
        for number in range(12):
            name = f"fork-{number}"
            assert (await connection.request("PUT", f"/v1/stream/{name}", forked)).status == 201
            assert (await appended(connection, f"/v1/stream/{name}", JSON, b'{"a":1}')).status == 204
            home = keepers[home_partition("default", name, 3)].engine.partition.tip
            at_home.append(Key("default", name) in home.streams)
            said.append(taken.said[-1])
            read = await connection.request("GET", f"/v1/stream/{name}?offset=-1")
            assert read.json() == [{"a": 0}, {"a": 1}]
        assert said == at_home
        assert {True, False} == set(at_home), "some live at home and some do not"
