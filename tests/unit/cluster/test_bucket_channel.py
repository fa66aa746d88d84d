"""Heartbeats as objects: those of the dead are not read again and again, and each is read for itself."""

from collections.abc import Sequence

import pytest

from durable_sessions.cluster.channels import KEPT_SECONDS, NODES, BucketChannel
from durable_sessions.errors import BucketError, ObjectNotFoundError

pytestmark = pytest.mark.anyio

SILENT_SECONDS = 12.0


class Objects:
    """Objects with the times at which they were written, some of which cannot be read."""

    def __init__(self) -> None:
        self.stored: dict[str, tuple[bytes, int]] = {}
        self.now_ms = 1_000_000_000
        self.broken: set[str] = set()
        self.read: list[str] = []

    async def put(self, path: str, data: bytes) -> None:
        self.stored[path] = data, self.now_ms

    async def get(self, path: str) -> bytes:
        self.read.append(path)
        if path in self.broken:
            raise BucketError(reason="broken")
        if path not in self.stored:
            raise ObjectNotFoundError(path=path)
        return self.stored[path][0]

    async def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.stored.pop(path, None)

    async def list(self, prefix: str) -> Sequence[tuple[str, int, int]]:
        if "list" in self.broken:
            raise BucketError(reason="broken")
        return [(path, len(data), at) for path, (data, at) in sorted(self.stored.items())]


class World:
    def __init__(self) -> None:
        self.objects = Objects()
        self.heard: list[bytes] = []
        self.channel = BucketChannel(self.objects, SILENT_SECONDS)

    async def told(self, node: str) -> None:
        """Let another node have told of itself now."""
        await self.objects.put(f"{NODES}/{node}.json", node.encode())

    async def hears(self) -> list[bytes]:
        """Send a heartbeat, and return what is heard of others after it."""
        self.heard.clear()
        await self.channel.send("own", b"own")
        return sorted(one for one in self.heard if one != b"own")


@pytest.fixture
async def world() -> World:
    world = World()
    await world.channel.open(world.heard.append)
    return world


async def test_every_node_that_lives_is_heard(world: World) -> None:
    await world.told("a")
    await world.told("b")
    assert await world.hears() == [b"a", b"b"]


async def test_one_object_that_cannot_be_read_keeps_no_other_from_being_heard(world: World) -> None:
    for node in ("a", "b", "c"):
        await world.told(node)
    world.objects.broken = {f"{NODES}/a.json"}
    assert await world.hears() == [b"b", b"c"]
    world.objects.broken = {"list"}
    assert await world.hears() == []
    world.objects.broken = set()
    assert await world.hears() == [b"a", b"b", b"c"]


async def test_the_dead_are_not_read_and_are_forgotten(world: World) -> None:
    await world.told("dead")
    world.objects.now_ms += int(SILENT_SECONDS * 1000)
    assert await world.hears() == [b"dead"]
    world.objects.now_ms += 1
    await world.told("a")
    world.objects.read.clear()
    assert await world.hears() == [b"a"]
    assert f"{NODES}/dead.json" not in world.objects.read
    world.objects.now_ms += int(KEPT_SECONDS * 1000) + 1
    await world.hears()
    assert list(world.objects.stored) == [f"{NODES}/own.json"], "the others have told nothing for an hour"


async def test_what_a_node_told_last_is_heard_after_it_has_left(world: World) -> None:
    other = BucketChannel(world.objects, SILENT_SECONDS)
    await other.open(lambda _: None)
    await other.send("other", b"released")
    await other.close("other")
    assert await world.hears() == [b"released"]
