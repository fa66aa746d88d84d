"""The simulation finds what it is there for: each fault put into the engine shows within some seeds."""

import pytest

from durable_sessions.testing.simulation.parallel_runs import run_all
from durable_sessions.testing.simulation.plan import engines_plan, plan
from durable_sessions.testing.simulation.run import run
from tests.simulation.planted import PLANS, PLANTED

SEEDS_MAX = 300


def found_at(name: str) -> tuple[str, int | None]:
    plant, first = next((plant, first) for plant, first in PLANTED.items() if plant.__name__ == name)
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        seeds, planned = range(first, first + SEEDS_MAX), PLANS.get(plant, plan)
        return name, next((seed for seed in seeds if run(seed, planned(seed)).problems), None)


def test_plans_made_for_a_fault_are_sound_without_it() -> None:
    for planned in dict.fromkeys(PLANS.values()):
        assert not any(
            run(seed, planned(seed)).problems for seed in range(5 if planned is engines_plan else 20)
        )


def test_every_planted_fault_is_found() -> None:
    found = dict(run_all(found_at, [plant.__name__ for plant in PLANTED]))
    assert len(found) == len(PLANTED)
    assert not [name for name, seed in found.items() if seed is None]
