"""Sessions on a disk that loses what it may, beside a simple model: every answer is compared."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from durable_sessions.clock import ManualClock
from durable_sessions.errors import BucketError, DurableSessionsError
from durable_sessions.ids import RandomIds
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.log.file import FileLog
from durable_sessions.sessions import event_ids as event_ids_of
from durable_sessions.sessions import record, summary
from durable_sessions.sessions.append import Batch
from durable_sessions.sessions.change import By
from durable_sessions.sessions.create import NewSession
from durable_sessions.sessions.event_ids import names_of
from durable_sessions.sessions.record import Record
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.door import StreamView
from durable_sessions.storage.partition import Partition
from durable_sessions.streams.create import Fork
from durable_sessions.testing.disk import FaultyDisk
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.maintenance import Maintenance
from tests.unit.sessions.model import Answer, Event, Model
from tests.unit.sessions.world import batch, decoded, key
from tests.unit.storage.store import MemoryStore

DIRECTORY = Path("/log")
NAMES = ["a", "b", "c"]
Operation = Callable[[], Awaitable[Answer]]
Step = tuple[Operation, Callable[[Model], Answer]]

names = st.sampled_from(NAMES)
types = st.sampled_from(["note", "note", "session.status_running", "session.status_idle"])
event_ids = st.none() | st.sampled_from(["x", "y", "é"])
bodies = st.none() | st.integers(0, 1)
events = st.lists(st.tuples(types, event_ids, bodies), min_size=1, max_size=3)
producers = st.none() | st.tuples(st.sampled_from(["p", "q"]), st.integers(0, 1), st.integers(0, 2))


class SessionsBesideModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.model = Model()
        self.clock = ManualClock()
        self.folder = tempfile.TemporaryDirectory()
        self.catalog = Path(self.folder.name) / "catalog.sqlite"
        self.store = MemoryStore(self.clock)
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
        self.disk = FaultyDisk(seed)
        self.limits = replace(
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
        self.loop.run_until_complete(self.open())

    async def open(self) -> None:
        self.log = await FileLog.open(DIRECTORY, segment_bytes_max=2_000, disk=self.disk)
        self.archive = await BucketArchive.open(
            self.store, self.catalog, self.clock, RandomIds(), self.limits, names_of, log=self.log
        )
        self.partition = await Partition.open(self.log, self.clock, self.limits, self.archive)
        self.maintenance = Maintenance(self.archive, self.clock, self.limits)
        self.sessions = Sessions(self.partition, self.clock, RandomIds(), self.limits)

    async def shut(self) -> None:
        await self.partition.close()
        await self.archive.close()
        await self.log.close()

    def teardown(self) -> None:
        if hasattr(self, "partition"):
            self.loop.run_until_complete(self.shut())
        self.loop.close()
        self.folder.cleanup()

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

    def step(self, operation: tuple[object, ...]) -> Step:
        made: Step = getattr(self, str(operation[0]))(*operation[1:])
        return made

    # Rules -------------------------------------------------------------------------------------------

    @rule(operation=operations)
    def do_one(self, operation: tuple[object, ...]) -> None:
        call, expect = self.step(operation)
        assert self.loop.run_until_complete(answered(call)) == expect(self.model)

    @rule(operation=plain_appends)
    def append_one(self, operation: tuple[object, ...]) -> None:
        self.do_one(operation)

    @rule(operations=st.lists(operations, min_size=1, max_size=4), after=st.integers(0, 6))
    def lose_power(self, operations: list[tuple[object, ...]], after: int) -> None:
        """Power fails somewhere in the middle: the acknowledged stays, the rest is whole or not at all."""
        possible = [self.model.copy()]
        self.disk.cut_power(after)
        for operation in operations:
            call, expect = self.step(operation)
            got = self.loop.run_until_complete(answered(call))
            if got == ("partition_stopped",):
                break
            after_it = self.model.copy()
            expected = expect(after_it)
            if got == ("outcome_unknown",):
                possible.append(after_it)
                break
            assert got in (expected, ("cold_read_failed",)), "what is durable cannot be read without power"
            self.model = after_it
            possible = [after_it]
        self.disk.crash()
        self.loop.run_until_complete(self.shut())
        self.loop.run_until_complete(self.open())
        self.model = next((one for one in possible if self.agrees(one)), possible[0])

    @rule(forget_derived=st.booleans())
    def restart(self, forget_derived: bool) -> None:
        self.loop.run_until_complete(self.shut())
        if forget_derived:
            self.catalog.unlink()
        self.loop.run_until_complete(self.open())

    @rule(after=st.none() | st.integers(0, 6))
    def flush(self, after: int | None) -> None:
        """Flush, perhaps into a bucket that stops answering on the way."""
        self.store.fail_after(after)
        try:
            self.loop.run_until_complete(self.partition.flush())
        except BucketError:
            pass
        self.store.fail_after(None)

    @rule(seconds=st.sampled_from([0, 500]))
    def merge_and_sweep(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.loop.run_until_complete(self.maintain())

    async def maintain(self) -> None:
        while await self.partition.flush():
            pass
        while await self.maintenance.step():
            pass

    @rule()
    def let_idle_sessions_leave_memory(self) -> None:
        for _ in range(3):
            self.loop.run_until_complete(self.partition.rest())

    # What is seen ------------------------------------------------------------------------------------

    def agrees(self, model: Model) -> bool:
        return all(
            self.loop.run_until_complete(self.read(name)) == model.read(name) and self.is_alive(model, name)
            for name in NAMES
        )

    def is_alive(self, model: Model, name: str) -> bool:
        """Say whether the session of this name is the one that the model means, if there is one."""
        session = model.sessions.get(name)
        if session is None or session.deleted:
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
                if session is not None and not session.deleted:
                    self.lives[session.life] = event_ids_of.tag(self.sessions.find(key(name)).stream)
                    self.seen.setdefault(name, session.life)
            found = self.loop.run_until_complete(
                self.sessions.list("default", None, 10, lambda one: True, path_of, newest_first=True)
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


async def answered(call: Operation) -> Answer:
    try:
        return await call()
    except DurableSessionsError as error:
        return (error.code,)


TestSessionsBesideModel = SessionsBesideModel.TestCase
TestSessionsBesideModel.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def path_of(one: StreamView) -> bytes:
    return one.stream.key.path.encode()
