"""Drop and redact beside a dictionary: what is erased is gone at every position, through forks, for ever."""

import asyncio
import json
import tempfile
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from durable_sessions.errors import OverloadedError
from durable_sessions.sessions import slots
from durable_sessions.sessions.change import By
from durable_sessions.sessions.create import NewSession
from durable_sessions.sessions.record import Record
from durable_sessions.sessions.redaction import Redaction
from durable_sessions.sessions.redactor import EventRedactor
from durable_sessions.sessions.tombstones import Mark, remains
from durable_sessions.storage.record_reader import Reader
from durable_sessions.streams.create import Fork
from tests.unit.sessions.world import SessionWorld, key
from tests.unit.storage.world import LIMITS

NAMES = ["a", "b", "c"]
names = st.sampled_from(NAMES)
BY = By("admin")


class ErasuresBesideDictionary(RuleBasedStateMachine):
    """Each session is a list of texts; None stands for what was erased, "record" for the record of it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        limits = replace(LIMITS, memory_bytes_max=2_000, active_streams_max=0, compaction_segments_min=2)
        self.world = self.run(SessionWorld(Path(self.folder.name), limits).open())
        self.owners: dict[str, list[tuple[str, int]]] = {}
        self.texts: dict[tuple[str, int], str | None] = {}
        self.count = 0

    def run(self, call: Awaitable[Any]) -> Any:
        async def awaited() -> Any:
            return await call

        return self.runner.run(awaited())

    def redactor(self) -> EventRedactor:
        return EventRedactor(self.world.sessions, self.world.ids, self.world.limits)

    @rule(name=names, many=st.integers(1, 3), given=st.booleans())
    def append(self, name: str, many: int, given: bool) -> None:
        events = []
        for _ in range(many):
            self.count += 1
            own = {"id": f"id-{self.count}"} if given else {}
            events.append({"type": "app.note", "text": f"secret-{self.count}", **own})
            self._placed(name, f"secret-{self.count}")
        self.run(self.world.send(name, *events))

    def _placed(self, name: str, text: str) -> None:
        places = self.owners.setdefault(name, [])
        place = (name, len(places))
        places.append(place)
        self.texts[place] = text

    @rule(name=names, source=names, at=st.integers(0, 5))
    def fork(self, name: str, source: str, at: int) -> None:
        if name in self.owners or source not in self.owners:
            return
        at = min(at, len(self.owners[source]))
        self.owners[name] = self.owners[source][:at]
        request = NewSession(Record(), "me", fork=Fork(f"sessions/{source}", at))

        async def made() -> None:
            await self.world.sessions.create(key(name), request, 0)

        self.run(made())

    @precondition(lambda self: self.owners)
    @rule(name=names, at=st.integers(0, 8), many=st.integers(1, 3), digest=st.booleans())
    def redact(self, name: str, at: int, many: int, digest: bool) -> None:
        places = self.owners.get(name, [])
        chosen = [
            one for one in range(at, min(at + many, len(places))) if self.texts[places[one]] != "record"
        ]
        if not chosen:
            return
        events = self.run(self.world.events(name))
        ids = [events[one]["id"] for one in chosen]
        is_new = any(self.texts[places[one]] is not None for one in chosen)
        before = len(places)
        request = Redaction(ids, "asked for", digest=digest)
        self.run(self.redactor().redact(key(name), request, BY))
        for one in chosen:
            self.texts[places[one]] = None
        tail = self.world.find(name).tail
        assert tail == before + 1 or (tail == before and not is_new)
        if tail > before:
            self._placed(name, "record")

    @rule()
    def flush(self) -> None:
        self.run(self.world.flush())

    @rule(seconds=st.sampled_from([1, 30, 60, 200]))
    def pass_time(self, seconds: int) -> None:
        self.world.clock.advance(seconds)
        self.run(self.world.maintain())
        self.run(self.world.partition.settle_erasures())
        self.run(self.world.partition.evict_idle())

    @rule(forget=st.booleans())
    def reopen(self, forget: bool) -> None:
        self.run(self.world.reopen(forget_catalog=forget))

    @rule(name=names, start=st.integers(0, 8), stop=st.integers(0, 12))
    def read_a_part(self, name: str, start: int, stop: int) -> None:
        if name in self.owners:
            durable = self.world.find(name)
            stop = min(stop, durable.tail)
            found = self.run(self.world.sessions.events.page(durable, start, stop, 100))
            self._check(name, found.events(), min(start, stop))

    def _check(self, name: str, events: list[bytes], first: int) -> None:
        for at, stored in enumerate(events, first):
            event, text = json.loads(stored), self.texts[self.owners[name][at]]
            assert int(event["offset"].rpartition("_")[2]) == at
            if text == "record":
                assert event["type"] == "ds.redacted"
            elif text is None:
                assert "text" not in event
                assert event["type"] == "app.note"
                assert event["redacted"]["reason"] == "asked for"
            else:
                assert event["text"] == text
                assert "redacted" not in event

    def teardown(self) -> None:
        try:
            for name in self.owners:
                durable = self.world.find(name)
                assert durable.tail == len(self.owners[name])
                found = self.run(self.world.sessions.events.page(durable, 0, durable.tail, 1_000))
                self._check(name, found.events(), 0)
            self._check_bytes()
        finally:
            self.run(self.world.close())
            self.runner.close()
            self.folder.cleanup()

    def _check_bytes(self) -> None:
        """When the time is over, no object in the bucket has what was erased."""
        self.run(self.world.flush())
        for _ in range(25):
            self.world.clock.advance(10)
            self.run(self.world.maintain())
            self.run(self.world.partition.settle_erasures())
            self.run(self.world.flush())
        kept = {text for text in self.texts.values() if text is not None}
        for number in range(1, self.count + 1):
            text = f"secret-{number}"
            if text not in kept:
                assert not list(self.world.holding(b'"%b"' % text.encode())), text


SETTINGS = settings(max_examples=30, stateful_step_count=25, deadline=None)
TestErasuresBesideDictionary = ErasuresBesideDictionary.TestCase
TestErasuresBesideDictionary.settings = SETTINGS


def test_a_view_that_is_used_after_an_erasure_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: what the log and the bucket have is read without the overlay."""
    read_cold = Reader._read_cold

    async def without_overlay(self: Reader, durable: Any, start: int, size: int, stop: int | None) -> Any:
        owner, end = self.owner(durable, start)
        if start < owner.flushed:
            return await self._read_stored(owner, start, min(end, durable.tail, stop or end), size)
        return await read_cold(self, durable, start, size, stop)

    monkeypatch.setattr(Reader, "_read_cold", without_overlay)
    with pytest.raises(Exception, match=r"."):
        run_state_machine_as_test(
            ErasuresBesideDictionary,
            settings=settings(
                SETTINGS, max_examples=300, derandomize=True, database=None, phases=[Phase.generate]
            ),
        )


def test_the_erased_events_of_a_session_that_are_still_stored_are_bounded(tmp_path: Path) -> None:
    async def run() -> None:
        limits = replace(LIMITS, overlay_records_max=2)
        world = await SessionWorld(tmp_path, limits).open()
        await world.send("a", *({"type": "app.note", "id": f"e{n}"} for n in range(3)))
        redactor = EventRedactor(world.sessions, world.ids, limits)
        await redactor.redact(key("a"), Redaction(["e0", "e1"], "r"), BY)
        with pytest.raises(OverloadedError):
            await redactor.redact(key("a"), Redaction(["e2"], "r"), BY)
        await world.flush()
        await world.partition.settle_erasures()
        await redactor.redact(key("a"), Redaction(["e2"], "r"), BY)
        await world.close()

    asyncio.run(run())


_NO_WORD = st.one_of(
    st.none(),
    st.integers(),
    st.lists(st.text(max_size=3), max_size=2),
    st.dictionaries(st.just("a"), st.none()),
)
_COUNTED = [
    "session_thread_id",
    "slot",
    "slot_prefix",
    "slot_empty",
    "imported",
    "refs",
    "tool_use_id",
    "is_error",
    "effect",
    "evaluated_permission",
    "model_usage",
    "cost_usd",
]


@given(
    st.sampled_from(("app.note", "ds.fact", "agent.tool_use", "agent.tool_result", "span.model_request_end")),
    st.dictionaries(
        st.sampled_from(_COUNTED),
        _NO_WORD | st.lists(st.fixed_dictionaries({"rel": _NO_WORD, "id": _NO_WORD}), max_size=2),
    ),
)
def test_something_remains_of_any_event(kind: str, members: dict[str, Any]) -> None:
    front = dict.fromkeys(("id", "offset", "created_at", "processed_at", "actor"), "x")
    left = remains(json.dumps({**front, "type": kind, **members}).encode())
    shown = json.loads(left.tombstone(Mark(None, "t", "r", None, 1)))
    assert (shown["type"], shown["redacted"]["reason"]) == (kind, "r")


def erased(kind: str, rest: str) -> tuple[bytes, bytes]:
    """Return an event as it was stored, and what stands in its place."""
    front = '"id":"e","offset":"0_0","created_at":"t","processed_at":"t","actor":"me"'
    stored = f'{{{front},"type":"{kind}",{rest}}}'.encode()
    return stored, remains(stored).tombstone(Mark(None, "t", "r", None, 1))


@pytest.mark.parametrize("member", ["session_thread_id", "tool_use_id"])
def test_names_that_are_no_unicode_stay_what_they_were(member: str) -> None:
    _, left = erased("agent.tool_result", rf'"{member}":"a\ud800"')
    assert json.loads(left)[member] == "a\ud800"


_SLOT_TEXTS = st.sampled_from(["", "a", "a/b", "é", "\x01", "a\u2028", "\ud800", "x" * 512, "x" * 513])
_SLOT_VALUES: st.SearchStrategy[object] = (
    _SLOT_TEXTS | st.lists(_SLOT_TEXTS, max_size=9) | st.sampled_from([None, 7, {}, [["a"]]])
)


@settings(deadline=None)
@given(
    st.sampled_from(["note", "agent.message", "ds.fact"]),
    st.fixed_dictionaries(
        {},
        optional={
            "slot": _SLOT_VALUES,
            "slot_prefix": _SLOT_VALUES,
            "slot_empty": st.sampled_from(["keep", "drop", "no", None]) | _SLOT_VALUES,
        },
    ),
)
def test_an_erased_event_does_with_slots_what_it_did_and_keeps_no_other_text(
    kind: str, members: dict[str, Any]
) -> None:
    """Slots are found anew from stored events, of which some are what was left of erased ones."""
    stored, left = erased(kind, json.dumps({"x": 1, **members})[1:-1])
    wish = slots.of_event(stored)
    assert slots.of_event(left) == wish
    kept = json.loads(left)
    assert ("slot" in kept) == bool(wish and wish.names)
    assert ("slot_prefix" in kept) == bool(wish and wish.prefix is not None)
    assert ("slot_empty" in kept) == bool(wish and wish.empties)


def test_what_remains_of_strange_events() -> None:
    front = '"id":"e","offset":"0_0","created_at":"t","processed_at":"t","actor":"me","type":"%s"'
    for kind in ("app.note", "ds.fact", "agent.tool_use", "agent.tool_result", "span.model_request_end"):
        for rest in ('"slot":7', '"refs":{}', '"refs":[1]', '"model_usage":{"a":{"b":"x"}}', r'"x":"\ud800"'):
            stored = ("{" + front % kind + "," + rest + "}").encode()
            left = json.loads(remains(stored).front + b"}")
            assert left["type"] == kind
