"""Delivers what a partition owes to others, in order for each target, until it is acknowledged."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import structlog

from durable_sessions.errors import DurableSessionsError
from durable_sessions.limits import Limits
from durable_sessions.storage.partition import Partition
from durable_sessions.streams.effects import OutboxDelivered
from durable_sessions.streams.outbox import OwedRecord
from durable_sessions.streams.stream import Key

logger = structlog.get_logger(__name__)

Deliver = Callable[[OwedRecord], Awaitable[None]]
"""Gives a record to the partition that has its target; returns when it is durable there."""


class OutboxDelivery:
    """Delivers the entries of an outbox, again after every start: the target takes each of them once.

    ``failure`` says why the last round did not deliver everything; it is repeated with growing pauses.
    """

    def __init__(self, partition: Partition, deliver: Deliver, limits: Limits) -> None:
        self._partition = partition
        self._deliver = deliver
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.outbox_deliveries_max)
        self._added = asyncio.Event()
        self._acknowledged: set[asyncio.Future[None]] = set()
        self.failure: str | None = None
        partition.tip.outbox.on_added = self._added.set

    async def run(self) -> None:
        """Deliver until cancelled."""
        pause_seconds = self._limits.outbox_retry_seconds
        while True:
            self._added.clear()
            if await self.deliver_all():
                pause_seconds = self._limits.outbox_retry_seconds
                await self._added.wait()
            else:
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, self._limits.outbox_retry_seconds_max)

    async def delivered(self, targets: Iterable[Key], seconds_max: float) -> bool:
        """Wait until these targets have all that they are owed now; False if that takes too long."""
        outbox = self._partition.tip.outbox
        wanted = {target: last for target in targets if (last := outbox.last_number(target)) is not None}
        try:
            async with asyncio.timeout(seconds_max):
                while any(outbox.is_owed(target, last) for target, last in wanted.items()):
                    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._acknowledged.add(waiting)
                    try:
                        await waiting
                    finally:
                        self._acknowledged.discard(waiting)
        except TimeoutError:
            return False
        return True

    async def deliver_all(self) -> bool:
        """Deliver what is in the outbox now; say whether all of it was."""
        pending = self._partition.tip.outbox.pending()
        if not pending:
            self.failure = None
            return True
        try:
            # Entries appear at the tip, before they are durable. What is not durable may never have happened.
            await self._partition.settled()
        except DurableSessionsError as error:
            return self._failed(error)
        lines = [asyncio.create_task(self._deliver_line(records)) for records in pending]
        try:
            delivered = await asyncio.gather(*lines)
        finally:
            for line in lines:
                line.cancel()
        if all(delivered):
            self.failure = None
        return all(delivered)

    async def _deliver_line(self, records: list[OwedRecord]) -> bool:
        """Deliver the entries of one target one after the other, up to the first that fails."""
        through: int | None = None
        try:
            async with self._slots:
                for record in records:
                    await self._deliver(record)
                    through = record.id.number
        except (DurableSessionsError, OSError) as error:  # time-outs are OSErrors
            return self._failed(error)
        finally:
            if through is not None:
                self._acknowledge(records[0], through)
        return True

    def _acknowledge(self, record: OwedRecord, through: int) -> None:
        """Remove delivered entries; if that is lost with the process, they are delivered again."""
        try:
            done = self._partition.commit(
                lambda state, now_ms: ([OutboxDelivered(*record.target, through)], None)
            )
        except DurableSessionsError:
            return  # the log has failed: the next engine delivers them again
        for waiting in self._acknowledged:
            if not waiting.done():
                waiting.set_result(None)
        done.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _failed(self, error: Exception) -> bool:
        reason = str(error) or repr(error)
        if self.failure is None:
            logger.warning("outbox_not_delivered_yet", reason=reason)
        self.failure = reason
        return False
