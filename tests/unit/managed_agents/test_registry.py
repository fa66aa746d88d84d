"""Registries: named objects whose versions stay readable."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from durable_sessions.errors import (
    DocumentTooLargeError,
    ObjectArchivedError,
    RegisteredObjectNotFoundError,
    VersionConflictError,
)
from durable_sessions.ids import RandomIds
from durable_sessions.managed_agents.agents import AGENTS
from durable_sessions.managed_agents.object_kind import Document
from durable_sessions.managed_agents.registry import Head, Registry
from durable_sessions.storage.turns import Turns
from tests.unit.sessions.world import SessionWorld

pytestmark = pytest.mark.anyio
PLAIN = replace(AGENTS, shown=bytes)
"""Agents of which nothing is known but their names, shown as they are stored."""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SessionWorld]:
    world = await SessionWorld(tmp_path).open()
    yield world
    await world.close()


def registry(world: SessionWorld) -> Registry:
    return Registry(world.partition, world.clock, RandomIds(), world.limits, Turns(), PLAIN)


def decoded(stored: bytes) -> Document:
    document: Document = msgspec.json.decode(stored)
    return document


async def created(world: SessionWorld, title: str) -> str:
    name: str = decoded(await registry(world).create("w", titled(title)))["id"]
    return name


def titled(title: str) -> Document:
    return {"title": title}


async def test_every_version_stays_readable(world: SessionWorld) -> None:
    stored_first = await registry(world).create("w", titled("one"))
    first = decoded(stored_first)
    name = first["id"]
    assert name.startswith("agent_")
    assert (first["type"], first["version"], first["title"]) == ("agent", 1, "one")
    world.clock.advance(1)
    stored_second = await registry(world).update("w", name, lambda old: {**old, "title": "two"}, expected=1)
    second = decoded(stored_second)
    assert (second["version"], second["created_at"]) == (2, first["created_at"])
    assert second["updated_at"] > first["updated_at"]
    for step in range(3):
        if step == 1:
            await world.flush()
        if step == 2:
            await world.reopen(forget_catalog=True)
        assert registry(world).get("w", name) == stored_second
        assert await registry(world).version("w", name, 1) == stored_first
        assert await registry(world).version("w", name, 2) == stored_second
        assert await registry(world).find("w", name, 1) == (stored_first, False)
        assert await registry(world).find("w", name) == (stored_second, False)
        assert await registry(world).find("w", "agent_unknown") is None
        versions = await registry(world).versions("w", name, None, 1)
        assert (versions.documents, versions.next) == ([stored_second], 1)
        assert (await registry(world).versions("w", name, versions.next, 1)).documents == [stored_first]
    for number in (0, 3):
        with pytest.raises(RegisteredObjectNotFoundError):
            await registry(world).version("w", name, number)


async def test_an_update_that_changes_nothing_or_is_late(world: SessionWorld) -> None:
    name = await created(world, "one")
    same = await registry(world).update("w", name, dict)
    assert decoded(same)["version"] == 1
    await registry(world).update("w", name, lambda old: {**old, "title": "two"})
    with pytest.raises(VersionConflictError):
        await registry(world).update("w", name, lambda old: {**old, "title": "three"}, expected=1)


async def test_what_is_archived_is_read_only_and_what_is_deleted_is_gone(world: SessionWorld) -> None:
    name = await created(world, "one")
    archived = await registry(world).archive("w", name)
    assert decoded(archived)["archived_at"] is not None
    assert await registry(world).archive("w", name) == archived
    with pytest.raises(ObjectArchivedError):
        await registry(world).update("w", name, lambda old: {**old, "title": "two"})
    await registry(world).delete("w", name)
    with pytest.raises(RegisteredObjectNotFoundError):
        registry(world).get("w", name)


async def test_workspaces_do_not_see_each_other(world: SessionWorld) -> None:
    name = await created(world, "one")
    with pytest.raises(RegisteredObjectNotFoundError):
        registry(world).get("v", name)
    assert (await registry(world).list("v", None, 10, lambda one: True)).documents == []


async def listed(world: SessionWorld, limit: int, wanted: Callable[[Head], bool]) -> list[list[str]]:
    """Return the titles on each page."""
    pages: list[list[str]] = []
    after: int | None = None
    while True:
        page = await registry(world).list("w", after, limit, wanted)
        pages.append([decoded(document)["title"] for document in page.documents])
        after = page.next
        if after is None:
            return pages


async def test_lists_are_newest_first_page_by_page(world: SessionWorld) -> None:
    for number in range(7):
        name = await created(world, str(number))
        if number == 5:
            await registry(world).archive("w", name)
        if number == 3:
            await world.flush()
    pages = await listed(world, 2, lambda one: one.archived_at is None)
    assert pages == [["6", "4"], ["3", "2"], ["1", "0"]]


async def test_a_document_has_a_largest_size(world: SessionWorld) -> None:
    most = len(await registry(world).create("w", titled("")))
    limited = replace(world.limits, registered_document_bytes_max=most + 10)
    turns = Turns()
    small = Registry(world.partition, world.clock, RandomIds(), limited, turns, PLAIN)
    name = decoded(await small.create("w", titled("x" * 10)))["id"]
    with pytest.raises(DocumentTooLargeError):
        await small.create("w", titled("x" * 11))
    with pytest.raises(DocumentTooLargeError):
        await small.update("w", name, lambda old: {**old, "title": "x" * 11})
    assert small.head("w", name).version == 1


async def test_one_from_before_there_was_a_largest_size(world: SessionWorld) -> None:
    name = await created(world, "x" * 1_000)
    limited = replace(world.limits, registered_document_bytes_max=500, page_bytes_max=500)
    small = Registry(world.partition, world.clock, RandomIds(), limited, Turns(), PLAIN)
    assert decoded(small.get("w", name))["title"] == "x" * 1_000
    assert len((await small.list("w", None, 10, lambda one: True)).documents) == 1
    with pytest.raises(DocumentTooLargeError):
        small.decoded(small.get("w", name))
    with pytest.raises(DocumentTooLargeError):
        await small.update("w", name, lambda old: {**old, "title": "y"})
    assert decoded(await small.archive("w", name))["title"] == "x" * 1_000
    await small.delete("w", name)


async def test_a_page_ends_before_the_object_that_makes_it_too_large(world: SessionWorld) -> None:
    sizes = [len(await registry(world).create("w", titled("x" * 100))) + 1 for _ in range(5)]
    name = await created(world, "v" * 100)
    for number in range(4):
        await registry(world).update("w", name, lambda old, number=number: {**old, "title": f"{number:100}"})  # type: ignore[misc]
    for room, counts in ((2 * sizes[0], [2, 2, 2]), (2 * sizes[0] - 1, [1] * 6), (1, [1] * 6)):
        world.limits = replace(world.limits, page_bytes_max=room)
        assert [len(page) for page in await listed(world, 100, lambda one: True)] == counts
        after: int | None = None
        versions: list[int] = []
        while True:
            page = await registry(world).versions("w", name, after, 100)
            versions.append(len(page.documents))
            after = page.next
            if after is None:
                break
        assert versions == ([2, 2, 1] if room == 2 * sizes[0] else [1] * 5)
