"""Delivers what the partitions of a stopped server owe to each other, so that new ones owe nothing."""

from collections.abc import Sequence

import msgspec

from durable_sessions.errors import RepartitionRefusedError
from durable_sessions.limits import Limits
from durable_sessions.sessions.memory import intake
from durable_sessions.sessions.memory.records import FOLDER as MEMORY
from durable_sessions.sessions.memory.scopes import Scopes
from durable_sessions.storage.outbox_delivery import OutboxDelivery
from durable_sessions.streams import outbox_intake, wake_intake
from durable_sessions.streams.outbox import OwedRecord
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.streams.stream import SYSTEM_WORKSPACE
from durable_sessions.streams.wake_intake import WakeEvent
from durable_sessions.tools.stopped_partition import StoppedPartition


class OutboxDrain:
    """Delivers among partitions of one process what servers deliver over links."""

    def __init__(self, partitions: Sequence[StoppedPartition], limits: Limits) -> None:
        self._partitions = partitions
        self._limits = limits
        self._by_number = {one.id.number: one for one in partitions}
        self._scopes = {one.id.number: Scopes(one.partition, limits) for one in partitions}

    async def run(self) -> None:
        """Deliver everything; refuse the repartitioning if something cannot be delivered."""
        for one in self._partitions:
            delivery = OutboxDelivery(one.partition, self._deliver, self._limits)
            if not await delivery.deliver_all():
                raise RepartitionRefusedError(
                    problem=f"partition {one.id.digits} owes records to another one, which did not take them:"
                    f" {delivery.failure}"
                )
            await one.partition.settled()

    async def _deliver(self, record: OwedRecord) -> None:
        home = home_partition(*record.target, of=self._partitions[0].id.of)
        if record.target.workspace == SYSTEM_WORKSPACE:
            await self._by_number[home].partition.commit(
                lambda state, now_ms: (outbox_intake.take(state, record, now_ms), None)
            )
        elif record.target.folder == MEMORY:
            await intake.take(self._scopes[home], record, self._limits)
        else:
            await self._deliver_wake(record)

    async def _deliver_wake(self, record: OwedRecord) -> None:
        """Append a wake event to its stream, in whichever partition that is; in none, nobody gets it."""
        wake = msgspec.json.decode(record.data, type=WakeEvent)
        for one in self._partitions:
            await one.partition.commit(
                lambda state, now_ms: (wake_intake.take(state, record.target, wake, now_ms), None)
            )
