"""The real partition on a disk that loses what it may, beside a simple model: every answer is compared."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.retention_policy import RetentionPolicy
from durable_sessions.storage.retention import NO_RETENTION, Retention
from durable_sessions.streams.append import Append
from durable_sessions.streams.create import Create, Fork
from durable_sessions.streams.stream import Key, Producer
from durable_sessions.tier.next_manifest import referred
from tests.support.beside_model import EngineBesideModel, Operation, answered
from tests.unit.storage.model import Answer, Model

PATHS = ["a", "b", "c"]
IDLE_DAYS = 10
RETENTION = Retention([RetentionPolicy("b", idle_days=IDLE_DAYS), RetentionPolicy("c", hold=True)])
Step = tuple[Operation, Callable[[Model], Answer]]

paths = st.sampled_from(PATHS)
bodies = st.sampled_from([b"", b"1", b"[1,2]", b"[]", b"{", b'{"a":"' + b"x" * 90 + b'"}'])
types = st.sampled_from(["text/plain", "application/json"])
producers = st.none() | st.tuples(st.sampled_from(["p", "q"]), st.integers(0, 1), st.integers(0, 3))


class PartitionBesideModel(EngineBesideModel[Model]):
    def __init__(self) -> None:
        super().__init__(Model())

    @initialize(
        seed=st.integers(0, 2**32),
        memory=st.sampled_from([0, 500, 1 << 20]),
        flush=st.sampled_from([1, 300]),
        retention=st.sampled_from([NO_RETENTION, RETENTION]),
    )
    def begin(self, seed: int, memory: int, flush: int, retention: Retention) -> None:
        self.retention = retention
        self.model.held = {"c"} if retention is RETENTION else set()
        limits = replace(
            DEFAULT_LIMITS,
            memory_bytes_max=memory,
            flush_bytes_max=flush,
            active_streams_max=0,
            compaction_segments_min=3,
            checkpoints_max=3,
            checkpoint_rows_max=2,
            manifests_kept_max=3,
            delete_within_seconds=1_000,
            garbage_grace_seconds=100,
            orphan_grace_seconds=300,
            sweep_seconds=300,
        )
        self.begin_on(seed, limits)

    # Operations: each is the real call and what the model says of it -------------------------

    def creation(
        self,
        path: str,
        content_type: str | None,
        body: bytes,
        closed: bool,
        source: str | None,
        anchor: int | None,
    ) -> Step:
        fork = None if source is None else Fork(source, anchor)

        async def call() -> Answer:
            done = await self.partition.create(
                key(path), Create(content_type, closed=closed, body=body, fork=fork)
            )
            return ("created" if done.new else "confirmed", done.tail, done.closed)

        return call, lambda model: model.create(path, content_type, body, closed, source, anchor)

    def appending(
        self,
        path: str,
        content_type: str,
        body: bytes,
        producer: tuple[str, int, int] | None,
        seq: str | None,
        close: bool,
        if_tail: int | None,
    ) -> Step:
        request = Append(
            body,
            content_type,
            None if producer is None else Producer(*producer),
            seq,
            close,
            None if if_tail is None else frozenset({if_tail}),
        )

        async def call() -> Answer:
            done = await self.partition.append(key(path), request)
            return ("duplicate" if done.duplicate else "appended", done.tail, done.closed)

        return call, lambda model: model.append(path, content_type, body, producer, seq, close, if_tail)

    def deletion(self, path: str) -> Step:
        async def call() -> Answer:
            await self.partition.delete(key(path))
            return ("deleted",)

        return call, lambda model: model.delete(path)

    creations = st.tuples(
        st.just("creation"),
        paths,
        types | st.none(),
        bodies,
        st.booleans(),
        st.none() | paths,
        st.none() | st.integers(0, 4),
    )
    appends = st.tuples(
        st.just("appending"),
        paths,
        types,
        bodies,
        producers,
        st.none() | st.sampled_from("xyz"),
        st.booleans(),
        st.none() | st.integers(0, 4),
    )
    deletions = st.tuples(st.just("deletion"), paths)
    operations = creations | appends | deletions

    # Rules ---------------------------------------------------------------------------------

    @rule(operation=operations)
    def do_one(self, operation: tuple[object, ...]) -> None:
        self.compare(operation)

    @rule(operations=st.lists(operations, min_size=2, max_size=6))
    def do_many_at_once(self, operations: list[tuple[object, ...]]) -> None:
        """Concurrent calls are answered as if they had come one after the other, in their order."""
        steps = [self.step(operation) for operation in operations]

        async def together() -> list[Answer]:
            return list(await asyncio.gather(*[answered(call) for call, _ in steps]))

        assert self.loop.run_until_complete(together()) == [expect(self.model) for _, expect in steps]

    @rule(
        operations=st.lists(operations, min_size=1, max_size=4), after=st.integers(0, 6), quiet=st.booleans()
    )
    def lose_power(self, operations: list[tuple[object, ...]], after: int, quiet: bool) -> None:
        if quiet:
            self.crash()
        else:
            self.lose_power_during(operations, after)

    @rule()
    def flush(self) -> None:
        self.loop.run_until_complete(self.partition.flush())

    @rule(after=st.integers(0, 6), lose_power=st.booleans())
    def flush_while_the_bucket_fails(self, after: int, lose_power: bool) -> None:
        """The bucket stops answering after some calls: nothing is lost, and a later flush goes through."""
        self.try_in_failing_bucket(self.partition.flush, after)
        if lose_power:
            self.lose_power([], 0, quiet=True)

    async def maintain(self) -> None:
        while await self.maintenance.step():
            pass

    async def flush_all(self) -> None:
        while await self.partition.flush():
            pass

    @rule(seconds=st.sampled_from([0, 100, 500, 100_000]))
    def merge_and_sweep(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.loop.run_until_complete(self.maintain())

    @rule(seconds=st.sampled_from([0, 500]), after=st.integers(0, 12), lose_power=st.booleans())
    def merge_and_sweep_while_the_bucket_fails(self, seconds: float, after: int, lose_power: bool) -> None:
        """The bucket stops answering after some calls: every answer stays the same, before and after."""
        self.clock.advance(seconds)
        self.try_in_failing_bucket(self.maintain, after)
        if lose_power:
            self.lose_power([], 0, quiet=True)

    @rule()
    def wait_until_the_bucket_is_tidy(self) -> None:
        """In the end nothing is left but what the manifest refers to, and the last few manifests."""
        self.loop.run_until_complete(self.flush_all())
        for _ in range(5):
            self.clock.advance(600)
            self.loop.run_until_complete(self.maintain())
        manifests = [path for path in self.store.objects if "manifest" in path]
        assert len(manifests) <= self.limits.manifests_kept_max + 1
        assert self.store.objects.keys() - manifests == referred(self.archive.manifest)
        assert not self.archive.catalog.reader.dirty()
        assert self.archive.manifest.garbage == ()

    @rule()
    def let_idle_streams_go(self) -> None:
        """So much time passes that every stream whose policy allows it is removed."""
        self.loop.run_until_complete(self.flush_all())
        self.clock.advance(2 * IDLE_DAYS * 24 * 3600)
        self.partition.expire()
        self.loop.run_until_complete(self.partition.settled())
        if self.retention is RETENTION:
            self.model.delete("b")

    def agrees(self, model: Model) -> bool:
        return all(self.loop.run_until_complete(self.read(path)) == model.read(path) for path in PATHS)

    @invariant()
    def every_stream_reads_the_same(self) -> None:
        if hasattr(self, "partition"):
            for path in PATHS:
                assert self.loop.run_until_complete(self.read(path)) == self.model.read(path)

    async def read(self, path: str) -> Answer:
        async def call() -> Answer:
            durable = self.partition.find(key(path))
            data, position = b"", 0
            while position < durable.tail:
                found = await self.partition.read(durable, position, 40)
                assert found.next > position
                data, position = data + found.data, found.next
            return ("read", data, durable.tail, durable.closed)

        return await answered(call)


def key(path: str) -> Key:
    return Key("default", path)


TestPartitionBesideModel = PartitionBesideModel.TestCase
TestPartitionBesideModel.settings = settings(max_examples=120, stateful_step_count=25, deadline=None)
