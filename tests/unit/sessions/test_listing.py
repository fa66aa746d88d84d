"""Lists of sessions, page by page, while sessions arrive and leave."""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.access.caller import Caller, Role
from durable_sessions.http.api.sessions.listing import listed
from durable_sessions.http.carrier.message import Request
from durable_sessions.sessions.change import By
from durable_sessions.sessions.create import NewSession
from durable_sessions.sessions.outline.outlines import Outlines
from durable_sessions.sessions.record import Record
from durable_sessions.sessions.views_file import ViewsFile
from tests.unit.sessions.world import SessionWorld, key
from tests.unit.storage.world import LIMITS

CALLER = Caller("default", "me", Role.READER, None)
changes = st.sampled_from(["create", "create", "delete", "flush", "rest", "archive", "nothing", "reopen"])


class Walk:
    """A world in which sessions come and go, and all that was there at the same time."""

    def __init__(self, world: SessionWorld) -> None:
        self.world = world
        views = ViewsFile(world.catalog_path.with_name("views.sqlite"), world.limits.views_bytes_max)
        self.outlines = Outlines(world.sessions, views, world.limits)
        self.order: list[str] = []
        self.present: set[str] = set()
        self.number = 0

    async def change(self, what: str, choice: int) -> None:
        world = self.world
        if what == "create":
            name = f"s{self.number}"
            self.number += 1
            title = "odd" if self.number % 2 else "even"
            await world.sessions.create(key(name), NewSession(Record(title=title), "me"), 0)
            self.order.append(name)
            self.present.add(name)
        elif what in ("delete", "archive") and self.present:
            name = sorted(self.present)[choice % len(self.present)]
            if what == "delete":
                await world.sessions.delete(key(name), By("me"))
            else:
                await world.sessions.archive(key(name), By("me"))
            self.present.discard(name)
        elif what == "flush":
            await world.flush()
        elif what == "reopen":
            await world.reopen()
        elif what == "rest":
            for _ in range(3):
                await world.partition.evict_idle()

    async def page(self, **parameters: Any) -> dict[str, Any]:
        query = urlencode({name: value for name, value in parameters.items() if value is not None})
        request = Request(b"GET", b"/v1/sessions", query.encode(), {}, b"")
        shown = msgspec.json.decode(await listed(self.world.sessions, self.outlines, request, CALLER))
        return {**shown, "data": [one["id"] for one in shown["data"]]}


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 9),
    st.lists(st.tuples(changes, st.integers(0, 20)), max_size=25),
    st.integers(1, 4),
    st.sampled_from(["asc", "desc"]),
    st.sampled_from([None, "odd"]),
    st.sampled_from([2, 10_000]),
)
def test_pages_stay_right(
    there: int, steps: list[tuple[str, int]], limit: int, order: str, q: str | None, looked_at: int
) -> None:
    """What is there from the first page to the last is seen once, in order; nothing is seen twice."""
    asyncio.run(walk(there, steps, limit, order, q, looked_at))


async def walk(
    there: int, steps: list[tuple[str, int]], limit: int, order: str, q: str | None, looked_at: int
) -> None:
    limits = replace(LIMITS, active_streams_max=0, listed_sessions_max=looked_at)
    with tempfile.TemporaryDirectory() as folder:
        walk = Walk(await SessionWorld(Path(folder), limits).open())
        for _ in range(there):
            await walk.change("create", 0)
        always = set(walk.present)
        seen: list[str] = []
        token: str | None = None
        left = iter(steps)
        while True:
            page = await walk.page(limit=limit, order=order, q=q, page=token)
            assert len(page["data"]) <= limit
            seen += page["data"]
            token = page["next_page"]
            if token is None:
                break
            for what, choice in (one for _, one in zip(range(3), left, strict=False)):
                await walk.change(what, choice)
                always &= walk.present
        check_seen(walk, seen, always, order, q)
        await check_both_ways(walk, limit, order, q)
        await walk.world.close()


def check_seen(walk: Walk, seen: list[str], always: set[str], order: str, q: str | None) -> None:
    def wanted(name: str) -> bool:
        return q is None or int(name[1:]) % 2 == 0

    ranks = [walk.order.index(name) for name in seen]
    assert ranks == sorted(set(ranks), reverse=order == "desc"), "each once, in the order of creation"
    assert {name for name in always if wanted(name)} <= set(seen)
    assert all(wanted(name) for name in seen)


async def check_both_ways(walk: Walk, limit: int, order: str, q: str | None) -> None:
    """While nothing changes, going back shows what going on has shown."""
    pages: list[list[str]] = []
    token: str | None = None
    last: dict[str, Any] = {}
    while True:
        last = await walk.page(limit=limit, order=order, q=q, page=token)
        pages.append(last["data"])
        token = last["next_page"]
        if token is None:
            break
    forward = [name for page in pages for name in page]
    backward = list(last["data"])
    token = last["prev_page"]
    while token is not None:
        page = await walk.page(limit=limit, q=q, page=token)
        backward = page["data"] + backward
        token = page["prev_page"]
        onward = (
            await walk.page(limit=limit, q=q, page=page["next_page"]) if page["next_page"] else {"data": []}
        )
        assert onward["data"] == backward[len(page["data"]) :][: len(onward["data"])]
    assert backward == forward
