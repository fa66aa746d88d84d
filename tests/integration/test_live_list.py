"""The live list: what changes is told to all who follow the sessions of a workspace, and to nobody else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions import Client
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing import BackgroundServer
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import BOOTSTRAP, bearer, make_key
from tests.support.sessions import Frame, append, code, frames, notes
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio
LIMITS = replace(DEFAULT_LIMITS, live_list_seconds=0.01)


@pytest.fixture(params=[1, 3], ids=["one partition", "three partitions"])
async def server(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LocalServer]:
    async with local_server(tmp_path / "data", partitions=request.param, limits=LIMITS) as running:
        yield running


class Follower:
    """Takes the frames of a live list one by one."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.answer = answer
        self._frames = frames(answer)
        self.changed: dict[str, Any] = {}
        self.gone: list[str] = []

    async def next(self) -> Frame:
        return await asyncio.wait_for(anext(self._frames), PATIENCE_SECONDS)

    async def until(self, *names: str) -> None:
        """Take frames until these sessions have changed or are gone."""
        while not set(names) <= self.changed.keys() | set(self.gone):
            frame = await self.next()
            if frame.event == "sessions":
                said = frame.json()
                assert said.keys() == {"changed", "gone", "more"}
                assert len(said["changed"]) <= LIMITS.live_list_sessions_max
                self.changed |= {one["id"]: one for one in said["changed"]}
                self.gone += said["gone"]

    async def rest(self) -> list[Frame]:
        """Return the frames up to the end."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return [frame async for frame in self._frames]


@asynccontextmanager
async def following(url: str, **headers: str) -> AsyncIterator[Follower]:
    async with (
        httpx2.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS) as client,
        client.stream("GET", "/v1/sessions", params={"live": "sse"}, headers=headers) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"] == "text/event-stream"
        follower = Follower(answer)
        assert (await follower.next()).event == "control"
        yield follower


async def test_what_changes_is_told(server: LocalServer, api: httpx2.AsyncClient) -> None:
    await append(api, "quiet", *notes(range(2)))
    async with following(server.url) as follower:
        await append(api, "new", *notes(range(3)))
        await follower.until("new")
        assert follower.changed["new"]["event_count"] == 3
        shown = (await api.get("/sessions/new")).json()
        told = follower.changed.pop("new")
        assert {**told, "stats": None} == {**shown, "stats": None}
        await api.post("/sessions/new", json={"title": "Fix it", "metadata": {"a": "1"}})
        await follower.until("new")
        while follower.changed["new"]["title"] is None:
            follower.changed.pop("new")
            await follower.until("new")
        await api.post("/sessions/new/archive")
        follower.changed.pop("new")
        await follower.until("new")
        await api.delete("/sessions/new")
        while "new" not in follower.gone:
            follower.changed.pop("new", None)
            await follower.until("new")
        assert "quiet" not in follower.changed


async def test_many_changes_come_in_several_frames(server: LocalServer, api: httpx2.AsyncClient) -> None:
    names = [f"s-{number}" for number in range(250)]
    async with following(server.url) as follower:
        await asyncio.gather(*(append(api, name, *notes(range(1))) for name in names))
        await follower.until(*names)


async def test_a_session_under_the_id_of_a_dead_one_is_not_gone(
    server: LocalServer, api: httpx2.AsyncClient
) -> None:
    await append(api, "again", *notes(range(5)))
    async with following(server.url) as follower:
        await asyncio.gather(api.delete("/sessions/again"), append(api, "other", *notes(range(1))))
        await append(api, "again", *notes(range(2)))
        life = (await api.get("/sessions/again")).json()["incarnation"]
        while follower.changed.get("again", {}).get("incarnation") != life:
            follower.changed.pop("again", None)
            follower.gone.clear()
            await follower.until("again")


async def test_several_followers_are_told_the_same_and_leave_one_by_one(
    server: LocalServer, api: httpx2.AsyncClient
) -> None:
    async with following(server.url) as one:
        async with following(server.url) as other:
            await append(api, "first", *notes(range(1)))
            await one.until("first")
            await other.until("first")
            assert one.changed == other.changed
        await append(api, "second", *notes(range(1)))
        await one.until("second")
    async with following(server.url) as later:
        await append(api, "third", *notes(range(1)))
        await later.until("third")
        assert later.changed.keys() == {"third"}


@pytest.mark.parametrize("query", ["live=long-poll", "live=sse&limit=3", "live=sse&q=x", "live=sse&page=x"])
async def test_filters_and_other_ways_are_refused(api: httpx2.AsyncClient, query: str) -> None:
    answer = await api.get(f"/sessions?{query}")
    assert (answer.status_code, code(answer)) == (400, "invalid_request")


async def test_it_ends_when_the_server_drains(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", partitions=3) as server, following(server.url) as follower:
        # One partition is enough: a silent gap would look like peace.
        server.node.keepers[1].engine.drain()
        assert [frame.event for frame in await follower.rest()] == []


async def test_a_workspace_is_told_nothing_of_another(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", limits=LIMITS, api_key=BOOTSTRAP) as server:
        mine = bearer((await make_key(server.url, "writer", "mine"))["secret"])
        theirs = bearer((await make_key(server.url, "writer", "theirs"))["secret"])
        async with following(server.url, **theirs) as follower:
            for headers, name in ((mine, "mine"), (theirs, "theirs")):
                async with httpx2.AsyncClient(base_url=server.url + "/v1", headers=headers) as api:
                    await append(api, name, *notes(range(1)))
            await follower.until("theirs")
            assert follower.changed.keys() == {"theirs"}


async def test_who_falls_behind_is_ended(tmp_path: Path) -> None:
    limits = replace(LIMITS, live_list_pending_max=3, live_list_seconds=0.2)
    async with (
        local_server(tmp_path / "data", limits=limits) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
        following(server.url) as follower,
    ):
        await asyncio.gather(*(append(api, f"s-{number}", *notes(range(1))) for number in range(40)))
        await follower.rest()


def test_the_client_follows_and_says_when_to_list_anew(running: BackgroundServer, sdk: Client) -> None:
    sdk.session("before").append({"type": "note"})
    changes = sdk.sessions.follow()
    assert next(changes).gap
    sdk.session("new").append({"type": "note"})
    assert [one.id for one in next(changes).changed] == ["new"]
    sdk.session("new").delete()
    while not (change := next(changes)).gone:
        pass
    assert change.gone == ["new"]
    changes.close()
