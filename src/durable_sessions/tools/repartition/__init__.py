"""Repartitioning: divides the streams of a stopped server among another number of partitions.

The new partitions are a new generation beside the old one. Everything is written, and checked, before the
layout that names the generation is created; this one object commits it. Whatever happens before leaves the
old generation as it was, and whatever happens after leaves only files that nobody uses. Events are not
copied: the new manifests refer to the old segments. Stream numbers, and with them event ids, stay.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from durable_sessions.bucket.format import raise_version, read_format
from durable_sessions.bucket.layout import generation_of
from durable_sessions.bucket.manifest import Manifest
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.partition_layout import PartitionLayout, commit_layout, read_layout
from durable_sessions.errors import RepartitionRefusedError
from durable_sessions.limits import MIB
from durable_sessions.node.data_layout import data_layout
from durable_sessions.node.disk_space import space_of
from durable_sessions.node.partition_files import pass_marks_on, remove_other_generations
from durable_sessions.node.targets import subscriptions_partition
from durable_sessions.partition_id import GENERATIONS_MAX, PARTITIONS_MAX, PartitionId
from durable_sessions.streams.effects import Linked, OutboxEffect, StreamTold, SubscriptionEffect
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.tier.checkpoints import FULL_PARTS
from durable_sessions.tier.snapshot_info import SNAPSHOT
from durable_sessions.tier.subscription_objects import CHANGES, SUBSCRIPTIONS
from durable_sessions.tools.partition_logs import PartitionLogs
from durable_sessions.tools.repartition.assignment import Assignment, assign
from durable_sessions.tools.repartition.check import check_generation
from durable_sessions.tools.repartition.members import members_of
from durable_sessions.tools.repartition.new_generation import (
    FIRST,
    NewPartition,
    PartitionContents,
    write_partition,
)
from durable_sessions.tools.repartition.outbox_drain import OutboxDrain
from durable_sessions.tools.stopped_partition import Stopped, StoppedPartition, opened

__all__ = ["Repartition", "Repartitioned"]

_DIVIDED = frozenset((SUBSCRIPTIONS, CHANGES, FULL_PARTS, SNAPSHOT))
"""The members of a manifest's ``extra`` that this module knows how to divide."""
_COPIES = 3
"""How often a catalog is on disk at a time: the old one, the new ones, and a snapshot being packed."""
_SPARE_BYTES = 64 * MIB

Step = Callable[[str], None]
"""Is told each step before it is taken; if it raises, the process might as well have been killed there."""


class Repartitioned(NamedTuple):
    """The layout that holds, the one before it, and how many streams were divided.

    ``before`` is the same layout if nothing had to be done.
    """

    layout: PartitionLayout
    before: PartitionLayout
    streams: int = 0


class Repartition:
    """Divides one bucket and its data directory anew; only one process can do that at a time.

    The logs are in the data directory, unless other ``source`` or ``target`` logs are given: then a single
    server becomes a cluster, or a cluster a single server.
    """

    def __init__(
        self,
        stopped: Stopped,
        bucket: ObjectStore,
        step: Step,
        *,
        source: PartitionLogs | None = None,
        target: PartitionLogs | None = None,
    ) -> None:
        self._stopped = stopped
        self._bucket = bucket
        self._step = step
        self._data = stopped.settings.data
        self._source = source or stopped.file_logs()
        self._target = target or stopped.file_logs()

    async def run(self, partitions: int) -> Repartitioned:
        """Divide the bucket into this many partitions; on return that is durable."""
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise RepartitionRefusedError(
                problem=f"it can have 1 to {PARTITIONS_MAX} partitions, not {partitions}."
            )
        if await read_layout(self._bucket) is None:
            raise RepartitionRefusedError(
                problem="it is empty, so there is nothing to divide. A server that begins with it decides how"
                " many partitions it has."
            )
        before = await data_layout(self._bucket, self._data)
        self._step("open the partitions")
        async with opened(self._stopped, self._bucket, before, self._source) as old:
            if before.partitions == partitions and self._source.in_files == self._target.in_files:
                # A run that was interrupted after its commit left the files of the old generation.
                await self._tidy(before)
                return Repartitioned(before, before)
            done = await self._divide(old, before, partitions)
        self._step("remove the files of the old partitions")
        await self._tidy(done.layout)
        return done

    async def _tidy(self, layout: PartitionLayout) -> None:
        await asyncio.to_thread(remove_other_generations, self._data, layout.generation)

    async def _divide(
        self, old: Sequence[StoppedPartition], before: PartitionLayout, partitions: int
    ) -> Repartitioned:
        await self._require_space(old)
        self._step("flush everything")
        await OutboxDrain(old, self._stopped.limits).run()
        for one in old:
            await one.flush()
            _require_known(one)
        await self._tidy(before)  # an interrupted run may have left a generation that never held
        self._step("divide the streams")
        layout = await self._next_layout(before, partitions)
        assignment = await asyncio.to_thread(_assigned, old, partitions)
        subscriptions = await _subscriptions(old)
        self._step("refuse older programs")
        found = await read_format(self._bucket)
        assert found is not None
        await raise_version(self._bucket, found)
        new = []
        for partition in layout.all:
            self._step(f"write partition {partition.digits}")
            new.append(await self._write(partition, old, assignment, subscriptions))
        pass_marks_on(self._data, before.all, layout.all)
        self._step("compare both generations")
        streams = await check_generation(self._stopped, self._bucket, old, new)
        for one in old:
            await one.archive.confirmed()
        await self._target.announce(layout.generation)
        self._step("commit the new layout")
        await commit_layout(self._bucket, layout)
        return Repartitioned(layout, before, streams)

    async def _require_space(self, old: Sequence[StoppedPartition]) -> None:
        needed = _COPIES * sum(one.catalog.stat().st_size for one in old) + _SPARE_BYTES
        free = (await asyncio.to_thread(space_of, self._data)).free
        if free < needed:
            raise RepartitionRefusedError(
                problem=f"{needed} bytes are needed on the disk of {self._data}, and {free} are free."
            )

    async def _next_layout(self, before: PartitionLayout, partitions: int) -> PartitionLayout:
        """Return the layout to commit, with a generation that nothing was ever written for."""
        # What an interrupted run has written stays: its names must not be used for anything else.
        used = [generation_of(info.path) or 0 for info in await self._bucket.list("")]
        generation = max(before.generation, *used) + 1
        if generation >= GENERATIONS_MAX:
            raise RepartitionRefusedError(
                problem=f"it was repartitioned {GENERATIONS_MAX - 1} times, which is as often as it can be."
            )
        return PartitionLayout(
            generation=generation,
            partitions=partitions,
            number=before.number + 1,
            created_at_ms=self._stopped.clock.now_ms(),
            in_files=self._target.in_files,
        )

    async def _write(
        self,
        partition: PartitionId,
        old: Sequence[StoppedPartition],
        assignment: Assignment,
        subscriptions: Sequence[SubscriptionEffect],
    ) -> NewPartition:
        numbers = set(assignment.streams.get(partition.number, ()))
        streams = [(one, sorted(numbers & one.archive.catalog.reader.all_numbers())) for one in old]
        own = [
            effect
            for effect in subscriptions
            if subscriptions_partition(effect.workspace, partition.of) == partition.number
        ]
        placed = {
            name: where
            for name, where in assignment.placed.items()
            if home_partition(*name, of=partition.of) == partition.number
        }
        base = first_manifest(partition, [one.archive.manifest for one in old], self._stopped)
        contents = PartitionContents(streams, [*own, *_reported_tails(own, numbers, old)], placed)
        return await write_partition(self._stopped, self._bucket, partition, contents, base, self._target)


def first_manifest(partition: PartitionId, old: Sequence[Manifest], stopped: Stopped) -> Manifest:
    """Return the first manifest of a new partition, without its objects.

    Its positions are beyond those of all old logs, and each generation has numbers of its own for streams: so
    no position and no number is used twice, however often a bucket is divided.
    """
    return Manifest(
        number=FIRST,
        writer=stopped.ids.token("writer_"),
        flushed_through=max(max(manifest.flushed_through, manifest.log_begins) for manifest in old),
        next_stream=partition.streams.start,
        created_at_ms=stopped.clock.now_ms(),
        version=max(manifest.version for manifest in old),
    )


def _assigned(old: Sequence[StoppedPartition], partitions: int) -> Assignment:
    return assign(members_of(old), partitions)


async def _subscriptions(old: Sequence[StoppedPartition]) -> list[SubscriptionEffect]:
    """Return effects that give the subscriptions of all old partitions; outboxes must be empty."""
    state = State()
    for one in old:
        for effect in await one.archive.subscriptions():
            if not isinstance(effect, OutboxEffect | StreamTold):
                state.apply(effect)
        assert not one.partition.tip.outbox.pending(), "outboxes were drained"
    return state.subscriptions.snapshot()


def _reported_tails(
    own: Sequence[SubscriptionEffect], numbers: Collection[int], old: Sequence[StoppedPartition]
) -> list[StreamTold]:
    """Return how far streams reach that subscriptions of a new partition watch, and that it does not have."""
    told: dict[Key, StreamTold] = {}
    for effect in own:
        for path, _, _, number in effect.links if isinstance(effect, Linked) else ():
            if number is None or number in numbers:
                continue
            for one in old:
                stream = one.partition.tip.peek_id(number)
                if stream is not None and not stream.soft_deleted:
                    key = Key(effect.workspace, path)
                    told[key] = StreamTold(*key, number, stream.base, stream.tail)
    return list(told.values())


def _require_known(one: StoppedPartition) -> None:
    """Refuse a manifest with something that would be left behind."""
    unknown = one.archive.manifest.extra.keys() - _DIVIDED
    if unknown:
        raise RepartitionRefusedError(
            problem=f"its manifest has {', '.join(sorted(unknown))}, which this program cannot divide. Use"
            " the program that wrote it, or a newer one."
        )
