"""Two machines on one bucket: a second server with a new directory, or with a copy of the first one's.

Each machine has its own disk, its own clients and its own history. What must hold: a server that opens
has all that it acknowledged and nothing of the other; what a refused one acknowledged is on its disk, or in
the bucket; and a server that has been fenced stops acknowledging soon.
"""

import asyncio
import copy
import random
from math import inf
from pathlib import Path

from durable_sessions.errors import DurableSessionsError
from durable_sessions.testing import history
from durable_sessions.testing.simulation.clients import Calls
from durable_sessions.testing.simulation.final_checks import READ_BYTES, FinalChecks
from durable_sessions.testing.simulation.plan import LifePlan, RunPlan
from durable_sessions.testing.simulation.world import World
from durable_sessions.tools.verify import verify

REFUSALS = ("log_foreign", "log_diverged", "archive_ahead", "archive_behind")
"""The errors with which a fenced server is refused."""
SLACK_SECONDS = 5.0
"""How long after a flush is due a fenced server may still acknowledge."""


class CompetingServers:
    """Runs both machines at the same time, and checks the history of each."""

    def __init__(self, seed: str, plan: RunPlan, folder: Path, first: World) -> None:
        self._random = random.Random(f"{seed}/rivals")
        self._seed = seed
        self._plan = plan
        self._folder = folder
        self.worlds = [first]
        self.problems: list[str] = []

    async def run(self) -> None:
        """Let the first machine live alone for a while, then both, and judge them."""
        first, (alone, *lives) = self.worlds[0], self._plan.lives
        await first.one_life(alone)
        second = self._second(first)
        self.worlds.append(second)
        await asyncio.gather(*[self._live(world, lives) for world in self.worlds])
        await first.heal()
        # By chance, because opening makes a manifest: whoever opens first fences the other.
        order = list(self.worlds)
        self._random.shuffle(order)
        refused = [world for world in order if not await self._opens(world)]
        winners = [world for world in order if world not in refused]
        if not winners:
            self.problems.append("neither server opens")
            return
        await self._check_refused(refused, winners[-1])
        self._check_acknowledged()

    def _second(self, first: World) -> World:
        folder = self._folder / "second"
        folder.mkdir()
        second = World(f"{self._seed}/second", self._plan, folder, first.trace, beside=first)
        if self._plan.rival == "new":
            second.book.prefix = "new-"
        else:
            for path, content in first.machine.disk.contents().items():
                second.machine.disk.replace(path, content)
            second.book.paths += [copy.copy(path) for path in first.book.paths]
            second.book.recorder.calls += first.book.recorder.calls
        return second

    async def _live(self, world: World, lives: list[LifePlan]) -> None:
        for life in lives:
            await asyncio.sleep(4.0 * self._random.random())
            await world.one_life(life)

    async def _opens(self, world: World) -> bool:
        """Try to start a server after all trouble; if it starts it must have all that it acknowledged."""
        try:
            process = await world.start()
        except DurableSessionsError as error:
            if error.code not in REFUSALS:
                self.problems.append(f"{world.name} is refused with {error.code}: {error}")
            return False
        await process.close()
        process.life.die()
        world.end(process, "stop", "kept")
        judge = FinalChecks(world)
        await judge.run()
        self.problems += judge.problems
        return True

    async def _check_refused(self, refused: list[World], winner: World) -> None:
        """What a refused server acknowledged is on its disk or served by the other; and verify sees it."""
        for world in refused:
            served = await self._served(winner, world)
            own = {value for call in _appends(world) for value in _values(call)}
            for value, stream in served.items():
                if self._plan.rival == "new" and value not in own:
                    self.problems.append(f"{value!r} is in {stream}, and was never appended to it")
            # Searched as bytes: the log of a refused server need not be readable as a whole.
            kept = b"\n".join(world.machine.disk.contents().values())
            gone = _deleted(world) | _deleted(winner)
            for call in _appends(world):
                if not isinstance(call.outcome, history.AppendAcknowledged) or call.stream in gone:
                    continue
                for value in _values(call):
                    if value not in served and value.encode() not in kept:
                        self.problems.append(f"{value!r} was acknowledged by {world.name} and is nowhere")
            judge = FinalChecks(world)
            judge.lay_out_log()
            machine = world.machine
            found = await verify(machine.store, machine.folder, partition=machine.partition)
            if not found.problems:
                self.problems.append(f"verify finds nothing wrong with {world.name}, which is refused")

    async def _served(self, winner: World, other: World) -> dict[str, str]:
        """Return what the winner shows in the streams that the other one's clients know."""
        process = await winner.start()
        calls = Calls("looker", winner.book)
        found: dict[str, str] = {}
        for path in other.book.paths:
            offset = 0
            while True:
                done = await calls.read(process.partition, path, offset, READ_BYTES)
                # It was deleted or has expired; what was in it need not be served.
                if not isinstance(done, history.Answered):
                    break
                found.update(dict.fromkeys(done.values, path.name))
                if done.up_to_date or done.next == offset:
                    break
                offset = done.next
        await process.close()
        process.life.die()
        winner.end(process, "stop", "kept")
        return found

    def _check_acknowledged(self) -> None:
        """Whoever is overtaken stops soon; and who was overtaken by a new directory never opens again."""
        # A fenced server learns of it with its next flush at the latest; one may be under way already.
        bound = 2 * self._plan.flush_seconds + SLACK_SECONDS
        for world in self.worlds:
            other = next(one for one in self.worlds if one is not world)
            own = [call for call in _appends(world) if call.client in world.clients]
            for claimed_after, overtaken_at in other.served:
                # A process that may have become the writer after the other one ends the time of silence.
                again = min((began for began, served in world.served if served > claimed_after), default=inf)
                late = [
                    call
                    for call in own
                    if overtaken_at + bound < call.started < again
                    and isinstance(call.outcome, history.AppendAcknowledged)
                ]
                if late:
                    self.problems.append(
                        f"{world.name} was overtaken at {overtaken_at:.3f} and still acknowledges: {late[0]}"
                    )
        if self._plan.rival == "new":
            first, second = self.worlds
            taken = min((served for _, served in second.served), default=inf)
            if any(began > taken for began, _ in first.served):
                self.problems.append("the old server has opened a bucket that a new one had begun to use")


def _appends(world: World) -> list[history.RecordedCall]:
    return [call for call in world.book.recorder.calls if isinstance(call.request, history.AppendOperation)]


def _values(call: history.RecordedCall) -> tuple[str, ...]:
    assert isinstance(call.request, history.AppendOperation)
    return call.request.values


def _deleted(world: World) -> set[str]:
    deleted = {
        call.stream for call in world.book.recorder.calls if isinstance(call.request, history.DeleteOperation)
    }
    return deleted | {path.name for path in world.book.paths if path.expires}
