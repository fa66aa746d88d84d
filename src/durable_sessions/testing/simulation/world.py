"""A world: processes start and die on a machine while clients use them, until all faults are ended."""

import asyncio
import random
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from durable_sessions.errors import DurableSessionsError
from durable_sessions.node.partition_files import CATALOG_SUFFIXES
from durable_sessions.testing.disk import FaultyDisk
from durable_sessions.testing.history import Recorder
from durable_sessions.testing.simulation.bucket import LATE_SECONDS_MAX, NetworkFaults, SimulatedStore
from durable_sessions.testing.simulation.clients import Book, SimulatedClient
from durable_sessions.testing.simulation.clock import SeededIds, SimulatedClock
from durable_sessions.testing.simulation.disk import DiskFaults
from durable_sessions.testing.simulation.life import Life
from durable_sessions.testing.simulation.loop import SimulatedLoop
from durable_sessions.testing.simulation.plan import CatalogFate, Doom, End, LifePlan, RunPlan
from durable_sessions.testing.simulation.process import Machine, Process
from durable_sessions.testing.simulation.session_client import SessionClient
from durable_sessions.testing.simulation.session_workers import SimulatedWorker
from durable_sessions.testing.simulation.trace import Trace
from durable_sessions.tools.verify.catalog import about, copied

OPENS_MAX = 4
"""How often a failed start is repeated before the plan continues."""


class Worker(Protocol):
    """Works with one process after the other."""

    async def run(self, process: Process) -> None:
        """Work until all is done; may end with its process at any moment."""
        ...


class World:
    """A machine and its clients."""

    def __init__(
        self, seed: str, plan: RunPlan, folder: Path, trace: Trace, *, beside: "World | None" = None
    ) -> None:
        """Make a machine; ``beside`` another one it shares loop, clock and bucket with that."""
        self.name = "the first server" if beside is None else "the second server"
        self.served: list[tuple[float, float]] = []
        self.plan = plan
        self.trace = trace
        self._random = random.Random(f"{seed}/world")
        self._delays = random.Random(f"{seed}/delays")
        self.loop: SimulatedLoop = (
            SimulatedLoop(  # type: ignore[abstract]  # it has what the engine uses: no sockets
                self._delay, lambda: self._delays.random() < 0.5
            )
            if beside is None
            else beside.loop
        )
        clock = SimulatedClock(self.loop.time) if beside is None else beside.machine.clock
        self.machine: Machine = Machine(
            loop=self.loop,
            clock=clock,
            ids=SeededIds(f"{seed}/ids"),
            disk=FaultyDisk(self._random.getrandbits(64)),
            disk_faults=DiskFaults(f"{seed}/disk", plan.disk_faults),
            store=SimulatedStore(f"{seed}/bucket", clock.true_ms, self.note, plan.network_faults)
            if beside is None
            else beside.machine.store,
            folder=folder,
            limits=plan.limits,
            flush_seconds=plan.flush_seconds,
            note=self.note,
            partition=plan.partition,
        )
        self._life: Life | None = None
        self._fate: End | None = None
        self._last_time = 0.0
        self.reached: list[list[str]] = []
        self.book = Book(Recorder(self._recorded_time))
        letter = "c" if beside is None else "d"
        self.clients = [f"{letter}{number}" for number in range(plan.clients)]
        self.workers: list[Worker] = [
            SimulatedClient(name, seed, self.book, plan.pause_seconds) for name in self.clients
        ]
        self.session_client: SessionClient | None = None
        if plan.sessions:
            self.session_client = SessionClient(seed, self.book, plan.pause_seconds)
            self.workers.append(self.session_client)
        self.workers += [
            SimulatedWorker(f"w{number}", seed, self.book, plan.pause_seconds)
            for number in range(plan.workers)
        ]

    def note(self, what: str) -> None:
        """Take in a step of the run."""
        self.trace.note(self.loop.time(), what)

    async def live(self) -> None:
        """Run every process of the plan, with its faults."""
        troubles = [
            trouble
            for wanted, trouble in ((self.plan.clock_jumps, self._jump), (self.plan.outages, self._fail))
            if wanted
        ]
        tasks = [self.loop.create_task(trouble()) for trouble in troubles]
        for life in self.plan.lives:
            for tried in range(OPENS_MAX):
                if await self.one_life(life if not tried else life._replace(doom=Doom())):
                    break
        for task in tasks:
            task.cancel()

    async def heal(self) -> None:
        """End all faults, and let calls in flight finish."""
        self.machine.disk_faults.rate = 0.0
        self.machine.store.faults = NetworkFaults()
        self.machine.store.away = False
        self.machine.store.mishap = None
        # Requests of dead processes may still be under way; until the last has arrived the bucket can change.
        await asyncio.sleep(LATE_SECONDS_MAX)
        self.machine.clock.settle()

    async def start(self) -> Process:
        """Start a process without faults."""
        process = Process(self.machine, Life(self.note))
        await self.loop.create_task(process.open(), context=process.life.context)
        return process

    # One life ---------------------------------------------------------------------------

    async def one_life(self, plan: LifePlan) -> bool:
        """Run a process to its end; say whether it got as far as to serve.

        ``served`` gets when it was started, and when it began to serve.
        """
        life = Life(self.note)
        self._life, self._fate = life, None
        life.die_at_step, life.die_at_point, life.die_at_name = plan.doom
        process = Process(self.machine, life)
        over: asyncio.Future[None] = self.loop.create_future()
        life.watch(over)
        self.note(f"a life begins: {plan}")
        self.machine.store.mishap = None if plan.mishap is None else replace(plan.mishap)
        if plan.disk_fault is not None:
            self.machine.disk.fail(plan.disk_fault.operation, skip=plan.disk_fault.skip)
        self.loop.create_task(self._serve(process, plan), context=life.context)
        await over
        served = process.serving
        self._life = None
        self.end(process, self._fate or plan.end, plan.catalog)
        await asyncio.sleep(self._random.choice((0.0, 0.0, 0.5, 100.0)))
        return served

    async def _serve(self, process: Process, plan: LifePlan) -> None:
        began = self.loop.time()
        try:
            await process.open()
            self.served.append((began, self.loop.time()))
            await self._serve_until(process, plan)
        except DurableSessionsError as error:
            self.note(f"does not start: {error.code}")
        except Exception as error:
            if not process.life.dead:  # else it was killed, and wanted to wait for something on its way out
                self.book.problems.append(f"the process raised {error!r}")
        process.life.die()

    async def _serve_until(self, process: Process, plan: LifePlan) -> None:
        working = asyncio.gather(*[worker.run(process) for worker in self.workers])
        ends_at = self.loop.time() + plan.seconds
        while self.loop.time() < ends_at and not process.ailing and not working.done():  # noqa: ASYNC110
            await asyncio.sleep(0.25)
        if working.done():
            working.result()
        if plan.end == "stop" or process.ailing:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await process.close()

    def die(self, end: End) -> None:
        """Let the process die now, if one runs, because its machine ends in this way."""
        if self._life is not None:
            self._fate = end
            self._life.die()

    def end(self, process: Process, end: End, catalog: CatalogFate) -> None:
        """Clear away a process that has ended, and do to the machine what its end does."""
        self.reached.append(process.life.reached)
        process.life.bury()
        process.release_files()
        # Objects of the dead process must not be finalised at a random moment of the next life: a seed would
        # not be the same run any more.
        self.loop.collect()
        self._check_catalog()
        if end == "power":
            self.machine.disk.crash()
            self._power_lost()
        else:
            self.machine.disk.kill()
        self._change_catalog(catalog)
        self.note(f"ended by {end}, catalog {catalog}")

    # What becomes of the catalog --------------------------------------------------------

    def _check_catalog(self) -> None:
        """Check that a catalog that a process leaves is not newer than the newest manifest."""
        try:
            found = about(self.machine.catalog)
        except sqlite3.DatabaseError:
            return  # it was not made yet
        manifest = self.machine.store.newest_manifest(self.machine.partition)
        newest = (0, 0) if manifest is None else (manifest.number, manifest.flushed_through)
        if found[0] > newest[0] or (found[0] == newest[0] and found != newest):
            self.machine.problems.append(f"the catalog is of manifest {found}, but the newest is {newest}")

    def _power_lost(self) -> None:
        """Let the catalog be one of the time before the machine started anew."""
        if self.machine.catalog.exists():
            connection = sqlite3.connect(self.machine.catalog)
            try:
                # A catalog that was written before the machine started anew is not trusted: it was never
                # synced.
                connection.execute("update about set boot = 'another'")
                connection.commit()
            except sqlite3.DatabaseError:
                pass
            finally:
                connection.close()

    def _change_catalog(self, fate: CatalogFate) -> None:
        catalog, older = self.machine.catalog, self.machine.folder / "older"
        if not catalog.exists():
            return
        kept = (older / catalog.name).exists()
        if fate == "older" and kept:
            _remove_catalog(catalog)
            for file in sorted(older.iterdir()):
                shutil.copyfile(file, catalog.with_name(file.name))
        elif not kept or self._random.random() < 0.5:
            _remove_catalog(older / catalog.name)
            copied(catalog, older)
        if fate == "deleted":
            _remove_catalog(catalog)
        elif fate in ("emptied", "rubbish"):
            size = catalog.stat().st_size if fate == "rubbish" else 0
            catalog.unlink()
            catalog.write_bytes(self._random.randbytes(size))

    # Trouble ----------------------------------------------------------------------------

    async def _jump(self) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(0.2))
            seconds = self._random.choice((-300.0, -5.0, 0.5, 60.0, 3 * 3600.0)) * self._random.random()
            self.note(f"the clock jumps by {seconds:.3f}")
            self.machine.clock.jump(seconds)

    async def _fail(self) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(0.2))
            self.machine.store.away = not self.machine.store.away

    def _delay(self) -> float:
        slow = self.plan.slow_disk and self._delays.random() < 0.05
        return self._delays.random() * (2.0 if slow else 0.002)

    def _recorded_time(self) -> float:
        """Return the virtual time, a little later each time that it is asked for."""
        # Two calls at one moment would have no order for the checker.
        self._last_time = max(self.loop.time(), self._last_time + 1e-6)
        return self._last_time


def _remove_catalog(catalog: Path) -> None:
    for suffix in CATALOG_SUFFIXES:
        catalog.with_name(catalog.name + suffix).unlink(missing_ok=True)
