"""The search index follows from the log: whatever happens to it, it finds what a new one would."""

import asyncio
import os
import random
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.search.index import FORMAT
from durable_sessions.testing.server import local_server
from tests.support.keys import BOOTSTRAP, bearer, make_secret
from tests.support.process import ServerProcess
from tests.support.searching import found_everywhere, picture, said
from tests.support.sessions import append, at
from tests.support.small_tiers import SMALL_TIERS
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

WORDS = ("gateway", "login", "timeout", "token", "retry", "socket", "commit", "index", "merge", "probe")
QUERIES = (
    "timeout",
    "login gateway",
    '"retry socket"',
    "tok*",
    "type:agent.* -probe",
    "+merge index",
    "is:error",
)
SESSIONS = ("s0", "s3", "fork")


def events(seed: int, count: int) -> list[dict[str, object]]:
    chance = random.Random(seed)
    kinds = ("user.message", "agent.message", "note")
    return [
        said(
            " ".join(chance.choices(WORDS, k=chance.randrange(3, 30))),
            chance.choice(kinds),
            is_error=chance.random() < 0.1,
        )
        for _ in range(count)
    ]


async def fill(api: httpx2.AsyncClient) -> None:
    """Make some sessions and a fork; nothing is deleted, so that scores do not depend on merges."""
    for n in range(6):
        await append(api, f"s{n}", *events(n, 60))
    headers = {"Stream-Forked-From": "/v1/sessions/s0", "Stream-Fork-Offset": at(40)}
    assert (await api.put("/sessions/fork", headers=headers)).status_code == 201
    await append(api, "fork", *events(99, 20))


async def rebuilt(api: httpx2.AsyncClient) -> list[object]:
    """Return what searches tell after the index was made anew."""
    assert (await api.post("/admin/reindex")).status_code == 202
    return await picture(api, QUERIES, SESSIONS)


@asynccontextmanager
async def client(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=url + "/v1", timeout=PATIENCE_SECONDS) as api:
        yield api


# Damage ---------------------------------------------------------------------------------


def _segment_files(index: Path) -> list[Path]:
    return sorted(path for path in index.iterdir() if len(path.name.split(".")[0]) == 32)


def _put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0x10
    path.write_bytes(content)


def _first(suffix: str, change: Callable[[Path], None]) -> Callable[[Path], None]:
    """Return a function that does this to the first file of a kind."""
    return lambda search: change(
        next(path for path in _segment_files(search / "default") if path.suffix == suffix)
    )


DAMAGES: dict[str, Callable[[Path], None]] = {
    "deleted": shutil.rmtree,
    "half of .idx": _first(".idx", _halve),
    "nothing of .fast": _first(".fast", lambda path: _put(path, b"")),
    "a bit of .term": _first(".term", _flip),
    "a bit of .pos": _first(".pos", _flip),
    "a bit of .fieldnorm": _first(".fieldnorm", _flip),
    "no .pos": _first(".pos", Path.unlink),
    "half of meta.json": lambda search: _halve(search / "default/meta.json"),
    "no meta.json": lambda search: (search / "default/meta.json").unlink(),
    "rubbish in .managed.json": lambda search: _put(search / "default/.managed.json", b"rubbish"),
    "nothing in FORMAT": lambda search: _put(search / "default/FORMAT", b""),
    "another FORMAT": lambda search: _put(search / "default/FORMAT", b"%d\n" % (FORMAT + 1)),
    "rubbish in FORMAT": lambda search: _put(search / "default/FORMAT", b"\xff\xfe\n"),
    "another LINEAGE": lambda search: _put(search / "LINEAGE", b"another"),
    "rubbish in LINEAGE": lambda search: _put(search / "LINEAGE", b"\xff\x00rubbish"),
    "no LINEAGE": lambda search: (search / "LINEAGE").unlink(),
    "something else": lambda search: _put(search / "a file", b"that nobody knows"),
}


async def test_a_damaged_index_is_made_anew(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data") as server, client(server.url) as api:
        await fill(api)
        expected = await picture(api, QUERIES, SESSIONS)
        for kind, damage in DAMAGES.items():
            await server.stop()
            damage(server.data / "search")
            await server.start()
            assert await picture(api, QUERIES, SESSIONS) == expected, kind


async def test_a_damage_met_while_searching_is_mended(tmp_path: Path) -> None:
    """Files of a running index are cut; whatever the process makes of it, answers are right in the end."""
    limits = replace(DEFAULT_LIMITS, search_wait_seconds_max=20.0)
    async with local_server(tmp_path / "data", limits=limits) as server, client(server.url) as api:
        await fill(api)
        expected = await picture(api, QUERIES, SESSIONS)
        for path in _segment_files(server.data / "search" / "default"):
            os.truncate(path, 0)
        for _ in range(20):
            await append(api, "more", said("unrelated"))
            answers = [(await api.get("/search", params={"q": q})).status_code for q in QUERIES]
            if answers == [200] * len(QUERIES):
                break
        assert (await api.delete("/sessions/more")).status_code < 300
        assert await rebuilt(api) == expected


# Processes that end ---------------------------------------------------------------------


async def test_the_worker_is_killed_while_it_indexes(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data") as server, client(server.url) as api:
        await fill(api)
        await found_everywhere(api, "timeout")
        chance = random.Random(7)
        for n in range(4):
            writes = asyncio.gather(*[append(api, f"k{n}{m}", *events(100 * n + m, 200)) for m in range(4)])
            await asyncio.sleep(chance.random() * 0.3)
            link = server.node.feed._link
            if link is not None:
                os.kill(link.pid, signal.SIGKILL)
            await writes
            word = f"unique{n}"
            await append(api, f"k{n}0", said(word))
            answer = await found_everywhere(api, word)
            assert answer["total_hits"] == 1
            assert answer["up_to_date"] is True
        sessions = [*SESSIONS, "k00", "k31"]
        after = await picture(api, QUERIES, sessions)
        assert (await api.post("/admin/reindex")).status_code == 202
        assert await picture(api, QUERIES, sessions) == after


async def test_the_server_is_killed_while_it_indexes(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data")
    with server:
        for n in range(3):
            async with client(server.url) as api:
                if n == 0:
                    await fill(api)
                else:
                    answer = await found_everywhere(api, f"unique{n - 1}")
                    assert (answer["total_hits"], answer["up_to_date"]) == (1, True)
                searching = asyncio.create_task(found_everywhere(api, "timeout"))
                for m in range(4):
                    await append(api, f"k{n}{m}", *events(100 * n + m, 300))
                await append(api, "last", said(f"unique{n}"))
                await asyncio.sleep(0.05 * n)
                server.kill()
                await asyncio.gather(searching, return_exceptions=True)
            server.start()
        async with client(server.url) as api:
            sessions = [*SESSIONS, "k00", "k23", "last"]
            after = await picture(api, QUERIES, sessions)
            assert (await found_everywhere(api, "unique2"))["total_hits"] == 1
            assert (await api.post("/admin/reindex")).status_code == 202
            assert await picture(api, QUERIES, sessions) == after


async def test_after_a_graceful_restart_everything_is_found(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data")
    with server:
        async with client(server.url) as api:
            await fill(api)
            before = await picture(api, QUERIES, SESSIONS)
            await append(api, "late", said("unique"))
        assert server.terminate() == 0
        server.start()
        async with client(server.url) as api:
            answer = await found_everywhere(api, "unique")
            assert (answer["total_hits"], answer["up_to_date"]) == (1, True)
            assert (await api.delete("/sessions/late")).status_code < 300
            assert await rebuilt(api) == before


# Rebuilding -----------------------------------------------------------------------------


async def test_an_index_is_made_from_the_bucket_alone(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", limits=SMALL_TIERS) as server, client(server.url) as api:
        await fill(api)
        before = await picture(api, QUERIES, SESSIONS)
        assert (await api.post("/admin/flush")).status_code == 200
        assert await rebuilt(api) == before
        await server.stop()
        (server.data / "catalog.sqlite").unlink()
        shutil.rmtree(server.data / "search")
        await server.start()
        assert await picture(api, QUERIES, SESSIONS) == before


async def test_an_index_of_another_log_is_not_used(tmp_path: Path) -> None:
    """The log is lost with what was not flushed: the index knows of events that are no more."""
    bucket = tmp_path / "bucket"
    async with local_server(tmp_path / "data", bucket=str(bucket)) as server, client(server.url) as api:
        await fill(api)
        assert (await api.post("/admin/flush")).status_code == 200
        shutil.copytree(bucket, tmp_path / "flushed")
        flushed = await picture(api, QUERIES, SESSIONS)
        await append(api, "lost", said("lost timeout"), said("lost login"))
        await append(api, "s0", said("lost gateway"))
        assert (await found_everywhere(api, "lost"))["total_hits"] == 3
        await server.stop()
        shutil.rmtree(bucket)
        shutil.copytree(tmp_path / "flushed", bucket)
        shutil.rmtree(server.data / "log")
        (server.data / "catalog.sqlite").unlink(missing_ok=True)
        await server.start()
        assert (await api.get("/sessions/lost")).status_code == 404
        assert (await found_everywhere(api, "lost"))["total_hits"] == 0
        assert await picture(api, QUERIES, SESSIONS) == flushed
        await append(api, "new", said("found timeout"))
        assert (await found_everywhere(api, "found"))["total_hits"] == 1


async def test_a_result_after_a_restart_has_the_name_of_a_call_before_it(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data") as server, client(server.url) as api:
        await append(api, "s", {"type": "agent.tool_use", "id": "c1", "name": "Bash", "input": {}})
        assert (await found_everywhere(api, "name:bash"))["total_hits"] == 1
    async with local_server(tmp_path / "data") as server, client(server.url) as api:
        await append(api, "s", said("needle", "agent.tool_result", tool_use_id="c1"))
        assert (await found_everywhere(api, "needle name:bash"))["total_hits"] == 1
        await api.post("/admin/reindex")
        assert (await found_everywhere(api, "needle name:bash"))["total_hits"] == 1


async def test_forks_and_deletions_are_the_same_after_a_restart_and_a_rebuild(tmp_path: Path) -> None:
    async def seen(api: httpx2.AsyncClient) -> list[object]:
        told: list[object] = []
        for q in (*QUERIES, "mark"):
            answer = await found_everywhere(api, q, limit=100, hits=20)
            assert answer["up_to_date"]
            found = {
                (group["session"]["id"], hit["offset"]) for group in answer["data"] for hit in group["hits"]
            }
            told.append((q, answer["total_hits"], answer["total_sessions"], found if q == "mark" else None))
        return told

    async with local_server(tmp_path / "data") as server, client(server.url) as api:
        await fill(api)
        await append(api, "s0", said("mark late"))
        await append(api, "s1", said("mark"))
        await append(api, "fork", said("mark own"))
        await found_everywhere(api, "mark")
        for name in ("s0", "s2"):
            assert (await api.delete(f"/sessions/{name}")).status_code < 300
        before = await seen(api)
        await server.restart()
        assert await seen(api) == before
        assert (await api.post("/admin/flush")).status_code == 200
        await server.restart()
        assert await seen(api) == before
        assert (await api.post("/admin/reindex")).status_code == 202
        assert await seen(api) == before
        assert (await api.delete("/sessions/fork")).status_code < 300
        await server.restart()
        after = await seen(api)
        assert after != before
        assert (await api.post("/admin/reindex")).status_code == 202
        assert await seen(api) == after


async def test_reindexing_is_for_admins_of_the_home_and_audited(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP) as server:
        secrets = {
            "writer": await make_secret(server.url, "writer"),
            "stranger": await make_secret(server.url, "admin", "elsewhere"),
        }
        async with client(server.url) as api:
            assert (await api.post("/admin/reindex")).status_code == 401
            for secret in secrets.values():
                assert (await api.post("/admin/reindex", headers=bearer(secret))).status_code == 403
            api.headers.update(bearer(BOOTSTRAP))
            assert (await api.get("/admin/reindex")).status_code == 405
            await append(api, "s", said("timeout"))
            for _ in range(3):
                answer = await api.post("/admin/reindex")
                assert (answer.status_code, answer.json()) == (202, {"status": "building"})
            found = await found_everywhere(api, "timeout")
            assert (found["total_hits"], found["up_to_date"]) == (1, True)
            acts = [one["type"] for one in (await api.get("/audit")).json()["data"]]
            assert acts.count("reindex.requested") == 3
            ready = (await api.get(server.url + "/readyz")).json()
            assert ready["search"] == {"state": "ready"}
            metrics = (await api.get(server.url + "/metrics")).text
            for line in (
                "durable_sessions_searches_total 1.0",
                "durable_sessions_search_building 0.0",
                "durable_sessions_search_backlog_sessions 0.0",
                "durable_sessions_search_events_lacking 0.0",
                "durable_sessions_search_failing 0.0",
            ):
                assert line in metrics
