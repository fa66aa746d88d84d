"""Two workers on one data directory: either answers for both."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from durable_sessions.errors import OverloadedError
from durable_sessions.http.carrier.message import Response, Waiting
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.node.link import NodeLink
from durable_sessions.node.link_answerer import LinkAnswerer
from durable_sessions.node.local_appends import LocalAppends
from durable_sessions.node.system_calls import boot_seconds
from durable_sessions.node.worker_group import WorkerGroup
from durable_sessions.node.worker_id import WorkerId
from durable_sessions.partition_id import SYSTEM
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import bearer, code_of, proof
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.support.wire import Connection

pytestmark = pytest.mark.anyio

CONFIRM_SECONDS = 30.0
"""Long, so that in a test nothing but a request has the keys confirmed again."""
LIMITS = replace(
    DEFAULT_LIMITS, link_hold_seconds_max=0.5, link_retry_seconds_max=0.1, key_confirm_seconds=CONFIRM_SECONDS
)
SESSIONS = [f"session-{number}" for number in range(8)]
Workers = list[LocalServer]


class Sleep:
    """The clock of the keys' proofs, which can be set forward: the machine has slept, or was too busy."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return boot_seconds() + self.seconds


@pytest.fixture
def sleep(monkeypatch: pytest.MonkeyPatch) -> Sleep:
    sleep = Sleep()
    monkeypatch.setattr("durable_sessions.node.group_member.boot_seconds", sleep.now)
    return sleep


@pytest.fixture
async def workers(sleep: Sleep, tmp_path: Path) -> AsyncIterator[Workers]:
    def group(number: int) -> WorkerGroup:
        return WorkerGroup(WorkerId(number, of=2), tmp_path, b"a secret that both of them share")

    data = tmp_path / "data"
    async with (
        local_server(data, partitions=2, group=group(0), limits=LIMITS) as zero,
        local_server(data, partitions=2, group=group(1), limits=LIMITS) as one,
    ):
        yield [zero, one]


def client_of(server: LocalServer) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS)


async def append(client: httpx2.AsyncClient, name: str, text: str) -> httpx2.Response:
    event = {"type": "user.message", "content": [{"type": "text", "text": text}]}
    return await client.post(f"/v1/sessions/{name}/events", json={"events": [event]})


async def test_a_session_is_written_and_read_through_either(workers: Workers) -> None:
    assert [set(worker.node.keepers) for worker in workers] == [{0, SYSTEM}, {1}]
    async with client_of(workers[0]) as zero, client_of(workers[1]) as one:
        for name in SESSIONS:
            for client in (zero, one):
                assert (await append(client, name, "a needle")).is_success
        for client in (zero, one):
            for name in SESSIONS:
                events = (await client.get(f"/v1/sessions/{name}/events")).json()["data"]
                assert len(events) == 2
            listed = (await client.get("/v1/sessions", params={"order": "asc"})).json()["data"]
            assert sorted(session["id"] for session in listed) == SESSIONS
            found = (await client.get("/v1/search", params={"q": "needle", "limit": 20})).json()
            assert sorted(group["session"]["id"] for group in found["data"]) == SESSIONS
            assert set((await client.get("/readyz")).json()["partitions"]) == {"00", "01", "sys"}
            metrics = (await client.get("/metrics")).text
            assert all(f'http_connections{{worker="{number}"}}' in metrics for number in (0, 1))
            assert 'keys_proof_age_seconds{worker="1"}' in metrics
            assert 'keys_proof_age_seconds{worker="0"}' not in metrics, "it keeps them"
        for client in (zero, one):
            for _ in range(5):
                created = (await client.post("/v1/sessions", json={})).json()["id"]
                assert (await zero.get(f"/v1/sessions/{created}")).status_code == 200
                assert (await one.get(f"/v1/sessions/{created}")).status_code == 200


async def test_a_live_reader_follows_a_session_of_another_worker(workers: Workers) -> None:
    async with client_of(workers[0]) as zero, client_of(workers[1]) as one:
        for name in SESSIONS:
            await zero.put(f"/v1/sessions/{name}", json={})
            for reader, writer in ((zero, one), (one, zero)):
                url = f"/v1/sessions/{name}/events/stream"
                async with reader.stream("GET", url, params={"offset": "now"}) as stream:
                    assert stream.status_code == 200
                    assert (await append(writer, name, f"live {name}")).is_success
                    async for line in stream.aiter_lines():
                        if line.startswith("data:") and f"live {name}" in line:
                            break
                    else:
                        raise AssertionError("the stream ended")


async def test_workers_that_slept_refuse_nobody_and_end_no_live_reader(
    workers: Workers, sleep: Sleep
) -> None:
    async with client_of(workers[0]) as zero, client_of(workers[1]) as one:
        token = proof(workers[0].node.process.settings.data)
        made = await one.post("/v1/keys", json={"principal": "ann", "role": "admin"}, headers=token)
        assert made.json()["everywhere"]
        for client in (zero, one):
            client.headers["x-api-key"] = made.json()["secret"]
        async with one.stream("GET", "/v1/sessions?live=sse") as live:
            told = live.aiter_lines()
            for name in SESSIONS:
                sleep.seconds += 1_000
                answers = await asyncio.gather(
                    append(one, name, "x" * 200_000),  # of which the head arrives before the rest
                    *(append(client, name, "after sleep") for client in (zero, one) for _ in range(4)),
                )
                assert [answer.status_code for answer in answers] == [204] * 9
                async for line in told:
                    if f'"{name}"' in line:
                        break
                else:
                    raise AssertionError("the live list has ended")
        sleep.seconds += 1_000
        unknown = await one.get("/v1/sessions", headers={"x-api-key": "unknown"})
        assert (unknown.status_code, code_of(unknown)) == (401, "authentication_error")


async def test_a_worker_without_the_one_that_keeps_the_keys_refuses_when_its_proof_has_ended(
    workers: Workers, sleep: Sleep
) -> None:
    async with client_of(workers[0]) as zero, client_of(workers[1]) as one:
        for name in SESSIONS:
            assert (await append(zero, name, "before")).is_success
        await workers[0].stop()
        try:
            mine = _names(workers[1])[0]
            assert (await append(one, mine, "the proof holds for a while")).is_success
            sleep.seconds += DEFAULT_LIMITS.key_proof_seconds
            for _ in range(3):
                refused = await append(one, mine, "and has ended now")
                assert (refused.status_code, code_of(refused)) == (503, "keys_unproven")
        finally:
            await workers[0].start()

        async def is_taken() -> bool:
            return (await append(one, mine, "after")).is_success

        await until(is_taken)


async def test_what_a_stopped_worker_has_is_unavailable_and_the_rest_is_served(workers: Workers) -> None:
    async with client_of(workers[0]) as zero, client_of(workers[1]) as one:
        for name in SESSIONS:
            assert (await append(zero, name, "before")).is_success
        homes = {name: 1 if name in [*_names(workers[1])] else 0 for name in SESSIONS}
        assert set(homes.values()) == {0, 1}
        await workers[1].stop()
        try:
            for name, home in homes.items():
                answer = await append(zero, name, "while it is away")
                if home == 0:
                    assert answer.is_success
                else:
                    assert answer.status_code == 503
                    assert code_of(answer) == "partition_unavailable"
                    break
            assert (await zero.get("/v1/sessions")).status_code == 503, "never a shorter list"
            assert (await zero.get("/readyz")).status_code == 503
        finally:
            await workers[1].start()
        for name in SESSIONS:
            assert (await append(zero, name, "after")).is_success
            assert (await one.get(f"/v1/sessions/{name}")).status_code == 200


async def test_an_append_whose_answer_was_lost_with_the_link_is_stored_once(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream does not know an Idempotency-Key, so that such an append must not be sent again."""
    name = next(f"once-{n}" for n in range(99) if home_partition("default", f"once-{n}", 2) == 1)
    answer, lost = LinkAnswerer._answer, list[Response]()

    def cut(link: LinkAnswerer, stream: int, audience: int, response: Response) -> None:
        if b"Stream-Next-Offset" in dict(response.headers) and not lost:
            lost.append(response)
            link.close()
        else:
            answer(link, stream, audience, response)

    # A connection that is about to close does not move, so that its request is forwarded.
    headers = {"Content-Type": "text/plain", "Idempotency-Key": "k", "Connection": "close"}
    producer = {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"}
    async with client_of(workers[0]) as zero:
        assert (await zero.put(f"/v1/stream/{name}", headers=headers)).status_code == 201
        monkeypatch.setattr(LinkAnswerer, "_answer", cut)
        told = await zero.post(f"/v1/stream/{name}", headers=headers, content=b"x")
        assert (told.status_code, code_of(told)) == (503, "outcome_unknown")
        assert len(lost) == 1, "the owner has stored it"
        assert (await zero.get(f"/v1/stream/{name}?offset=-1", headers=headers)).text == "x"
        lost.clear()
        told = await zero.post(f"/v1/stream/{name}", headers=headers | producer, content=b"y")
        assert told.status_code == 204, "it was sent again, and the owner knew it"
        assert len(lost) == 1
        assert (await zero.get(f"/v1/stream/{name}?offset=-1", headers=headers)).text == "xy"


async def test_a_link_with_too_many_requests_sheds_load(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> "asyncio.Future[object]":
        refused: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        refused.set_exception(OverloadedError(what="requests on one link"))
        return refused

    async with client_of(workers[0]) as zero:
        for name in SESSIONS:
            assert (await append(zero, name, "before")).is_success
    monkeypatch.setattr(NodeLink, "ask", full)
    async with client_of(workers[0]) as zero:
        for name in SESSIONS:
            # A connection that is about to close does not move, so that its request is forwarded.
            shown = await zero.get(f"/v1/sessions/{name}", headers={"Connection": "close"})
            assert shown.status_code == 200 if name in _names(workers[0]) else code_of(shown) == "overloaded"
    monkeypatch.undo()


def _names(worker: LocalServer) -> list[str]:
    streams = worker.node.engine.partition._state.streams
    return [key.path.removeprefix("sessions/") for key in streams if key.path.startswith("sessions/")]


async def test_a_fork_is_found_by_a_connection_that_moves(tmp_path: Path) -> None:
    """A router remembers where a fork lives, and shows that to the partition, not to another router."""
    text = {"Content-Type": "text/plain"}
    async with local_server(tmp_path / "data", workers=2) as server:
        for number in range(24):
            source, fork = f"/v1/stream/source-{number}", f"/v1/stream/fork-{number}"
            async with client_of(server) as client:
                assert (await client.put(source, headers=text, content=b"one,")).status_code == 201
            async with client_of(server) as client:  # of either worker, which knows after the first request
                forked = await client.put(fork, headers={**text, "Stream-Forked-From": source})
                assert forked.status_code == 201
                assert (await client.post(fork, headers=text, content=b"two")).status_code == 204
                assert (await client.get(fork, params={"offset": "-1"})).text == "one,two"
        assert sum(node.server.handed_over_total for node in server.nodes) > 0


async def test_either_takes_plain_appends_of_its_own_partitions_by_the_keys_of_both(
    workers: Workers, sleep: Sleep, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[tuple[bytes, bool]] = []
    take = LocalAppends.take

    def noted(face: LocalAppends, common: object, target: bytes, body: bytes, waiting: Waiting) -> bool:
        taken.append((target, take(face, common, target, body, waiting)))
        return taken[-1][1]

    monkeypatch.setattr(LocalAppends, "take", noted)
    token = proof(workers[0].node.process.settings.data)
    async with client_of(workers[0]) as zero:
        made = (await zero.post("/v1/keys", json={"principal": "ann", "role": "admin"}, headers=token)).json()
    headers = {"Content-Type": "text/plain", **bearer(made["secret"])}
    names = [f"/v1/stream/plain-{number}" for number in range(4)]
    by_worker = [[name for name in names if home_partition("default", name[11:], 2) == own] for own in (0, 1)]
    assert all(by_worker)
    connections = [Connection(worker.node.server.port, PATIENCE_SECONDS) for worker in workers]
    for connection, own in zip(connections, by_worker, strict=True):
        for name in own:
            assert (await connection.request("PUT", name, headers)).status == 201
            for _ in range(3):
                assert (await connection.request("POST", name, headers, b"x")).status == 204
        assert taken[-1] == (own[-1].encode(), True)
    sleep.seconds += LIMITS.key_proof_seconds + 1
    assert (await connections[1].request("POST", by_worker[1][0], headers, b"x")).status == 204
    assert [one for _, one in taken[-1:]] == [False], "the keys have to be confirmed first, and were"
    assert (await connections[1].request("POST", by_worker[1][0], headers, b"x")).status == 204
    assert taken[-1] == (by_worker[1][0].encode(), True)
    # An append for the other worker is not taken: the connection goes there.
    forwarded = workers[1].node.process.health.forwarded
    assert (await connections[0].request("POST", by_worker[1][0], headers, b"x")).status == 204
    assert (by_worker[1][0].encode(), False) in taken[-2:]
    # As it has just moved, it stays, and what is for the first worker is passed on.
    assert (await connections[0].request("POST", by_worker[1][0], headers, b"x")).status == 204
    before = forwarded()
    assert (await connections[0].request("POST", by_worker[0][0], headers, b"y")).status == 204
    assert taken[-1] == (by_worker[0][0].encode(), True)
    answer = await connections[0].request("POST", "/v1/stream/nothing-here", headers, b"y")
    assert (answer.status, answer.json()["error"]["code"]) == (404, "stream_not_found")
    assert forwarded() > before
    read = await connections[1].request("GET", f"{by_worker[0][0]}?offset=-1", headers)
    assert read.body == b"xxxy"
    async with client_of(workers[0]) as zero:
        gone = await zero.delete(f"/v1/keys/{made['id']}", headers=headers)
        assert gone.status_code == 200
    for connection in connections:
        assert (await connection.request("POST", by_worker[1][0], headers, b"x")).status == 401
        connection.close()
