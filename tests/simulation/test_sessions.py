"""Sessions in the simulation: slots, conditions, forks, drops and redactions beside a model, with kills."""

from collections.abc import Callable
from typing import Any

import pytest

from durable_sessions.sessions import dropping, event_ids
from durable_sessions.storage.partition import Partition
from durable_sessions.streams.effects import ErasuresSettled, SlotChange
from durable_sessions.testing.simulation import process
from durable_sessions.testing.simulation.parallel_runs import run_all
from durable_sessions.testing.simulation.run import run_sessions
from durable_sessions.tier import slot_tables, stream_codec

SEEDS = [*range(10), 35, 90, 181]
"""Of the last three each found a fault: a repeated drop, and a redaction of what was dropped before."""
SEEDS_MAX = 40


def test_no_seed_shows_a_fault() -> None:
    failed = {one.seed: one.problems[:5] for one in run_all(run_sessions, SEEDS) if one.problems}
    assert not failed


def test_a_seed_is_the_same_run_again() -> None:
    assert run_sessions(9).digest == run_sessions(9).digest


def forget_slots_with_the_catalog(patch: pytest.MonkeyPatch) -> None:
    def only_names(stream: Any, run: Any) -> list[Any]:
        found = event_ids.names_of(stream, run)
        return [one for one in found if not isinstance(one, SlotChange)]

    patch.setattr(process, "names_of", only_names)


def forget_overlays_at_a_flush(patch: pytest.MonkeyPatch) -> None:
    encode: Any = stream_codec.ExtendedStream

    def without(*fields: Any) -> Any:
        return encode(*fields[:23], (), *fields[24:])

    patch.setattr(stream_codec, "ExtendedStream", without)


def forget_emptied_prefixes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(slot_tables, "EMPTIED_PREFIX", 77)


def drop_what_still_holds_a_slot(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dropping, "_holds", lambda *_: False)


def settle_what_was_erased_once_more(patch: pytest.MonkeyPatch) -> None:
    async def settle(self: Partition) -> None:
        settled = self._archive.settled_erasures(100)
        effects = [
            ErasuresSettled(number, tuple(one.position for one in records)) for number, records in settled
        ]
        if effects:
            self._log.begin_file()
            await self.commit(lambda _state, _now: (effects, None))

    patch.setattr(Partition, "settle_erasures", settle)


PLANTED: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    forget_slots_with_the_catalog: 0,
    forget_overlays_at_a_flush: 0,
    forget_emptied_prefixes: 0,
    drop_what_still_holds_a_slot: 0,
    settle_what_was_erased_once_more: 90,
}
"""Each fault, and a seed from which on it is soon found."""


def found_at(name: str) -> tuple[str, int | None]:
    plant, first = next((plant, first) for plant, first in PLANTED.items() if plant.__name__ == name)
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        seeds = range(first, first + SEEDS_MAX)
        return name, next((seed for seed in seeds if run_sessions(seed).problems), None)


def test_every_planted_fault_is_found() -> None:
    found = dict(run_all(found_at, [plant.__name__ for plant in PLANTED]))
    assert len(found) == len(PLANTED)
    assert not [name for name, seed in found.items() if seed is None], found
