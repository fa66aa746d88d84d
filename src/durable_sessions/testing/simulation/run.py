"""Runs a seed: the world, its final checks, and the result."""

import gc
import tempfile
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from durable_sessions.testing.simulation.clients import Book
from durable_sessions.testing.simulation.competing_servers import CompetingServers
from durable_sessions.testing.simulation.erasure_scenario import ErasureStory, erasure_scenario
from durable_sessions.testing.simulation.final_checks import FinalChecks
from durable_sessions.testing.simulation.loop import StuckError
from durable_sessions.testing.simulation.outbox_scenario import OutboxStory, outbox_scenario
from durable_sessions.testing.simulation.plan import (
    End,
    RunPlan,
    engines_plan,
    plan,
    rival_plan,
    sessions_plan,
    work_plan,
)
from durable_sessions.testing.simulation.scenario import Story, scenario
from durable_sessions.testing.simulation.several_engines import SeveralEngines
from durable_sessions.testing.simulation.trace import Trace
from durable_sessions.testing.simulation.world import Worker, World

FAULTS_OF_OURS = ("committer_failed", "listener_failed", "task_failed")
"""What the engine logs, with a traceback, when something has happened that it holds to be impossible."""


class Run(NamedTuple):
    """The result of a seed: ``problems`` is empty if it passed; equal digests mean equal runs."""

    seed: int
    problems: list[str]
    digest: str
    calls: int
    steps: int
    lines: list[str]


def run(seed: int, planned: RunPlan | None = None, *, trace: bool = False) -> Run:
    """Run a seed, by its own plan or another, and judge it; the same seed gives the same run, everywhere."""
    return _run(seed, planned or plan(seed), Trace(keep=trace), None)[0]


def run_rivals(seed: int, *, trace: bool = False) -> Run:
    """Run a seed with two servers on one bucket, and judge it."""
    return run(seed, rival_plan(seed), trace=trace)


def run_engines(seed: int, *, trace: bool = False) -> Run:
    """Run a seed with several engines in one process, and judge each."""
    return run(seed, engines_plan(seed), trace=trace)


def run_work(seed: int, *, trace: bool = False) -> Run:
    """Run a seed with workers that share sessions, and judge it."""
    return run(seed, work_plan(seed), trace=trace)


def run_sessions(seed: int, *, trace: bool = False) -> Run:
    """Run a seed with a client of sessions, and judge it."""
    return run(seed, sessions_plan(seed), trace=trace)


def run_scenario(point: int | None, end: End = "power", *, trace: bool = False) -> tuple[Run, list[str]]:
    """Tell the scenario, cut off at a fault point if one is given.

    Return also the names of the points that the first process has passed.
    """
    return _run(point or 0, scenario(point, end), Trace(keep=trace), Story)


def run_outbox_scenario(point: int | None, end: End = "power") -> tuple[Run, list[str]]:
    """Do the same with the scenario in which a partition owes records to another one."""
    return _run(point or 0, outbox_scenario(point, end), Trace(keep=False), OutboxStory)


def run_erasure_scenario(point: int | None, end: End = "power") -> tuple[Run, list[str]]:
    """Do the same with the scenario in which records are erased."""
    return _run(point or 0, erasure_scenario(point, end), Trace(keep=False), ErasureStory)


def _run(
    seed: int, planned: RunPlan, trace: Trace, worker: Callable[[Book], Worker] | None
) -> tuple[Run, list[str]]:
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="simulation-", dir=_folder()) as folder, _collected_by_hand():
        world = World(str(seed), planned, Path(folder), trace)
        if worker is not None:
            world.workers = [worker(world.book)]
        judge = FinalChecks(world)
        rivals = CompetingServers(str(seed), planned, Path(folder), world)
        engines = SeveralEngines(str(seed), planned, Path(folder), world)

        async def main() -> None:
            if planned.rival is not None:
                await rivals.run()
                return
            if planned.engines:
                await engines.run()
                return
            await world.live()
            await judge.run()

        with _logged(world, problems):
            try:
                world.loop.run(main())
            except StuckError as error:
                problems.append(str(error))
            except Exception as error:
                problems.append(f"the engine raised {error!r}")
        problems += judge.problems + rivals.problems + engines.problems + world.loop.problems
        calls = []
        operations = 0
        for one in engines.worlds if planned.engines else rivals.worlds:
            problems += one.book.problems + one.machine.problems
            calls += one.book.recorder.calls
            operations += one.book.operations
        for call in calls:
            trace.note(call.started, f"{call}")
        world.loop.close()
    made = len(calls) + operations
    return Run(seed, problems, trace.digest, made, world.loop.steps, trace.lines), world.reached[0]


def _folder() -> str | None:
    """Return a folder in memory, if the machine has one: the catalog is a real file."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108


@contextmanager
def _collected_by_hand() -> Iterator[None]:
    """Keep the garbage collector from ending coroutines at a time that the seed does not decide."""
    enabled = gc.isenabled()
    gc.disable()
    gc.freeze()  # so that what was there before the run costs nothing when a process is collected
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()


@contextmanager
def _logged(world: World, problems: list[str]) -> Iterator[None]:
    """Put what the engine logs into the trace, and take its own faults for problems."""

    def take(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        world.note(f"logged {event['event']}")
        if event["event"] in FAULTS_OF_OURS and event.get("exc_info"):
            problems.append(f"{event['event']}: {event.get('exc_info')}")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[take])
    try:
        yield
    finally:
        structlog.configure(**before)
