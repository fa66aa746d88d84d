"""Registries: named objects whose versions stay readable."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from durable_sessions.errors import ObjectArchivedError, RegisteredObjectNotFoundError, VersionConflictError
from durable_sessions.ids import RandomIds
from durable_sessions.sessions.registry import Document, Registry
from tests.unit.sessions.world import SessionWorld

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SessionWorld]:
    world = await SessionWorld(tmp_path).open()
    yield world
    await world.close()


def registry(world: SessionWorld) -> Registry:
    return Registry(world.partition, world.clock, RandomIds(), "agent", "agent_")


def titled(title: str) -> Document:
    return {"title": title}


async def test_every_version_stays_readable(world: SessionWorld) -> None:
    first = await registry(world).create("w", titled("one"))
    name = first["id"]
    assert name.startswith("agent_")
    assert (first["type"], first["version"], first["title"]) == ("agent", 1, "one")
    world.clock.advance(1)
    second = await registry(world).update("w", name, lambda old: {**old, "title": "two"}, expected=1)
    assert (second["version"], second["created_at"]) == (2, first["created_at"])
    assert second["updated_at"] > first["updated_at"]
    for step in range(3):
        if step == 1:
            await world.flush()
        if step == 2:
            await world.reopen(forget_catalog=True)
        assert registry(world).get("w", name) == second
        assert await registry(world).version("w", name, 1) == first
        assert await registry(world).version("w", name, 2) == second
        versions = await registry(world).versions("w", name, None, 1)
        assert (versions.documents, versions.next) == ([second], 1)
        assert (await registry(world).versions("w", name, versions.next, 1)).documents == [first]
    for number in (0, 3):
        with pytest.raises(RegisteredObjectNotFoundError):
            await registry(world).version("w", name, number)


async def test_an_update_that_changes_nothing_or_is_late(world: SessionWorld) -> None:
    name = (await registry(world).create("w", titled("one")))["id"]
    same = await registry(world).update("w", name, dict)
    assert same["version"] == 1
    await registry(world).update("w", name, lambda old: {**old, "title": "two"})
    with pytest.raises(VersionConflictError):
        await registry(world).update("w", name, lambda old: {**old, "title": "three"}, expected=1)


async def test_what_is_archived_is_read_only_and_what_is_deleted_is_gone(world: SessionWorld) -> None:
    name = (await registry(world).create("w", titled("one")))["id"]
    archived = await registry(world).archive("w", name)
    assert archived["archived_at"] is not None
    assert await registry(world).archive("w", name) == archived
    with pytest.raises(ObjectArchivedError):
        await registry(world).update("w", name, lambda old: {**old, "title": "two"})
    await registry(world).delete("w", name)
    with pytest.raises(RegisteredObjectNotFoundError):
        registry(world).get("w", name)


async def test_workspaces_do_not_see_each_other(world: SessionWorld) -> None:
    name = (await registry(world).create("w", titled("one")))["id"]
    with pytest.raises(RegisteredObjectNotFoundError):
        registry(world).get("v", name)
    assert registry(world).list("v", None, 10, lambda one: True).documents == []


async def test_lists_are_newest_first_page_by_page(world: SessionWorld) -> None:
    for number in range(7):
        await registry(world).create("w", titled(str(number)))
        if number == 3:
            await world.flush()
    found: list[str] = []
    after: int | None = None
    while True:
        page = registry(world).list("w", after, 2, lambda one: one["title"] != "5")
        found += [document["title"] for document in page.documents]
        after = page.next
        if after is None:
            break
    assert found == ["6", "4", "3", "2", "1", "0"]
