"""A catalog that follows the manifests of another process is what that process has itself."""

from pathlib import Path

import pytest

from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.storage.indexed import nothing_indexed
from durable_sessions.tier import catalog_opening, catalog_shadow
from durable_sessions.tier.catalog_rebuild import no_names
from durable_sessions.tier.catalog_shadow import CatalogShadow
from tests.unit.storage.world import LIMITS, World

pytestmark = pytest.mark.anyio


def shadow_of(world: World, path: Path) -> CatalogShadow:
    return CatalogShadow(path, world.store, ONLY_PARTITION, no_names, nothing_indexed, LIMITS)


async def change(world: World, number: int) -> None:
    await world.create(f"s{number}", b"[1,2]")
    await world.append("s0", b"[3]")
    if number % 2:
        await world.delete(f"s{number}")
    await world.flush()


async def test_a_shadow_has_what_the_owner_has(tmp_path: Path) -> None:
    world = await World(tmp_path / "owner").open()
    shadow = shadow_of(world, tmp_path / "shadow" / "catalog.sqlite")
    await shadow.advance()
    for number in range(6):
        await change(world, number)
        await shadow.advance()
        assert shadow.manifest == world.archive.manifest.number
    await shadow.close()
    known = world.catalog()
    await world.close()
    world.catalog_path = tmp_path / "shadow" / "catalog.sqlite"
    assert world.catalog() == known


async def test_an_owner_opens_the_catalog_of_a_shadow_and_makes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await World(tmp_path / "owner").open()
    await change(world, 0)
    path = tmp_path / "shadow" / "catalog.sqlite"
    shadow = shadow_of(world, path)
    await shadow.advance()
    await change(world, 1)
    known = world.catalog()
    await world.close()
    await shadow.advance()
    await shadow.close()

    async def never(*_: object) -> None:
        raise AssertionError("the catalog was made anew")

    monkeypatch.setattr(catalog_opening, "restore", never)
    monkeypatch.setattr(catalog_opening, "rebuild", never)
    world.catalog_path = path
    await world.open()
    assert world.catalog() == known
    assert await world.read("s0") == b"1,2,3,3,"
    await world.close()


async def test_a_shadow_that_cannot_be_advanced_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await World(tmp_path / "owner").open()
    await change(world, 0)
    shadow = shadow_of(world, tmp_path / "shadow" / "catalog.sqlite")
    await shadow.advance()
    await change(world, 1)

    async def refuse(*_: object) -> None:
        raise ValueError("of another history")

    monkeypatch.setattr(catalog_shadow, "advance", refuse)
    await shadow.advance()
    assert shadow.manifest == world.archive.manifest.number
    await shadow.close()
    known = world.catalog()
    await world.close()
    world.catalog_path = tmp_path / "shadow" / "catalog.sqlite"
    assert world.catalog() == known
