"""Final checks after all faults have ended: the process starts, works, and has lost nothing."""

import asyncio
from collections.abc import Awaitable, Callable

from durable_sessions.bucket.layout import FORMAT, FlushedNames, generation_of, manifests_prefix
from durable_sessions.bucket.probe import PREFIX as PROBE
from durable_sessions.errors import DurableSessionsError
from durable_sessions.sessions.graph.control import ATTRIBUTES
from durable_sessions.sessions.store import session_key
from durable_sessions.testing import history
from durable_sessions.testing.checker import check
from durable_sessions.testing.simulation import clients
from durable_sessions.testing.simulation.clients import Calls
from durable_sessions.testing.simulation.process import LOG_DIRECTORY, Process
from durable_sessions.testing.simulation.session_workers import WorkCalls
from durable_sessions.testing.simulation.world import World
from durable_sessions.testing.work_rules import WorkedSession, live_leases_are_kept
from durable_sessions.tier.next_manifest import referred
from durable_sessions.tools.verify import LOG_NAME, verify

READ_BYTES = 2_000
TRIES_MAX = 300


class FinalChecks:
    """Ends all faults in a world and collects its problems."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._calls = Calls("judge", world.book)
        self._work_calls = WorkCalls("judge", world.book)
        self.problems: list[str] = []

    async def run(self) -> None:
        """End all faults, start the process, and check everything."""
        world = self._world
        await world.heal()
        process = await self._started("after all trouble")
        if process is None:
            return
        await self._goes_on(process)
        await self._read_all(process)
        await self._tidy(process)
        if world.session_client is not None:
            await world.session_client.check_bytes(process)
        await self._stopped(process)
        await self._verified()
        for suffix in ("", "-wal", "-shm"):
            world.machine.catalog.with_name("catalog.sqlite" + suffix).unlink(missing_ok=True)
        process = await self._started("without its catalog")
        if process is None:
            return
        await self._read_all(process)
        await self._stopped(process)
        await self._verified()
        self._check_history()

    def _check_history(self) -> None:
        try:
            found = check(self._world.book.recorder.calls)
        except ValueError as error:
            self.problems.append(f"the history cannot be judged: {error}")
            return
        self.problems += [f"{one.rule} {one.stream}: {one.problem}" for one in found]
        if not self._world.plan.clock_jumps:
            self._check_leases()
        if self._world.plan.faultless:
            self._check_refusals()

    def _check_leases(self) -> None:
        """While no clock jumps, nobody loses a lease that is alive."""
        calls = self._world.book.recorder.calls
        for session in self._world.book.sessions:
            own = [call for call in calls if call.stream == session]
            if any(isinstance(call.outcome, history.SessionShown) for call in own):
                found = live_leases_are_kept(WorkedSession(session, own))
                self.problems += [f"live_leases_are_kept {session}: {problem}" for problem in found]

    def _check_refusals(self) -> None:
        """Without injected faults, a read may fail only because its stream is being removed."""
        calls = self._world.book.recorder.calls
        deleted = {call.stream for call in calls if isinstance(call.request, history.DeleteOperation)}
        deleted |= {path.name for path in self._world.book.paths if path.expires}
        self.problems += [
            f"it could not be read, although nothing failed: {call}"
            for call in calls
            if call.outcome == history.CallRefused("cold_read_failed") and call.stream not in deleted
        ]

    async def _started(self, when: str) -> Process | None:
        try:
            return await self._world.start()
        except DurableSessionsError as error:
            self.problems.append(f"it does not start {when}: {error.code}: {error}")
            return None

    async def _stopped(self, process: Process) -> None:
        await process.close()
        process.life.die()
        self._world.end(process, "stop", "kept")

    async def _goes_on(self, process: Process) -> None:
        """A sound server takes appends and flushes them."""
        path = clients.Path("judged", None)
        self._world.book.paths.append(path)
        created = await self._patiently(lambda: self._calls.create(process.partition, path))
        producer = history.ProducerNumbers("judge", 0, 0)
        appended = await self._patiently(
            lambda: self._calls.append(process.partition, path, ("judged",), producer)
        )
        if not isinstance(created, history.Done) or not isinstance(appended, history.AppendAcknowledged):
            self.problems.append(f"it does not take an append: {created}, {appended}")
        for _ in range(TRIES_MAX):
            try:
                await process.flusher.flush_all()
            except DurableSessionsError as error:
                self.problems.append(f"it does not flush: {error}")
                return
            if process.log.segment_count == 1:
                return
            await asyncio.sleep(0.1)  # a stream has expired or was accessed meanwhile
        self.problems.append(f"the log is not trimmed: {process.log.segment_count} segments")

    async def _patiently(self, call: Callable[[], Awaitable[history.Outcome]]) -> history.Outcome:
        """Repeat a call while it is shed because too much is waiting to be flushed."""
        for _ in range(TRIES_MAX):
            done = await call()
            if done != history.CallRefused("overloaded"):
                break
            await asyncio.sleep(1.0)
        return done

    async def _read_sessions(self, process: Process) -> None:
        """Read every session; what its stream knows of it at the tip must be what its events say."""
        for session in self._world.book.sessions:
            done = await self._work_calls.read(process, session)
            if done == history.CallRefused("session_not_found"):
                continue  # nobody has got as far as to make it
            if not isinstance(done, history.SessionShown):
                self.problems.append(f"the session {session} cannot be read: {done}")
                continue
            durable = process.sessions.find(session_key("default", session))
            fold = await process.sessions.folds.at(durable, durable.tail)
            known = {name: durable.attributes[name] for name in ATTRIBUTES if name in durable.attributes}
            if fold.control.attributes() != known:
                self.problems.append(f"{session} is known as {known}: {fold.control.attributes()} is folded")

    async def _read_all(self, process: Process) -> None:
        """Read every session, and every stream from its first message to its tail."""
        await self._read_sessions(process)
        if self._world.session_client is not None:
            await self._world.session_client.check(process)
        for path in self._world.book.paths:
            offset = 0
            while True:
                done = await self._calls.read(process.partition, path, offset, READ_BYTES)
                if isinstance(done, history.Answered) and done.next > offset and not done.up_to_date:
                    offset = done.next
                    continue
                if isinstance(done, history.CallRefused) and done.code in ("stream_not_found", "stream_gone"):
                    break
                if not isinstance(done, history.Answered):
                    self.problems.append(f"{path.name} cannot be read from {offset}: {done}")
                break

    async def _tidy(self, process: Process) -> None:
        """The bucket must contain the objects that the manifest refers to, and nothing else."""
        limits, archive = self._world.plan.limits, process.archive
        assert archive is not None
        graces = limits.delete_within_seconds + limits.orphan_grace_seconds + limits.garbage_grace_seconds
        await asyncio.sleep(4 * (graces + limits.sweep_seconds + limits.maintenance_seconds))
        kept = referred(archive.manifest)
        others = (manifests_prefix(archive.partition), FORMAT, f"{PROBE}/")
        left = sorted(
            path
            for path in self._world.machine.store.objects
            if path not in kept and not path.startswith(others) and not self._is_of_another(path)
        )
        if left:
            self.problems.append(f"nothing refers to these objects, and they are still there: {left}")
        if archive.manifest.garbage or archive.catalog.reader.dirty():
            self.problems.append(f"not merged or removed: {archive.manifest.garbage}")
        for failure in (process.flusher.failure, process.maintenance.failure):
            if failure is not None:
                self.problems.append(f"it still fails: {failure.reason}")

    def _is_of_another(self, path: str) -> bool:
        """Say whether another partition has written an object: it is checked with that one."""
        own = FlushedNames(self._world.machine.partition)
        return generation_of(path) is not None and own.parse(path) is None

    async def _verified(self) -> None:
        """Log, bucket and catalog agree, byte for byte."""
        machine = self._world.machine
        self.lay_out_log()
        findings = await verify(machine.store, machine.folder, partition=machine.partition)
        self.problems += [f"verify: {problem}" for problem in findings.problems]

    def lay_out_log(self) -> None:
        """Write the log's files where verification looks for them: in a real folder beside the catalog."""
        machine = self._world.machine
        folder = machine.folder / LOG_NAME
        folder.mkdir(exist_ok=True)
        for file in folder.iterdir():
            file.unlink()
        for path, content in machine.disk.contents().items():
            if path.parent == LOG_DIRECTORY:
                (folder / path.name).write_bytes(content)
