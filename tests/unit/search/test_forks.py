"""What lives on of deleted sessions, compared with a model that looks at every fork every time."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.search.forks import Forks
from durable_sessions.streams.stream import Key, Stream

FAR = 2**40


def stream(number: int, parent: Stream | None = None, base: int = 0) -> Stream:
    return Stream(
        id=number,
        key=Key("w", f"sessions/s{number}"),
        content_type="application/json",
        tail=base,
        ttl_seconds=None,
        expires_at_ms=None,
        created_at_ms=0,
        accessed_at_ms=0,
        recorded_at_ms=0,
        parent=None if parent is None else parent.id,
        base=base,
    )


@dataclass
class Model:
    """All streams that there are, those that are kept for their forks included."""

    streams: dict[int, Stream]

    def forks(self, number: int) -> list[Stream]:
        return [one for one in self.streams.values() if one.parent == number]

    def readers(self, number: int, position: int) -> set[int]:
        """Return the sessions through which an event can be read."""
        one = self.streams[number]
        if not one.soft_deleted:
            return {number}
        return {
            reader
            for fork in self.forks(number)
            if position < fork.base
            for reader in self.readers(fork.id, position)
        }

    def delete(self, one: Stream) -> list[Stream]:
        """Delete as the engine does; return what is told to listeners, in their order."""
        told = [one]
        if self.forks(one.id):
            one.soft_deleted = True
            return told
        del self.streams[one.id]
        while one.parent is not None:
            parent = self.streams[one.parent]
            parent.forks -= 1
            if not parent.soft_deleted or parent.forks:
                break
            del self.streams[parent.id]
            told.append(parent)
            one = parent
        return told


@given(st.data())
def test_it_agrees_with_the_model(data: st.DataObject) -> None:
    model, forks = Model({}), Forks()
    for number in range(1, data.draw(st.integers(1, 25))):
        alive = [one for one in model.streams.values() if not one.soft_deleted]
        action = data.draw(st.sampled_from(["create", "fork", "fork", "delete"]))
        if action == "create" or not alive:
            model.streams[number] = stream(number)
            forks.add(model.streams[number])
        elif action == "fork":
            source = data.draw(st.sampled_from(alive))
            source.forks += 1
            made = stream(number, source, data.draw(st.integers(0, 9)))
            model.streams[number] = made
            forks.add(made)
        else:
            ends = {one: forks.visible_end(one, FAR) for one in model.streams}
            told = model.delete(data.draw(st.sampled_from(alive)))
            changed = {number for one in told for number in forks.remove(one)}
            still = {one for one in ends if one in model.streams}
            moved = {one for one in still if forks.visible_end(one, FAR) != ends[one]}
            assert moved | {one.id for one in told} <= changed
        known = Forks()
        for one in data.draw(st.permutations(list(model.streams.values()))):
            known.add(one)
        for number_, one in model.streams.items():
            for position in range(10):
                readers = model.readers(number_, position)
                for each in (forks, known):
                    assert each.heir(number_, position) == min(readers, default=None)
                    assert (position < each.visible_end(number_, FAR)) == bool(readers)
            assert forks.visible_end(number_, 3) <= 3
            assert one.soft_deleted or forks.visible_end(number_, FAR) == FAR


def test_a_line_of_forks_is_followed_however_long_it_is() -> None:
    forks, line = Forks(), [stream(0)]
    for number in range(1, 5_000):
        line[-1].forks = 1
        line.append(stream(number, line[-1], 10))
        forks.add(line[-1])
    for one in line[:-1]:
        one.soft_deleted = True
        assert one.id in forks.remove(one)
    assert forks.heir(0, 9) == 4_999
    assert forks.heir(0, 10) is None
    assert forks.visible_end(0, FAR) == 10
    line[-1].soft_deleted = True
    changed = forks.remove(line[-1])
    assert changed[:2] == [4_999, 4_998]
    assert forks.visible_end(0, FAR) == 0


def test_many_forks_of_one_source_are_deleted_in_no_time() -> None:
    forks, source = Forks(), stream(0)
    source.forks = 20_000
    made = [stream(number, source, 10) for number in range(1, 20_001)]
    for one in made:
        forks.add(one)
    source.soft_deleted = True
    forks.remove(source)
    for one in made[:-1]:
        forks.remove(one)
    assert forks.heir(0, 3) == 20_000
