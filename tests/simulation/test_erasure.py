"""An erasure that was acknowledged never comes back, wherever the process dies."""

from typing import Any

import pytest

from durable_sessions.log.file import FileLog
from durable_sessions.storage.record_reader import Reader
from durable_sessions.testing.simulation.parallel_runs import run_all
from durable_sessions.testing.simulation.plan import End
from durable_sessions.testing.simulation.run import run_erasure_scenario


def test_the_scenario_erases_everything() -> None:
    result, reached = run_erasure_scenario(None)
    assert not result.problems
    assert {"after log.unlink", "after bucket.create manifest", "after bucket.delete events"} & set(reached)


def cut_off(case: tuple[int, End]) -> tuple[tuple[int, End], list[str]]:
    return case, run_erasure_scenario(*case)[0].problems


def test_a_crash_at_any_point_brings_nothing_back() -> None:
    _, reached = run_erasure_scenario(None)
    # A run takes long, so that each kind of point is tried once, in the middle of where it is reached.
    places: dict[str, list[int]] = {}
    for point, name in enumerate(reached, 1):
        places.setdefault(name, []).append(point)
    points = sorted(found[len(found) // 2] for found in places.values())
    cases: list[tuple[int, End]] = [(point, "power" if point % 2 else "kill") for point in points]
    failed = {
        (*case, reached[case[0] - 1]): problems for case, problems in run_all(cut_off, cases) if problems
    }
    assert not failed


def test_a_read_without_the_overlay_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def without_overlay(self: Reader, durable: Any, start: int, size: int, stop: int | None) -> Any:
        owner, end = self.owner(durable, start)
        return await self._read_stored(owner, start, min(end, durable.tail, stop or end), size)

    monkeypatch.setattr(Reader, "_read_cold", without_overlay)
    assert run_erasure_scenario(None)[0].problems


def test_a_log_that_keeps_its_file_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileLog, "begin_file", lambda _: None)
    problems = run_erasure_scenario(None)[0].problems
    assert any(".log still has" in problem for problem in problems)
