"""When space counts as low, and when it is enough again."""

from pathlib import Path

import pytest

from durable_sessions.limits import DEFAULT_LIMITS, MIB
from durable_sessions.node import disk_space
from durable_sessions.node.disk_space import DiskSpace, Space, low_mark, space_of

pytestmark = pytest.mark.anyio

GIB = 1024 * MIB


def test_the_mark_is_one_percent_of_the_disk_but_not_more_than_256_mib() -> None:
    assert low_mark(10 * GIB, 0) == 10 * GIB // 100
    assert low_mark(25_600 * MIB, 0) == 256 * MIB
    assert low_mark(10_000 * GIB, 0) == 256 * MIB
    assert low_mark(10_000 * GIB, 5 * GIB) == 5 * GIB, "what an operator has set is taken as it is"


def test_the_space_of_a_real_disk(tmp_path: Path) -> None:
    size, free = space_of(tmp_path)
    assert 0 <= free <= size
    assert size > 0


async def test_it_is_low_below_the_mark_and_enough_a_quarter_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, bool]] = []

    def changed(space: Space, mark: int, is_low: bool) -> None:
        assert mark == 1_000
        told.append((space.free, is_low))

    watch = DiskSpace(tmp_path, 1_000, DEFAULT_LIMITS, changed)
    for free in (1_001, 1_000, 999, 1_000, 1_249, 1_250, 1_000, 999, 0):
        monkeypatch.setattr(disk_space, "space_of", lambda _, free=free: Space(10**6, free))
        await watch.check()
    low = [is_low for _, is_low in told]
    assert low == [False, False, True, True, True, False, False, True, True]
