"""``python -m durable_sessions.testing.simulation``: run seeds, and say which of them fail."""

import random
import time
from collections.abc import Iterator
from itertools import count
from typing import Protocol

import click

from durable_sessions.testing.simulation.parallel_runs import run_all
from durable_sessions.testing.simulation.run import (
    Run,
    run,
    run_engines,
    run_rivals,
    run_sessions,
    run_work,
)

PROBLEMS_SHOWN_MAX = 10


class _RunSeed(Protocol):
    def __call__(self, seed: int, *, trace: bool = False) -> Run:
        """Run a seed."""
        ...


# Functions of other modules: those of this one cannot be sent to worker processes, which do not import it.
_KINDS: dict[str, _RunSeed] = {
    "": run,
    "rivals": run_rivals,
    "engines": run_engines,
    "work": run_work,
    "sessions": run_sessions,
}


@click.command()
@click.option("--seed", type=int, help="Run this seed alone.")
@click.option("--trace", is_flag=True, help="With --seed: print every step.")
@click.option("--seeds", type=int, help="Run this many seeds, from --first on.")
@click.option("--first", type=int, default=0, show_default=True, help="The first of the seeds.")
@click.option("--minutes", type=float, help="Run fresh seeds for so long.")
@click.option("--rivals", is_flag=True, help="Run two servers on one bucket, each with its own disk.")
@click.option("--engines", is_flag=True, help="Run an engine for each of several partitions.")
@click.option("--work", is_flag=True, help="Run workers that share sessions: leases, take-overs, stops.")
@click.option("--sessions", is_flag=True, help="Run a client of sessions, slots and erasures beside a model.")
@click.option("--jobs", type=int, help="Processes to run them in; one per processor if not given.")
def main(
    seed: int | None,
    trace: bool,
    seeds: int | None,
    first: int,
    minutes: float | None,
    rivals: bool,
    engines: bool,
    work: bool,
    sessions: bool,
    jobs: int | None,
) -> None:
    """Simulate the engine from seeds; exits with 1 if any of them shows a fault."""
    chosen_kinds = {"rivals": rivals, "engines": engines, "work": work, "sessions": sessions}
    kind = next((name for name, wanted in chosen_kinds.items() if wanted), "")
    if seed is not None:
        raise SystemExit(_run_one(seed, kind, trace=trace))
    if minutes is not None:
        first = random.SystemRandom().randrange(1 << 32)
    chosen = (
        _fresh(first, minutes * 60) if minutes is not None else iter(range(first, first + (seeds or 100)))
    )
    done = failed = calls = 0
    started = time.monotonic()
    for result in run_all(_KINDS[kind], chosen, jobs):
        done, calls = done + 1, calls + result.calls
        if result.problems:
            failed += 1
            _tell(result, kind)
    seconds = time.monotonic() - started
    click.echo(f"{done} seeds from {first} on, {calls} calls, {failed} seeds failed, {seconds:.0f} seconds")
    raise SystemExit(1 if failed else 0)


def _fresh(first: int, seconds: float) -> Iterator[int]:
    ends = time.monotonic() + seconds
    for seed in count(first):
        if time.monotonic() >= ends:
            return
        yield seed


def _run_one(seed: int, kind: str, *, trace: bool) -> int:
    result = _KINDS[kind](seed, trace=trace)
    for line in result.lines:
        click.echo(line)
    _tell(result, kind)
    click.echo(f"{result.calls} calls, {result.steps} steps, digest {result.digest}")
    return 1 if result.problems else 0


def _tell(result: Run, kind: str) -> None:
    if result.problems:
        click.echo(f"seed {result.seed} fails; to see it again:")
        options = f"--seed {result.seed} --trace" + (f" --{kind}" if kind else "")
        click.echo(f"  python -m durable_sessions.testing.simulation {options}")
    for problem in result.problems[:PROBLEMS_SHOWN_MAX]:
        click.echo(f"  {problem}")


if __name__ == "__main__":
    main()
