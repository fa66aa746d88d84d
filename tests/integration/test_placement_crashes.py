"""A fork is created in several steps by up to three partitions; it may be cut off between any two of them."""

from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from itertools import count, product
from pathlib import Path

import httpx2
import pytest

from durable_sessions.http.api.placement_operations import GIVE_UP, PLACE
from durable_sessions.http.carrier.message import Answer, Request, Response
from durable_sessions.node.partitions import answered
from durable_sessions.node.peers import Peers
from durable_sessions.node.router import Router
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.streams.placed_names import NoteCache
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

OF = 3
TEXT = {"Content-Type": "text/plain"}
STEPS = 6
"""As many questions as a fork can take: where its source is, twice; place, give up, place; create."""
AFTERWARDS = ("the same fork", "another fork", "a plain stream", "a read", "an append")


def names(prefix: str, home: int) -> Iterator[str]:
    """Yield names of streams that belong to a partition."""
    for number in count():
        if home_partition("default", f"{prefix}-{number}", OF) == home:
            yield f"{prefix}-{number}"


ONE, TWO = next(names("one", 0)), next(names("two", 1))


@dataclass
class CutPeers:
    """The partitions of a server, of which one question is not answered any more."""

    peers: Peers
    left: int
    after: bool
    asked: list[bytes]

    @property
    def app(self) -> object:
        return self.peers.app

    def ask(self, partition: int, request: Request) -> Answer | Awaitable[Answer]:
        return self._ask(partition, request)

    route = ask

    async def _ask(self, partition: int, request: Request) -> Answer:
        self.asked.append(request.path)
        self.left -= 1
        if self.left >= 0 or self.after:
            answer = await answered(self.peers.ask(partition, request))
            if self.left >= 0:
                return answer
        return Response(503, [], b"cut off")


class Trial:
    """One server, and streams whose creation is cut off."""

    def __init__(self, server: LocalServer, client: httpx2.AsyncClient) -> None:
        self.client = client
        router = server.node.handle
        assert isinstance(router, Router)
        self._named = router._named
        self._peers = self._named._partitions

    async def fork(self, name: str, source: str) -> httpx2.Response:
        return await self.client.put(
            f"/v1/stream/{name}", headers={**TEXT, "Stream-Forked-From": f"/v1/stream/{source}"}
        )

    async def cut(self, name: str, source: str, step: int, *, after: bool) -> list[bytes]:
        """Fork a stream up to a step; return what was asked of partitions. Nobody remembers anything."""
        assert isinstance(self._peers, Peers)
        cut = CutPeers(self._peers, step, after, [])
        self._named._partitions = cut  # type: ignore[assignment]
        await self.fork(name, source)
        self._named._partitions = self._peers
        self._named._notes = NoteCache(1_000_000)
        return cut.asked

    async def text(self, name: str) -> str | None:
        answer = await self.client.get(f"/v1/stream/{name}", params={"offset": "-1"})
        assert answer.status_code in (200, 404), answer.text
        return answer.text if answer.status_code == 200 else None

    async def go_on(self, name: str, how: str) -> str | None:
        """Use a name whose creation was cut off; return the text that its stream must have then."""
        if how == "the same fork":
            answer, made = await self.fork(name, TWO), "two"
        elif how == "another fork":
            answer, made = await self.fork(name, ONE), "one"
        elif how == "a plain stream":
            answer, made = await self.client.put(f"/v1/stream/{name}", headers=TEXT), ""
        elif how == "an append":
            answer = await self.client.post(f"/v1/stream/{name}", headers=TEXT, content=b"!")
            assert answer.status_code in (204, 404), answer.text
            return "two!" if answer.status_code == 204 else None
        else:
            return await self.text(name)
        if answer.status_code in (409, 200):
            return "two"
        assert answer.status_code == 201, answer.text
        return made


async def test_whatever_step_is_the_last_the_name_can_be_used(tmp_path: Path) -> None:
    asked: set[bytes] = set()
    expected: dict[str, str | None] = {}
    async with local_server(tmp_path / "data", partitions=OF) as server:
        async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
            trial = Trial(server, client)
            for source, text in ((ONE, "one"), (TWO, "two")):
                created = await client.put(f"/v1/stream/{source}", headers=TEXT, content=text.encode())
                assert created.status_code == 201
            # Of every second name the note says that it lives with the other source, from an earlier life.
            for home, moved in product((0, 1, 2), (False, True)):
                fresh = names(f"fork-{home}-{moved}", home)
                for step, after, how in product(range(STEPS), (False, True), AFTERWARDS):
                    name = next(fresh)
                    if moved:
                        assert (await trial.fork(name, ONE)).status_code == 201
                        assert (await client.delete(f"/v1/stream/{name}")).status_code == 204
                    asked |= set(await trial.cut(name, TWO, step, after=after))
                    expected[name] = await trial.go_on(name, how)
                    assert await trial.text(name) == expected[name], (name, step, after, how)
        assert {PLACE, GIVE_UP} <= asked
        await server.restart()
        async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
            trial = Trial(server, client)
            assert {name: await trial.text(name) for name in expected} == expected
        for name in expected:
            holders = [
                number
                for number, keeper in server.node.keepers.items()
                if any(key.path == name for key in keeper.engine.partition._state.streams)
            ]
            assert len(holders) == (0 if expected[name] is None else 1), "a name lives in one partition"
