"""Crashes at every single fault point of a scenario, before and after each change of anything outside."""

from durable_sessions.testing.simulation.parallel_runs import run_all
from durable_sessions.testing.simulation.plan import End
from durable_sessions.testing.simulation.run import run_scenario

PASSED = {
    "log.create",
    "log.write",
    "log.sync",
    "log.sync_directory",
    "log.unlink",
    "bucket.create events",
    "bucket.create sessions",
    "bucket.create catalog",
    "bucket.create manifest",
    "bucket.delete events",
    "bucket.delete sessions",
    "bucket.delete manifest",
    "catalog.apply",
}


def test_the_scenario_passes_all_points_on_both_sides() -> None:
    result, reached = run_scenario(None)
    assert not result.problems
    assert {f"{side} {name}" for side in ("before", "after") for name in PASSED} <= set(reached)


def cut_off(case: tuple[int, End]) -> tuple[tuple[int, End], list[str]]:
    return case, run_scenario(*case)[0].problems


def test_a_crash_at_any_point_loses_nothing() -> None:
    _, reached = run_scenario(None)
    ends: tuple[End, ...] = ("power", "kill")
    cases = [(point, end) for point in range(1, len(reached) + 1) for end in ends]
    failed = {
        (*case, reached[case[0] - 1]): problems for case, problems in run_all(cut_off, cases) if problems
    }
    assert not failed
