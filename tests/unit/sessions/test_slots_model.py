"""Sessions on a disk that loses what it may, beside lists and dictionaries for every offset of each.

Slots, conditions, forks, lives, drops and redactions together: each of them changes what the others read.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test

from durable_sessions.ids import RandomIds
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.sessions import conditions, dropped_at_once, dropping, redaction
from durable_sessions.sessions.conditions import Conditions
from durable_sessions.sessions.event_ids import names_of
from durable_sessions.sessions.slot_reading import AskedSlots
from durable_sessions.sessions.store import Sessions
from durable_sessions.streams.effects import ErasedRecord, SlotChange
from durable_sessions.streams.state import State
from durable_sessions.testing.session_calls import SessionCalls
from durable_sessions.testing.session_model import ModelSession, SessionModel
from tests.support.beside_model import Answer, EngineBesideModel, Operation, answered
from tests.support.session_operations import NAMES, PREFIXES, SLOTS, USED_MAX, appends, lives, operations
from tests.unit.sessions.world import key

Step = tuple[Operation, Callable[[SessionModel], Answer]]


class SessionsBesideModel(EngineBesideModel[SessionModel]):
    segment_bytes_max = 2_000
    names_of = staticmethod(names_of)

    def __init__(self) -> None:
        super().__init__(SessionModel(USED_MAX))
        self.texts = 0

    @initialize(
        seed=st.integers(0, 2**32),
        memory=st.sampled_from([0, 2_000, 1 << 20]),
        flush=st.sampled_from([1, 2_000]),
    )
    def begin(self, seed: int, memory: int, flush: int) -> None:
        limits = replace(
            DEFAULT_LIMITS,
            memory_bytes_max=memory,
            flush_bytes_max=flush,
            active_streams_max=0,
            compaction_segments_min=3,
            checkpoints_max=3,
            checkpoint_rows_max=2,
            slots_per_session_max=USED_MAX,
        )
        self.begin_on(seed, limits)

    async def open(self) -> None:
        await super().open()
        self.sessions = Sessions(self.partition, self.clock, RandomIds(), self.limits, ONLY_PARTITION)
        self.calls = SessionCalls(self.sessions, RandomIds(), self.limits)

    # Operations --------------------------------------------------------------------------------------

    def creation(self, name: str, source: str | None, anchor: int | None) -> Step:
        return (
            partial(self.calls.create, name, source, anchor),
            lambda model: model.create(name, source, anchor),
        )

    def appending(self, name: str, sent: list[dict[str, object]], wish: dict[str, object] | None) -> Step:
        session = self.model.sessions.get(name)
        life = 0 if session is None else session.life
        if wish is None and not sent:
            sent = [{"type": "row"}]
        sent = [{**one, "text": self.text(), **_content(one)} for one in sent]
        return partial(self.calls.append, name, sent, wish), lambda model: model.append(
            name, sent, wish, life
        )

    def text(self) -> str:
        self.texts += 1
        return f"text-{self.texts}"

    def deletion(self, name: str) -> Step:
        return partial(self.calls.delete, name), lambda model: model.delete(name)

    def redaction(self, name: str, positions: set[int]) -> Step:
        session = self.model.sessions.get(name)
        chosen = [] if session is None else session.erasable(positions)
        if session is not None and not chosen:
            return self.appending(name, [], None)
        return partial(self.calls.redact, name, chosen), lambda model: model.redact(name, chosen)

    @rule(operation=operations)
    def do_one(self, operation: tuple[object, ...]) -> None:
        self.compare(operation)

    @rule(operation=appends)
    def append_one(self, operation: tuple[object, ...]) -> None:
        self.compare(operation)

    @rule(operations=lives)
    def live(self, operations: list[tuple[object, ...]]) -> None:
        for operation in operations:
            self.compare(operation)

    @rule(operations=st.lists(operations, min_size=1, max_size=4), after=st.integers(0, 6))
    def lose_power(self, operations: list[tuple[object, ...]], after: int) -> None:
        self.lose_power_during(operations, after, unread=("cold_read_failed",))

    @rule(after=st.none() | st.integers(0, 6))
    def flush(self, after: int | None) -> None:
        self.try_in_failing_bucket(self.partition.flush, after)

    @rule(seconds=st.sampled_from([0, 500, 100_000]))
    def merge_and_sweep(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.loop.run_until_complete(self.maintain())

    async def maintain(self) -> None:
        while await self.partition.flush():
            pass
        while await self.maintenance.step():
            pass
        await self.partition.settle_erasures()

    # What is seen ------------------------------------------------------------------------------------

    def agrees(self, model: SessionModel) -> bool:
        return all(
            self.loop.run_until_complete(answered(partial(self.seen, name))) == _expected(model, name)
            for name in NAMES
        )

    @invariant()
    def everything_is_as_in_the_model(self) -> None:
        if not hasattr(self, "partition"):
            return
        assert self.agrees(self.model)
        for name, session in self.model.sessions.items():
            self.loop.run_until_complete(self.compare_pages(name, session))
        for slot in SLOTS:
            for newest_first in (False, True):
                assert sorted(self.holders(slot, newest_first=newest_first)) == self.model.holders(slot)

    async def seen(self, name: str) -> Answer:
        """Return the events of a session, and for every offset which positions hold its slots."""
        shown = await self.calls.shown(name)
        return ("seen", shown, [await self.calls.held(name, end) for end in range(len(shown) + 1)])

    async def compare_pages(self, name: str, session: ModelSession) -> None:
        """Compare exact names, prefixes in both orders, and pages of one, at the end and before it."""
        durable = self.sessions.find(key(name))
        for end in {durable.tail, durable.tail // 2}:
            held = session.held[end]
            exact = await self.sessions.slots.page(durable, AskedSlots(end, 100, SLOTS[::-1]))
            assert [one.name for one in exact.slots] == [slot for slot in SLOTS[::-1] if slot in held]
            for prefix in PREFIXES:
                for descends in (False, True):
                    expected = sorted((one for one in held if one.startswith(prefix)), reverse=descends)
                    found: list[str] = []
                    after: str | None = None
                    while True:
                        asked = AskedSlots(end, 1, prefix=prefix, after=after, descends=descends)
                        page = await self.sessions.slots.page(durable, asked)
                        found += [one.name for one in page.slots]
                        after = page.next_after
                        if after is None:
                            break
                    assert found == expected

    def holders(self, slot: str, *, newest_first: bool) -> list[str]:
        found: list[str] = []
        after: int | None = None
        more = True
        while more:
            page, after = self.partition.holders("default", slot, after, 1, newest_first=newest_first)
            found += [one.stream.key.path.removeprefix("sessions/") for one in page.streams]
            more = page.more
        return found


def _content(event: dict[str, object]) -> dict[str, object]:
    """Return what the words of Managed Agents ask of an event."""
    is_message = event["type"] == "user.message"
    return {"content": [{"type": "text", "text": "said"}]} if is_message else {}


def _expected(model: SessionModel, name: str) -> Answer:
    session = model.sessions.get(name)
    if session is None:
        return ("session_not_found",)
    return ("seen", session.shown, session.held)


SETTINGS = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestSessionsBesideModel = SessionsBesideModel.TestCase
TestSessionsBesideModel.settings = SETTINGS


# Faults that are put in ---------------------------------------------------------------------------------


def take_slots_of_the_present_for_the_past(patch: pytest.MonkeyPatch) -> None:
    slot = State.slot

    def one_later(self: State, stream: Any, name: str, end: int | None = None) -> int | None:
        return slot(self, stream, name, None if end is None else end + 1)

    patch.setattr(State, "slot", one_later)


def forget_slots_with_the_catalog(patch: pytest.MonkeyPatch) -> None:
    def only_names(stream: Any, run: Any) -> list[Any]:
        return [one for one in names_of(stream, run) if not isinstance(one, SlotChange)]

    patch.setattr(SessionsBesideModel, "names_of", staticmethod(only_names))


def drop_for_forks_too(patch: pytest.MonkeyPatch) -> None:
    erased = dropping._erased

    def spare_nobody(stream: Any, chosen: Any, spares: int, now_ms: int) -> Any:
        return erased(stream, chosen, 0, now_ms)

    patch.setattr(dropping, "_erased", spare_nobody)


def drop_what_still_holds_a_slot(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dropping, "_holds", lambda *_: False)


def keep_what_its_own_append_drops(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dropped_at_once, "replacements", lambda *_, **__: ())


def redact_for_one_session_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(redaction, "ErasedRecord", lambda position, data: ErasedRecord(position, data, 2**62))


def accept_conditions_of_another_life(patch: pytest.MonkeyPatch) -> None:
    require = conditions.require

    def forgiving(state: Any, stream: Any, wanted: Conditions) -> None:
        require(state, stream, replace(wanted, incarnation=None))

    patch.setattr(conditions, "require", forgiving)


@pytest.mark.parametrize(
    "plant",
    [
        take_slots_of_the_present_for_the_past,
        forget_slots_with_the_catalog,
        drop_for_forks_too,
        drop_what_still_holds_a_slot,
        keep_what_its_own_append_drops,
        redact_for_one_session_only,
        accept_conditions_of_another_life,
    ],
)
def test_a_planted_fault_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    searching = settings(
        SETTINGS,
        max_examples=150,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(SessionsBesideModel, settings=searching)
