"""Seeds: those that once found a fault, some others, and that each means the same run everywhere."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from durable_sessions.partition_id import PartitionId
from durable_sessions.testing.simulation.parallel_runs import run_all
from durable_sessions.testing.simulation.plan import plan
from durable_sessions.testing.simulation.run import Run, run, run_engines, run_work

SEEDS = Path(__file__).with_name("seeds.txt")
COUNT = 100


def kept() -> list[int]:
    lines = [line.split("#")[0].strip() for line in SEEDS.read_text().splitlines()]
    return [int(line) for line in lines if line]


def test_no_seed_shows_a_fault() -> None:
    chosen = sorted({*kept(), *range(COUNT)})
    failed = {result.seed: result.problems[:5] for result in run_all(run, chosen) if result.problems}
    assert not failed


def in_partition_5(seed: int) -> Run:
    return run(seed, replace(plan(seed), partition=PartitionId(5, of=8)))


def test_no_seed_shows_a_fault_in_another_partition() -> None:
    failed = {one.seed: one.problems[:5] for one in run_all(in_partition_5, range(20)) if one.problems}
    assert not failed


def test_no_seed_shows_a_fault_with_several_engines() -> None:
    failed = {one.seed: one.problems[:5] for one in run_all(run_engines, range(12)) if one.problems}
    assert not failed


def test_no_seed_shows_a_fault_with_workers_that_take_over() -> None:
    results = list(run_all(run_work, range(60)))
    assert not {one.seed: one.problems[:5] for one in results if one.problems}
    assert sum(one.calls for one in results) > 60


def test_a_seed_is_the_same_run_in_every_process() -> None:
    code = (
        "from durable_sessions.testing.simulation.run import run, run_engines, run_work\n"
        "print([run(seed).digest for seed in (1, 2, 3, 50, 51, 52)], run_engines(3).digest)\n"
        "print([run_work(seed).digest for seed in (2, 3)])"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2000")
    }
    assert len(digests) == 1


def test_the_trace_has_every_step_and_changes_nothing() -> None:
    traced, plain = run(7, trace=True), run(7)
    assert traced.digest == plain.digest
    assert any("after log.sync" in line for line in traced.lines)
    assert plain.lines == []
