"""One machine whose process has several engines, one for each partition: all use one bucket.

An engine may die alone and be opened again in the same process, or the process dies with all of its engines.
Each engine has clients and a history of its own. What must hold: each history is sound, and none of the
partitions touches what another one has in the bucket.
"""

import asyncio
import random
from dataclasses import replace
from pathlib import Path

from durable_sessions.testing.simulation.final_checks import FinalChecks
from durable_sessions.testing.simulation.plan import Doom, LifePlan, RunPlan
from durable_sessions.testing.simulation.world import World


class SeveralEngines:
    """Runs an engine for each partition of a plan, and checks the history of each."""

    def __init__(self, seed: str, plan: RunPlan, folder: Path, first: World) -> None:
        self._random = random.Random(f"{seed}/engines")
        self._plan = plan
        self.worlds = [first]
        self.problems: list[str] = []
        for partition in plan.partition.all()[1:] if plan.engines else ():
            own = folder / partition.digits
            own.mkdir()
            planned = replace(plan, partition=partition)
            self.worlds.append(World(f"{seed}/{partition.digits}", planned, own, first.trace, beside=first))

    async def run(self) -> None:
        """Run one process after the other, and judge every engine."""
        for life in self._plan.lives:
            await self._run_process(life)
        for world in self.worlds:
            judge = FinalChecks(world)
            await judge.run()
            self.problems += [f"partition {world.machine.partition.digits}: {one}" for one in judge.problems]

    async def _run_process(self, life: LifePlan) -> None:
        """Let one engine meet its doom: alone, or with the process."""
        unlucky, alone = self._random.choice(self.worlds), self._random.random() < 0.5
        calm = life._replace(doom=Doom(), disk_fault=None)
        if alone:  # the machine goes on, and nothing is lost that an engine has given to its disk
            life = life._replace(end="kill")
        tasks = [
            asyncio.create_task(self._run_engine(world, life if world is unlucky else calm, again=alone))
            for world in self.worlds
        ]
        if not alone:
            await tasks[self.worlds.index(unlucky)]
            for world in self.worlds:
                world.die(life.end)
        await asyncio.gather(*tasks)

    async def _run_engine(self, world: World, life: LifePlan, *, again: bool) -> None:
        """Run an engine to its end; one that has died alone is opened again in the same process."""
        await world.one_life(life)
        if again and life.doom != Doom():
            await world.one_life(life._replace(doom=Doom()))
