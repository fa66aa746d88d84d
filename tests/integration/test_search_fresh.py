"""What is acknowledged is found by the next search, and indexing never makes an append wait."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.search.feed import Feed
from durable_sessions.search.link import UNDER_WAY_BYTES_MAX
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.process import ServerProcess
from tests.support.searching import found, found_everywhere, grouped, positions, said
from tests.support.sessions import append, at
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

WRITERS = 8
WRITES = int(os.environ.get("SEARCH_WRITES", "40"))
"""How many writes of each writer are searched for at once; set it higher to look harder."""


@asynccontextmanager
async def client(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=url + "/v1", timeout=PATIENCE_SECONDS) as api:
        yield api


async def _search_for(api: httpx2.AsyncClient, session: str, word: str) -> None:
    here, everywhere = await asyncio.gather(found(api, session, word), found_everywhere(api, word))
    for answer in (here, everywhere):
        assert answer["up_to_date"] is True, (word, answer)
        assert answer["total_hits"] == 1, (word, answer)
    assert list(grouped(everywhere)) == [session]


async def _write_and_search(url: str, number: int) -> int:
    """Write and search for what was written, in sessions of one's own and in one that all share."""
    chance = random.Random(number)
    async with client(url) as api:
        for n in range(WRITES):
            word = f"w{number}x{n}"
            session = chance.choice((f"own{number}", "shared", f"new{number}n{n}"))
            await append(api, session, *[said("timeout")] * chance.randrange(3), said(f"{word} timeout"))
            await _search_for(api, session, word)
    return WRITES


async def _load(url: str, number: int) -> None:
    async with client(url) as api:
        while True:
            await append(api, f"load{number}", *[said("timeout gateway " * 5) for _ in range(50)])
            await asyncio.sleep(0.2)


async def test_what_is_acknowledged_is_found_by_the_next_search(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        load = [asyncio.create_task(_load(server.url, n)) for n in range(2)]
        try:
            done = await asyncio.gather(*[_write_and_search(server.url, n) for n in range(WRITERS)])
        finally:
            for task in load:
                task.cancel()
            await asyncio.gather(*load, return_exceptions=True)
        assert sum(done) == WRITERS * WRITES
        assert server.metric("searches_total") == 2 * WRITERS * WRITES


async def test_sessions_that_come_and_go_do_not_disturb_searches(server: LocalServer) -> None:
    """Searches of everything while sessions are made, forked, deleted: always an answer, never a ghost."""
    async with client(server.url) as api:
        await append(api, "stays", said("needle"))
        deleted: set[str] = set()

        async def churn(number: int) -> None:
            for n in range(25):
                name = f"c{number}n{n}"
                await append(api, name, said("needle"), said("needle"))
                headers = {"Stream-Forked-From": f"/v1/sessions/{name}", "Stream-Fork-Offset": at(1)}
                assert (await api.put(f"/sessions/{name}f", headers=headers)).status_code == 201
                for one in (name, f"{name}f"):
                    assert (await api.delete(f"/sessions/{one}")).status_code < 300
                    deleted.add(one)

        async def look() -> None:
            while len(deleted) < 200:
                before = set(deleted)
                answer = await found_everywhere(api, "needle", limit=100)
                assert answer["up_to_date"] is True
                assert not before & set(grouped(answer))
                assert "stays" in grouped(answer)

        await asyncio.gather(*[churn(n) for n in range(4)], look(), look())
        answer = await found_everywhere(api, "needle")
        assert grouped(answer) == {"stays": [0]}
        assert (answer["total_hits"], answer["total_sessions"]) == (1, 1)


# Sessions that expire -------------------------------------------------------------------


async def test_what_has_expired_is_not_found_nor_counted(tmp_path: Path) -> None:
    clock = ManualClock()
    async with local_server(tmp_path / "data", clock=clock) as server, client(server.url) as api:
        assert (await api.put("/sessions/short", headers={"Stream-TTL": "60"})).status_code == 201
        assert (await api.put("/sessions/source", headers={"Stream-TTL": "60"})).status_code == 201
        for name in ("short", "source", "long"):
            await append(api, name, said("needle"), said("needle"))
        headers = {
            "Stream-Forked-From": "/v1/sessions/source",
            "Stream-Fork-Offset": at(1),
            "Stream-TTL": "600",
        }
        assert (await api.put("/sessions/fork", headers=headers)).status_code == 201
        assert (await found_everywhere(api, "needle"))["total_hits"] == 6
        clock.advance(61)
        answer = await found_everywhere(api, "needle")
        assert grouped(answer) == {"long": [0, 1], "fork": [0]}
        assert (answer["total_hits"], answer["total_sessions"]) == (3, 2)
        assert (await api.get("/sessions/short/events", params={"q": "needle"})).status_code == 404
        assert positions(await found(api, "fork", "needle")) == [0]
        clock.advance(601)
        answer = await found_everywhere(api, "needle")
        assert grouped(answer) == {"long": [0, 1]}
        assert (answer["total_hits"], answer["total_sessions"]) == (2, 1)
        await server.restart()
        assert grouped(await found_everywhere(api, "needle")) == {"long": [0, 1]}


# A worker that does not work ------------------------------------------------------------

HASTY = replace(DEFAULT_LIMITS, search_wait_seconds_max=1.0, search_silence_seconds_max=600.0)


async def _until_up_to_date(api: httpx2.AsyncClient, q: str) -> dict[str, Any]:
    """Return what is found as soon as everything is."""
    for _ in range(60):
        answer = await api.get("/search", params={"q": q})
        if answer.status_code == 200 and answer.json()["up_to_date"]:
            break
        assert answer.status_code in (200, 503), answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def _worker(server: LocalServer) -> int:
    link = server.node.feed._link
    assert link is not None
    return link.pid


async def test_a_worker_that_stands_still_stops_nothing_else(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", limits=HASTY) as server, client(server.url) as api:
        await append(api, "s", said("needle first"))
        assert (await _until_up_to_date(api, "needle"))["total_hits"] == 1
        pid = _worker(server)
        os.kill(pid, signal.SIGSTOP)
        try:
            for n in range(150):
                await append(api, f"s{n % 10}", said(f"needle n{n} " + "x" * 60_000))
            feed = server.node.feed
            link = feed._link
            assert link is not None
            assert link._under_way <= UNDER_WAY_BYTES_MAX
            assert link._writer.transport.get_write_buffer_size() <= UNDER_WAY_BYTES_MAX + 100_000
            for path in ("/search", "/sessions/s3/events"):
                answer = await api.get(path, params={"q": "needle"})
                assert answer.status_code == 503, answer.text
                assert int(answer.headers["retry-after"]) > 0
                error = answer.json()["error"]
                assert error["details"]["error_code"] == "search_unavailable"
                assert "has not answered" in error["message"]
            ready = await api.get(server.url + "/readyz")
            assert (ready.status_code, ready.json()["status"]) == (200, "ready")
        finally:
            os.kill(pid, signal.SIGCONT)
        assert (await _until_up_to_date(api, "needle"))["total_hits"] == 151
        assert _worker(server) == pid


async def test_many_searches_of_a_worker_that_stands_still_are_refused(tmp_path: Path) -> None:
    """What waits to be asked is bounded too."""
    async with local_server(tmp_path / "data", limits=HASTY) as server, client(server.url) as api:
        await append(api, "s", said("needle"))
        await _until_up_to_date(api, "needle")
        pid = _worker(server)
        os.kill(pid, signal.SIGSTOP)
        try:
            q = " ".join(f"word{n}" for n in range(60))
            answers = await asyncio.gather(*[api.get("/search", params={"q": q}) for _ in range(300)])
            assert {answer.status_code for answer in answers} == {503}
            link = server.node.feed._link
            assert link is not None
            assert not link._asked
        finally:
            os.kill(pid, signal.SIGCONT)
        assert (await _until_up_to_date(api, "needle"))["total_hits"] == 1


def _hold(feed: Feed, held: int | None = None) -> asyncio.Event:
    """Keep a feed from sending the events of one session, or of all, until the returned event is set."""
    send, release = feed._sender._send_some, asyncio.Event()

    async def hold(stream: int) -> bool:
        if held in (None, stream):
            await release.wait()
        return await send(stream)

    feed._sender._send_some = hold  # type: ignore[method-assign]
    return release


async def test_a_search_that_cannot_wait_says_how_far_it_is(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", limits=HASTY) as server, client(server.url) as api:
        for name in ("s", "t"):
            await append(api, name, said("needle"))
        before = await _until_up_to_date(api, "needle")
        assert before["total_hits"] == 2
        number = server.node.engine.partition._published.folder("default", "sessions")[0]
        release = _hold(server.node.feed, number)
        await append(api, "s", said("needle late"))
        answer = await found(api, "s", "needle")
        assert (answer["up_to_date"], answer["indexed_through"], positions(answer)) == (False, at(1), [0])
        everywhere = await found_everywhere(api, "needle")
        assert (everywhere["up_to_date"], everywhere["total_hits"]) == (False, 2)
        assert before["indexed_through"] <= everywhere["indexed_through"]
        assert (await found(api, "t", "needle"))["up_to_date"] is True
        release.set()
        assert (await _until_up_to_date(api, "needle"))["total_hits"] == 3


async def test_an_index_that_is_being_built_says_so(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", limits=HASTY) as server, client(server.url) as api:
        for name in ("s", "t"):
            await append(api, name, said("needle"), said("needle"))
        assert (await _until_up_to_date(api, "needle"))["total_hits"] == 4
        feed = server.node.feed
        release = _hold(feed)
        assert (await api.post("/admin/reindex")).status_code == 202
        while not feed.compared:
            await asyncio.sleep(0.01)
        answer = await found(api, "s", "needle")
        assert (answer["up_to_date"], answer["indexed_through"], answer["data"]) == (False, at(0), [])
        everywhere = await found_everywhere(api, "needle")
        assert (everywhere["up_to_date"], everywhere["indexed_through"]) == (False, None)
        ready = (await api.get(server.url + "/readyz")).json()
        assert ready["search"] == {"state": "building", "events": 4, "events_left": 4}
        metrics = (await api.get(server.url + "/metrics")).text
        assert "durable_sessions_search_building 1.0" in metrics
        assert "durable_sessions_search_events_lacking 4.0" in metrics
        await append(api, "s", said("needle late"))
        release.set()
        assert (await _until_up_to_date(api, "needle"))["total_hits"] == 5
        ready = (await api.get(server.url + "/readyz")).json()
        assert ready["search"] == {"state": "ready"}


async def test_a_worker_that_cannot_start_is_said_and_tried_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "search").write_text("in the way")
    async with local_server(data, limits=HASTY) as server, client(server.url) as api:
        for n in range(200):
            await append(api, f"s{n % 7}", said(f"needle n{n}"))
        feed = server.node.feed
        while not feed.failure:
            assert (await api.get("/search", params={"q": "needle"})).status_code == 503
        answer = await api.get("/sessions/s0/events", params={"q": "needle"})
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        message = answer.json()["error"]["message"]
        assert "the search directory cannot be used" in message
        assert str(data) not in message
        ready = await api.get(server.url + "/readyz")
        assert ready.status_code == 200
        assert ready.json()["search"]["state"] == "failing"
        assert "cannot be used" in ready.json()["search"]["reason"]
        assert "durable_sessions_search_failing 1.0" in (await api.get(server.url + "/metrics")).text
        before = feed.starts
        assert (await api.get("/search", params={"q": "needle"})).status_code == 503
        assert feed.starts <= before + 1
        (data / "search").unlink()
        assert (await _until_up_to_date(api, "needle"))["total_hits"] == 200
        ready = await api.get(server.url + "/readyz")
        assert ready.json()["search"] == {"state": "ready"}
