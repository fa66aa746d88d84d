"""Property: whatever is asked, replaying the effects gives the same state, through the codec."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from durable_sessions.errors import DurableSessionsError
from durable_sessions.streams import effects
from durable_sessions.streams.create import Fork
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Producer
from tests.unit.streams.driver import Machine, snapshot

paths = st.sampled_from(["a", "b", "c", "d"])
types = st.sampled_from(["text/plain", "application/json"])
producers = st.none() | st.builds(Producer, st.sampled_from(["p", "q"]), st.integers(0, 2), st.integers(0, 3))
forks = st.none() | st.builds(Fork, paths, st.none() | st.integers(0, 8), st.integers(0, 3))


class ReplayedState(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine()

    @rule(
        path=paths,
        content_type=types | st.none(),
        ttl=st.none() | st.integers(0, 5),
        closed=st.booleans(),
        fork=forks,
    )
    def create(
        self, path: str, content_type: str | None, ttl: int | None, closed: bool, fork: Fork | None
    ) -> None:
        self.try_to(
            "create",
            path,
            content_type=content_type,
            ttl_seconds=ttl,
            closed=closed,
            fork=fork,
            body=b"[1,2]",
        )

    @rule(
        path=paths,
        content_type=types,
        producer=producers,
        seq=st.none() | st.sampled_from("xyz"),
        close=st.booleans(),
        body=st.sampled_from([b"", b"1", b"[1, 2]", b"{"]),
        if_tail=st.none() | st.frozensets(st.integers(0, 4), max_size=2),
    )
    def append(self, path: str, body: bytes, content_type: str, **options: object) -> None:
        self.try_to("append", path, body, content_type, **options)

    @rule(path=paths)
    def delete(self, path: str) -> None:
        self.try_to("delete", path)

    @rule(path=paths)
    def touch(self, path: str) -> None:
        self.try_to("touch", path)

    @rule(path=paths)
    def expire(self, path: str) -> None:
        self.machine.expire(path)

    @rule(seconds=st.floats(0, 3))
    def advance(self, seconds: float) -> None:
        self.machine.advance(seconds)

    def try_to(self, operation: str, *arguments: object, **options: object) -> None:
        before = snapshot(self.machine.state)
        try:
            getattr(self.machine, operation)(*arguments, **options)
        except DurableSessionsError:
            assert snapshot(self.machine.state) == before, "a refusal changes nothing"

    @invariant()
    def a_replay_gives_the_same_state(self) -> None:
        replayed = State()
        for effect in self.machine.effects:
            replayed.apply(effects.decode(effects.encode(effect)))
        assert snapshot(replayed) == snapshot(self.machine.state)

    @invariant()
    def references_are_counted(self) -> None:
        by_id = self.machine.state.by_id
        for stream in by_id.values():
            assert stream.forks == sum(other.parent == stream.id for other in by_id.values())
            assert stream.parent is None or stream.parent in by_id
            assert not (stream.soft_deleted and stream.forks == 0), "what nobody needs is gone"
            assert stream.base <= stream.tail


TestReplayedState = ReplayedState.TestCase
TestReplayedState.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
