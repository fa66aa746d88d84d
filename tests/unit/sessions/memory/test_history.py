"""The history of a scope beside a plain list of records, read from the beginning for every question."""

from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.sessions.memory.history import KnownWrite, ScopeHistory
from durable_sessions.sessions.memory.records import (
    DeleteRecord,
    NamedEvent,
    ReadRecord,
    RollBackRecord,
    ScopeRecord,
    WriteRecord,
    decode,
    encode,
)

KEYS = "abc"
LIVES = ("life-1", "life-2")


class Act(NamedTuple):
    kind: str
    key: str = ""
    life: str = ""
    targets: tuple[int, ...] = ()


@dataclass
class PlainScope:
    """Entries by key after the first records, computed anew each time."""

    records: list[ScopeRecord] = field(default_factory=list)

    def writes(self, at: int) -> list[tuple[int, WriteRecord | DeleteRecord]]:
        """Return the writes and deletions before a position that were not rolled back before it."""
        undone = {
            (one.write.incarnation, one.write.id)
            for one in self.records[:at]
            if isinstance(one, RollBackRecord)
        }
        return [
            (position, one)
            for position, one in enumerate(self.records[:at])
            if isinstance(one, WriteRecord | DeleteRecord) and (one.incarnation, one.id) not in undone
        ]

    def entries(self, at: int) -> dict[str, int]:
        """Return the position of the live write of each key."""
        newest = {one.key: (position, one) for position, one in self.writes(at)}
        return {key: place for key, (place, one) in newest.items() if isinstance(one, WriteRecord)}

    def began_at(self, position: int) -> int:
        """Return where the memory began that a write or a deletion changes, as it was known then."""
        record = self.records[position]
        assert isinstance(record, WriteRecord | DeleteRecord)
        before = self.entries(position).get(record.key)
        if isinstance(record, WriteRecord) and record.began_at is not None:
            return record.began_at
        return position if before is None else self.began_at(before)

    def reads(self, write: WriteRecord, at: int) -> int:
        return sum(
            isinstance(one, ReadRecord)
            and (write.incarnation, write.id) in {event[::-2] for event in one.returned}
            for one in self.records[:at]
        )


acts = st.lists(
    st.one_of(
        st.builds(Act, st.just("write"), st.sampled_from(KEYS), st.sampled_from(LIVES)),
        st.builds(Act, st.just("read"), targets=st.tuples(st.integers(0, 30), st.integers(0, 30))),
        st.builds(Act, st.just("undo"), targets=st.tuples(st.integers(0, 30))),
        st.builds(Act, st.just("delete"), st.sampled_from(KEYS)),
        st.builds(Act, st.just("move"), st.sampled_from(KEYS), targets=st.tuples(st.integers(0, 30))),
    ),
    max_size=30,
)


def scope_of(story: list[Act]) -> PlainScope:
    """Return the records of a story; two lives of a session use the same ids."""
    scope = PlainScope()
    for act in story:
        number = len(scope.records)
        written = [one for one in scope.records if isinstance(one, WriteRecord)]
        named = [
            NamedEvent(one.id, one.session, one.incarnation)
            for one in (written[target % len(written)] for target in act.targets if written)
        ]
        life = act.life or "reader"
        in_life = sum(one.incarnation == life for one in scope.records)
        common = f"event-{in_life}", "s", life, "2026-11-18T00:00:00.000Z", "me"
        if act.kind == "write":
            value = msgspec.Raw(str(number).encode())
            scope.records.append(
                WriteRecord(*common, key=act.key, value=value, kind="note", why="state", because=[])
            )
        elif act.kind == "delete":
            scope.records.append(DeleteRecord(*common, key=act.key))
        elif act.kind == "move":
            _move(scope, act)
        elif act.kind == "read":
            scope.records.append(ReadRecord(*common, at=number, returned=named, influence="unknown"))
        elif named:
            scope.records.append(RollBackRecord(*common, write=named[0], reason="r"))
    return scope


def _move(scope: PlainScope, act: Act) -> None:
    """Move a live entry to another key, as a request to a memory store does: in two records."""
    live = sorted(scope.entries(len(scope.records)).items())
    if not live:
        return
    key, position = live[act.targets[0] % len(live)]
    began_at, number = scope.began_at(position), len(scope.records)
    api = "", "", "2026-11-18T00:00:00.000Z", "me"
    scope.records.append(DeleteRecord(f"v{number}", *api, key=key, moved=True))
    value = msgspec.Raw(b"0")
    new = WriteRecord(
        f"v{number + 1}",
        *api,
        key=act.key,
        value=value,
        kind="note",
        why="api",
        because=[],
        began_at=began_at,
    )
    scope.records.append(new)


def folded(scope: PlainScope) -> ScopeHistory:
    history = ScopeHistory()
    for record in scope.records:
        history.step(decode(encode(record)))
    return history


@given(acts)
def test_one_history_answers_for_every_position(story: list[Act]) -> None:
    scope = scope_of(story)
    history = folded(scope)
    assert history.position == len(scope.records)
    for at in range(len(scope.records) + 1):
        expected = scope.entries(at)
        found = {key: write for key in KEYS if (write := history.live(key, at)) is not None}
        assert {key: write.position for key, write in found.items()} == expected
        newest = [write.position for write in history.newest_first(at, at) if write is not None]
        assert newest == sorted(expected.values(), reverse=True)
        for write in found.values():
            _same(scope, history, write, at)
        _same_versions(scope, history, at)


def _same(scope: PlainScope, history: ScopeHistory, write: KnownWrite, at: int) -> None:
    record = scope.records[write.position]
    assert isinstance(record, WriteRecord)
    assert write.reads(at) == scope.reads(record, at)
    earlier = [one for one in scope.writes(at) if one[1].key == write.key and one[0] < write.position]
    last = earlier[-1] if earlier and isinstance(earlier[-1][1], WriteRecord) else None
    before = history.superseded(write, at)
    assert (None if before is None else before.position) == (None if last is None else last[0])
    assert history.at(write.position) is write


def _same_versions(scope: PlainScope, history: ScopeHistory, at: int) -> None:
    changes = [
        (place, scope.began_at(place))
        for place, one in enumerate(scope.records[:at])
        if isinstance(one, WriteRecord | DeleteRecord) and not (isinstance(one, DeleteRecord) and one.moved)
    ]
    shown = [(one.position, one.began_at) for one in history.versions(at) if one is not None]
    assert shown == changes[::-1]
    for began_at in {began_at for _, began_at in changes}:
        of_one = [one.position for one in history.versions(at, began_at) if one is not None]
        assert of_one == [place for place, one in reversed(changes) if one == began_at]
        live = history.memory(began_at, at)
        places = [place for place in scope.entries(at).values() if scope.began_at(place) == began_at]
        assert (None if live is None else live.position) == max(places, default=None)


@given(acts, st.integers(0, 30))
def test_a_history_in_steps_is_the_same(story: list[Act], split: int) -> None:
    scope = scope_of(story)
    whole, early = folded(scope), folded(PlainScope(scope.records[:split]))
    for at in range(min(split, len(scope.records)) + 1):
        for key in KEYS:
            one, other = whole.live(key, at), early.live(key, at)
            assert (one and one.position) == (other and other.position)


def test_a_write_is_found_by_its_life_or_the_newest_of_its_session() -> None:
    first, second = Act("write", "a", "life-1"), Act("write", "b", "life-2")
    history = folded(scope_of([first, second]))
    by_life = history.find(NamedEvent("event-0", "s", "life-1"))
    newest = history.find(NamedEvent("event-0", "s"))
    assert by_life is not None
    assert newest is not None
    assert (by_life.key, newest.key) == ("a", "b")
    assert history.find(NamedEvent("event-0", "t")) is None
    assert history.position_of("life-2", "event-0") == 1
    assert history.position_of("life-3", "event-0") is None
