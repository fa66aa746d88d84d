"""The process that searches: noticed when it stands still, quick to end, never busy for nobody."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from durable_sessions.errors import SearchUnavailableError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.search import link as link_module
from durable_sessions.search.link import WorkerLink
from durable_sessions.search.messages import LENGTH, REPLY_BYTES_MAX, Add, Ask, Cancel
from durable_sessions.search.query import parse
from durable_sessions.search.scope import Scope
from durable_sessions.search.worker import IndexWorker
from durable_sessions.testing.server import LocalServer, local_server
from durable_sessions.threads import NICENESS
from tests.support.keys import BOOTSTRAP, bearer, make_secret
from tests.support.process import ServerProcess
from tests.support.searching import found_everywhere, said
from tests.support.sessions import append
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

FOR_EVER = 100_000.0
KILLED_STARTS = int(os.environ.get("KILLED_STARTS", "4"))
"""How many starts are cut off, each a little later than the one before; `make soak` tries more."""
WATCHFUL = replace(
    DEFAULT_LIMITS,
    search_wait_seconds_max=1.0,
    search_heartbeat_seconds=0.2,
    search_silence_seconds_max=8.0,
)
PATIENT = replace(DEFAULT_LIMITS, search_silence_seconds_max=FOR_EVER, search_stop_seconds_max=FOR_EVER)


@asynccontextmanager
async def client(url: str, secret: str = "") -> AsyncIterator[httpx2.AsyncClient]:
    headers = bearer(secret) if secret else {}
    async with httpx2.AsyncClient(base_url=url + "/v1", timeout=120, headers=headers) as api:
        yield api


async def until(condition: Callable[[], object], seconds_max: float = 120.0) -> None:
    async with asyncio.timeout(seconds_max):
        while not condition():
            await asyncio.sleep(0.02)


def linked(server: LocalServer) -> WorkerLink:
    link = server.node.feed._link
    assert link is not None
    return link


async def searchable(api: httpx2.AsyncClient, word: str) -> None:
    """Wait until a word is found."""
    async with asyncio.timeout(120):
        while True:
            answer = await api.get("/search", params={"q": word})
            if answer.status_code == 200 and answer.json()["total_hits"]:
                return
            assert answer.status_code in (200, 503), answer.text


# One that stands still ------------------------------------------------------------------


async def test_a_process_that_stands_still_is_told_of_and_replaced(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", limits=WATCHFUL) as server, client(server.url) as api:
        await append(api, "s", said("needle"))
        await searchable(api, "needle")
        pid = linked(server).pid
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: server.node.feed.failure is not None)
        ready = (await api.get(server.url + "/readyz")).json()
        assert ready["search"]["state"] == "failing"
        assert "has not answered" in ready["search"]["reason"]
        await append(api, "s", said("later"))
        await searchable(api, "later")
        assert linked(server).pid != pid
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        metrics = (await api.get(server.url + "/metrics")).text
        assert "durable_sessions_search_process_kills_total 1.0" in metrics
        await until(lambda: server.node.feed.failure is None)
        assert (await api.get(server.url + "/readyz")).json()["search"] == {"state": "ready"}


async def test_a_process_that_does_not_get_on_is_replaced(tmp_path: Path) -> None:
    hasty = replace(WATCHFUL, search_step_seconds_max=0.0)
    link = await WorkerLink.open(tmp_path / "search", "lineage", PATIENT)
    try:
        link._limits = hasty
        with suppress(SearchUnavailableError):
            while not link.lost:
                await link.send(Add("w", 1, 0, b'{"type":"note","text":"%b"},' % (b"word " * 20_000)))
        assert link.ended_for is not None
        assert "at one thing" in link.ended_for
    finally:
        await link.abort()


async def test_one_that_is_stopped_while_it_starts_is_noticed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = link_module._start

    def stopped(*arguments: object) -> object:
        process = start(*arguments)  # type: ignore[arg-type]
        os.kill(process.pid, signal.SIGSTOP)
        return process

    monkeypatch.setattr(link_module, "_start", stopped)
    hasty = replace(WATCHFUL, search_silence_seconds_max=0.5)
    with pytest.raises(SearchUnavailableError, match="has not answered"):
        await WorkerLink.open(tmp_path / "search", "lineage", hasty)


async def test_the_server_ends_at_once_although_the_process_stands_still(tmp_path: Path) -> None:
    limits = replace(PATIENT, search_heartbeat_seconds=0.1)
    async with local_server(tmp_path / "data", limits=limits) as server, client(server.url) as api:
        await append(api, "s", said("needle"))
        await searchable(api, "needle")
        pid = linked(server).pid
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: server.node.feed.failure is not None)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_process_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    limits = replace(PATIENT, search_heartbeat_seconds=FOR_EVER, search_stop_seconds_max=0.5)
    link = await WorkerLink.open(tmp_path / "search", "lineage", limits)
    os.kill(link.pid, signal.SIGSTOP)
    await link.close()
    assert link._process.returncode == -signal.SIGKILL


async def test_one_that_says_too_much_at_a_time_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "import os, sys, time; os.write(int(sys.argv[1]), bytes.fromhex(sys.argv[2])); time.sleep(1000)"
    start = subprocess.Popen

    def other(command: list[str], **how: object) -> object:
        length = LENGTH.pack(REPLY_BYTES_MAX + 1).hex()
        return start([sys.executable, "-c", program, command[-1], length], **how)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", other)
    with pytest.raises(SearchUnavailableError, match="cannot be decoded"):
        await WorkerLink.open(tmp_path / "search", "lineage", PATIENT)


# Searches that nobody waits for ---------------------------------------------------------


async def test_searches_that_nobody_waits_for_are_not_carried_out(tmp_path: Path) -> None:
    limits = replace(PATIENT, search_heartbeat_seconds=0.1)
    link = await WorkerLink.open(tmp_path / "search", "lineage", limits)
    try:
        await link.send(Add("w", 1, 0, b'{"type":"note","text":"needle"},'))
        ask = Ask(0, "w", parse("needle"), Scope(), 10)
        assert (await link.ask(ask, 120)).total_hits == 1
        os.kill(link.pid, signal.SIGSTOP)
        given_up = await asyncio.gather(*[link.ask(ask, 0.1) for _ in range(20)], return_exceptions=True)
        assert {type(one) for one in given_up} == {SearchUnavailableError}
        os.kill(link.pid, signal.SIGCONT)
        assert (await link.ask(ask, 120)).total_hits == 1
        await until(lambda: link.searches >= 2)
        assert link.searches == 2, "the first and the last"
    finally:
        await link.abort()


def test_a_search_is_dropped_after_its_deadline_and_when_it_is_cancelled(tmp_path: Path) -> None:
    ours, its = socket.socketpair()
    with ours, its:
        worker = IndexWorker(tmp_path, its)
        deadlines = (1.0, FOR_EVER * FOR_EVER, 0.0, 0.0)
        asks = [
            Ask(number, "w", parse("x"), Scope(), 1, deadline=deadline)
            for number, deadline in enumerate(deadlines, 1)
        ]
        for ask in asks:
            worker._dispatch(ask)
        worker._dispatch(Cancel(4))
        worker._dispatch(Cancel(5))
        assert [worker._is_wanted(ask) for ask in asks] == [False, True, True, False]
        assert worker._wanted == {2, 3}


async def test_a_client_that_goes_away_ends_its_search(tmp_path: Path) -> None:
    limits = replace(PATIENT, search_wait_seconds_max=FOR_EVER)
    async with local_server(tmp_path / "data", limits=limits) as server, client(server.url) as api:
        await append(api, "s", said("needle"))
        await searchable(api, "needle")
        link = linked(server)
        os.kill(link.pid, signal.SIGSTOP)
        searches = [asyncio.create_task(api.get("/search", params={"q": "needle"})) for _ in range(5)]
        await until(lambda: len(link._asked) == 5)
        assert server.node.feed is not None
        for search in searches:
            search.cancel()
        await asyncio.gather(*searches, return_exceptions=True)
        await until(lambda: not link._asked)
        os.kill(link.pid, signal.SIGCONT)
        await searchable(api, "needle")


async def test_a_key_has_so_many_searches_under_way_and_no_more(tmp_path: Path) -> None:
    limits = replace(PATIENT, search_wait_seconds_max=FOR_EVER, searches_per_key_max=3, searches_max=5)
    async with local_server(tmp_path / "data", limits=limits, api_key=BOOTSTRAP) as server:
        one, other, third = [await make_secret(server.url, "writer") for _ in range(3)]
        async with (
            client(server.url, one) as api,
            client(server.url, other) as second,
            client(server.url, third) as last,
        ):
            await append(api, "s", said("needle"))
            await searchable(api, "needle")
            link = linked(server)
            os.kill(link.pid, signal.SIGSTOP)
            paths = ("/search", "/sessions/s/events")
            under_way = [asyncio.create_task(api.get(paths[n % 2], params={"q": "needle"})) for n in range(3)]
            await until(lambda: len(link._asked) == 3)
            for path in paths:
                refused = await api.get(path, params={"q": "needle"})
                assert (refused.status_code, refused.headers["retry-after"]) == (429, "1"), refused.text
                error = refused.json()["error"]
                assert error["details"]["error_code"] == "share_exceeded"
                assert "searches in use (searches_per_key_max)" in error["message"]
            assert (await api.get("/sessions/s/events")).status_code == 200, "reading goes on"
            under_way += [
                asyncio.create_task(second.get("/search", params={"q": "needle"})) for _ in range(2)
            ]
            await until(lambda: len(link._asked) == 5)
            refused = await last.get("/search", params={"q": "needle"})
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1"), refused.text
            assert "5 searches are under way" in refused.json()["error"]["message"]
            os.kill(link.pid, signal.SIGCONT)
            answers = await asyncio.gather(*under_way)
            assert [answer.status_code for answer in answers] == [200] * 5
            assert (await found_everywhere(api, "needle"))["total_hits"] == 1
            assert server.node.feed is not None
        async with client(server.url, BOOTSTRAP) as api:
            metrics = (await api.get(server.url + "/metrics")).text
            assert "durable_sessions_searches_refused_total 3.0" in metrics
            assert "durable_sessions_searches_under_way 0.0" in metrics


# Priority -------------------------------------------------------------------------------


def _niceness(pid: int) -> dict[str, list[int]]:
    """Return how far the threads of a process stand back, by their names."""
    found: dict[str, list[int]] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            stat = (task / "stat").read_text()
            name, _, rest = stat.partition("(")[2].rpartition(")")
            found.setdefault(name, []).append(int(rest.split()[16]))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="niceness is a thread's own on Linux")
async def test_what_somebody_waits_for_does_not_stand_back(tmp_path: Path) -> None:
    own = os.nice(0)
    async with local_server(tmp_path / "data") as server, client(server.url) as api:
        await append(api, "s", *[said(f"needle {n}") for n in range(50)])
        await searchable(api, "needle")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:  # a thread that has just begun is not what it will be
                found = _niceness(linked(server).pid)
                merging = {nice for name, nices in found.items() if "merge_thread" in name for nice in nices}
                writing = {nice for name, nices in found.items() if "thrd-tantivy" in name for nice in nices}
                if (merging, writing) == ({own + NICENESS}, {own}):
                    break
                await append(api, "s", said("needle again"))  # the next commit looks at its threads again
                await searchable(api, "needle")
        ours = [nice for name, nices in found.items() if name.startswith("python") for nice in nices]
        assert ours.count(own + NICENESS) >= 1, "the background"
        assert ours.count(own) >= 3, "who hears, the foreground, and who searches"


# What it says on standard error ---------------------------------------------------------


async def test_what_the_process_says_is_in_the_log_as_all_else_is(tmp_path: Path) -> None:
    environment = {"DURABLE_SESSIONS_LOG_FORMAT": "json"}
    with ServerProcess(tmp_path / "data", environment=environment) as server:
        async with client(server.url) as api:
            await append(api, "s", *[said("needle")] * 10)
            await searchable(api, "needle")
        server.terminate()
        for path in (tmp_path / "data/search/default").glob("*.term"):
            path.write_bytes(b"rubbish")
        (tmp_path / "data/search/default/meta.json").write_bytes(b"{}")
        server.start()
        async with client(server.url) as api:
            await searchable(api, "needle")
        server.terminate()
        lines = [json.loads(line) for line in server.log.read_text().splitlines()]
        assert lines


async def test_what_it_says_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said_by_it: list[str] = []

    class Log:
        @staticmethod
        def warning(event: str, *, pid: int, line: str) -> None:
            said_by_it.append(line)

    program = "import sys; sys.stderr.write('x' * 20_000 + chr(10) + 'one' + chr(10) * 500)"
    monkeypatch.setattr(link_module, "logger", Log)
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE)
    await link_module._log_errors(process)
    process.wait()
    assert "".join(said_by_it).startswith("x" * 20_000)
    assert len(said_by_it) == link_module.LINES_MAX
    assert max(map(len, said_by_it)) <= 2 * link_module.LINE_BYTES_MAX
    assert "one" in said_by_it


async def test_a_server_that_is_killed_as_it_starts_leaves_only_json(tmp_path: Path) -> None:
    environment = {"DURABLE_SESSIONS_LOG_FORMAT": "json"}
    with ServerProcess(tmp_path / "data", environment=environment) as server:
        async with client(server.url) as api:
            await append(api, "s", said("needle"))
            await searchable(api, "needle")
        for n in range(KILLED_STARTS):
            server.kill()
            server.start()
            async with client(server.url) as api:
                search = asyncio.create_task(api.get("/search", params={"q": "needle"}))
                await asyncio.sleep(0.4 * n / KILLED_STARTS)
                server.kill()
                await asyncio.gather(search, return_exceptions=True)
            server.start()
        await asyncio.sleep(1.0)  # for what is left of them to say something
        for line in server.log.read_text().splitlines():
            json.loads(line)
