"""Sessions on a disk that loses what it may, beside a simple model: every answer is compared."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from durable_sessions.ids import RandomIds
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.sessions import event_ids as event_ids_of
from durable_sessions.sessions import record, summary
from durable_sessions.sessions.batch import Batch
from durable_sessions.sessions.change import By
from durable_sessions.sessions.create import NewSession
from durable_sessions.sessions.event_ids import names_of
from durable_sessions.sessions.record import Record
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.door import StreamView
from durable_sessions.streams.create import Fork
from tests.support.beside_model import EngineBesideModel, Operation, answered
from tests.unit.sessions.model import Answer, Event, Model
from tests.unit.sessions.world import batch, decoded, key

NAMES = ["a", "b", "c"]
Step = tuple[Operation, Callable[[Model], Answer]]

names = st.sampled_from(NAMES)
types = st.sampled_from(["note", "note", "session.status_running", "session.status_idle"])
event_ids = st.none() | st.sampled_from(["x", "y", "é"])
bodies = st.none() | st.integers(0, 1)
events = st.lists(st.tuples(types, event_ids, bodies), min_size=1, max_size=3)
producers = st.none() | st.tuples(st.sampled_from(["p", "q"]), st.integers(0, 1), st.integers(0, 2))


class SessionsBesideModel(EngineBesideModel[Model]):
    segment_bytes_max = 2_000
    names_of = staticmethod(names_of)

    def __init__(self) -> None:
        super().__init__(Model())
        self.count = 0
        self.requests: dict[tuple[str, str], list[Event]] = {}
        self.lives: dict[int, str] = {}
        self.seen: dict[str, int] = {}

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
            read_chunk_bytes_max=700,
            delete_within_seconds=1_000,
            garbage_grace_seconds=100,
        )
        self.begin_on(seed, limits)

    async def open(self) -> None:
        await super().open()
        self.sessions = Sessions(self.partition, self.clock, RandomIds(), self.limits, ONLY_PARTITION)

    # Operations: each is the real call and what the model says of it ---------------------------------

    def creation(self, name: str, title: str | None, source: str | None, anchor: int | None) -> Step:
        fork = None if source is None else Fork(f"sessions/{source}", anchor)
        request = NewSession(Record(title=title), "me", fork=fork, confirms=True)

        async def call() -> Answer:
            made = await self.sessions.create(key(name), request, 0)
            return ("created",) if made.new else ("confirmed",)

        return call, lambda model: model.create(name, title, source, anchor)

    def appending(
        self,
        name: str,
        made: list[tuple[str, str | None, int | None]],
        idempotency: str | None,
        again: bool,
        producer: tuple[str, int, int] | None,
        close: bool,
        if_tail: int | None,
        if_life: bool,
    ) -> Step:
        sent: list[Event] = []
        for kind, given, body in made:
            number = self.count if body is None else -2 - body
            sent.append({"type": kind, "n": number} | ({} if given is None else {"id": given}))
            self.count += 1
        life = self.seen.get(name) if if_life else None
        if idempotency is not None and again:
            sent = self.requests.get((name, idempotency), sent)
        if idempotency is not None:
            self.requests[name, idempotency] = sent
        request = batch(
            self.limits,
            *sent,
            idempotency=idempotency,
            producer=producer,
            close=close,
            if_tail=if_tail,
            incarnation=None if life is None else self.lives[life],
        )
        return (
            lambda: self.append(name, request),
            lambda model: model.append(name, sent, idempotency, producer, close, if_tail, life),
        )

    async def append(self, name: str, request: Batch) -> Answer:
        stored = await self.sessions.append_named(key(name), request, 0)
        durable = self.sessions.find(key(name), stored.life)
        events = await self.sessions.events.stored(durable, stored.events)
        numbers = [msgspec.json.decode(event).get("n", -1) for event in events]
        return ("stored", stored.tail, numbers, stored.repeats.repeated, stored.repeats.differ)

    def echoing(self, name: str, place: int, altered: bool) -> Step:
        """Send an event back as it was shown, which has an id in any case, or another one under its id."""

        async def call() -> Answer:
            durable = self.sessions.find(key(name))
            if not durable.tail:
                return ("nothing",)
            event = decoded(await self.sessions.events.one(durable, min(place, durable.tail - 1)))[0]
            if altered:
                event["other"] = True
            return await self.append(name, batch(self.limits, event))

        return call, lambda model: model.echo(name, place, altered)

    def archiving(self, name: str) -> Step:
        async def call() -> Answer:
            await self.sessions.archive(key(name), By("me"))
            return ("done",)

        return call, lambda model: model.archive(name)

    def deletion(self, name: str) -> Step:
        async def call() -> Answer:
            await self.sessions.delete(key(name), By("me"))
            return ("done",)

        return call, lambda model: model.delete(name)

    creations = st.tuples(
        st.just("creation"),
        names,
        st.none() | st.sampled_from(["one", "two"]),
        st.none() | names,
        st.none() | st.integers(0, 4),
    )
    appends = st.tuples(
        st.just("appending"),
        names,
        events,
        st.none() | st.sampled_from(["k", "l"]),
        st.booleans(),
        producers,
        st.sampled_from([False, False, False, True]),
        st.none() | st.none() | st.integers(0, 4),
        st.booleans(),
    )
    plain_appends = st.tuples(
        st.just("appending"),
        names,
        events,
        st.none() | st.sampled_from(["k", "l"]),
        st.booleans(),
        st.none(),
        st.just(False),
        st.none(),
        st.just(False),
    )
    others = st.tuples(st.sampled_from(["archiving", "deletion"]), names)
    echoes = st.tuples(st.just("echoing"), names, st.integers(0, 4), st.booleans())
    operations = creations | appends | plain_appends | others | echoes

    # Rules -------------------------------------------------------------------------------------------

    @rule(operation=operations)
    def do_one(self, operation: tuple[object, ...]) -> None:
        self.compare(operation)

    @rule(operation=plain_appends)
    def append_one(self, operation: tuple[object, ...]) -> None:
        self.do_one(operation)

    @rule(operations=st.lists(operations, min_size=1, max_size=4), after=st.integers(0, 6))
    def lose_power(self, operations: list[tuple[object, ...]], after: int) -> None:
        # What is durable cannot be read without power.
        self.lose_power_during(operations, after, unread=("cold_read_failed",))

    @rule(after=st.none() | st.integers(0, 6))
    def flush(self, after: int | None) -> None:
        """Flush, perhaps into a bucket that stops answering on the way."""
        self.try_in_failing_bucket(self.partition.flush, after)

    @rule(seconds=st.sampled_from([0, 500]))
    def merge_and_sweep(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.loop.run_until_complete(self.maintain())

    async def maintain(self) -> None:
        while await self.partition.flush():
            pass
        while await self.maintenance.step():
            pass

    # What is seen ------------------------------------------------------------------------------------

    def agrees(self, model: Model) -> bool:
        return all(
            self.loop.run_until_complete(self.read(name)) == model.read(name) and self.is_alive(model, name)
            for name in NAMES
        )

    def is_alive(self, model: Model, name: str) -> bool:
        """Say whether the session of this name is the one that the model means, if there is one."""
        session = model.sessions.get(name)
        if session is None:
            return True
        tag = event_ids_of.tag(self.sessions.find(key(name)).stream)
        known = self.lives.get(session.life)
        return tag not in self.lives.values() if known is None else tag == known

    @invariant()
    def every_session_reads_the_same(self) -> None:
        if hasattr(self, "partition"):
            for name in NAMES:
                assert self.loop.run_until_complete(self.read(name)) == self.model.read(name)
                assert self.is_alive(self.model, name), "a life is told from others, and stays the same"
                session = self.model.sessions.get(name)
                if session is not None:
                    self.lives[session.life] = event_ids_of.tag(self.sessions.find(key(name)).stream)
                    self.seen.setdefault(name, session.life)
            found = self.loop.run_until_complete(
                self.sessions.lists.by_creation(
                    "default", None, 10, lambda one: True, path_of, newest_first=True
                )
            )
            listed = [path.decode().removeprefix("sessions/") for _, path in found.sessions]
            assert listed == self.model.listed()

    async def read(self, name: str) -> Answer:
        async def call() -> Answer:
            durable = self.sessions.find(key(name))
            numbers: list[int] = []
            position = 0
            while position < durable.tail:
                page = await self.sessions.events.page(durable, position, durable.tail, 3)
                stored = decoded(b"".join(page.pieces))
                assert [event["offset"][17:] for event in stored] == [
                    f"{place:016d}" for place in range(position, page.next)
                ]
                numbers += [event.get("n", -1) for event in stored]
                position = page.next
            attributes = durable.attributes
            return (
                "read",
                numbers,
                durable.closed,
                record.ARCHIVED in attributes,
                record.of(attributes).title,
                summary.of(attributes).status,
            )

        return await answered(call)


TestSessionsBesideModel = SessionsBesideModel.TestCase
TestSessionsBesideModel.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def path_of(one: StreamView) -> bytes:
    return one.stream.key.path.encode()
