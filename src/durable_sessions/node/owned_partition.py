"""A partition of a cluster while this node owns it: from its claim until it is lost or given up."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from durable_sessions.errors import (
    DurableSessionsError,
    LogError,
    LogFencedError,
    OwnershipUnprovenError,
    PartitionMovedError,
)
from durable_sessions.http.api.health import EngineHealth
from durable_sessions.http.api.neighbours import Ask
from durable_sessions.http.carrier.message import Handler
from durable_sessions.log.shared import SharedLog, boottime
from durable_sessions.node.engine import Engine
from durable_sessions.node.engine_keeper import EngineKeeper
from durable_sessions.node.process_parts import ProcessParts
from durable_sessions.node.serving import Serving
from durable_sessions.node.system_calls import TakeRecord
from durable_sessions.partition_id import PartitionId

logger = structlog.get_logger(__name__)

EMPTY_FRAMES_MAX = 1_200
"""After this many frames a log without batches is trimmed: about an hour of proofs, replayed in no time."""


class OwnedPartition:
    """The engine of a partition and the proof that it is still ours; thrown away when either is lost.

    ``serving`` is None while this node must not answer: before the last owner's proof has ended, and from
    the beginning of a hand-over on.
    """

    serving: Serving | None = None
    moving_to = ""
    is_given_up = False

    def __init__(
        self,
        process: ProcessParts,
        partition: PartitionId,
        deliver: TakeRecord,
        ask: Ask,
        settle: Callable[[], Awaitable[None]],
    ) -> None:
        self.id = partition
        self._process = process
        self._failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

        def engine(health: EngineHealth) -> Engine:
            # A set of its own: whoever owned the partition since this process last did is its predecessor.
            return Engine(process, health, set(), partition, deliver, ask)

        self._keeper = EngineKeeper(engine, process.limits, settle, self._fail, reopens=False)

    async def open(self) -> None:
        """Claim and replay the log; on return this node owns the partition, but does not answer yet."""
        await self._keeper.open()
        self._keeper.start(self._process.supervisor)

    @property
    def engine(self) -> Engine:
        """The engine."""
        return self._keeper.engine

    @property
    def log(self) -> SharedLog:
        """The log."""
        log = self._keeper.engine.log
        assert isinstance(log, SharedLog), "the log of a cluster is one that other machines reach"
        return log

    @property
    def epoch(self) -> int:
        """The position of the claim."""
        return self.engine.partition.epoch

    @property
    def proof_age_seconds(self) -> float:
        """How long ago the frame was sent that last proved the ownership."""
        log = self.log
        return max(0.0, boottime() - (log.proven_until - log.proof_seconds))

    def serve(self, answer: Handler) -> None:
        """Answer with ``answer`` from now on."""
        self.serving = Serving(answer, self.log, self.lost, boottime)

    async def renew_proof(self) -> None:
        """Prove that the log is still ours, if that is possible."""
        if self.serving is not None:
            try:
                await self.serving.prove()
            except (PartitionMovedError, OwnershipUnprovenError):
                pass  # whoever asked finds the proof as it is

    async def until_lost(self, seconds_max: float | None = None) -> Exception | None:
        """Wait until the log or the manifest is lost, and return how; None after ``seconds_max``."""
        done, _ = await asyncio.wait((self._failed,), timeout=seconds_max)
        return self._failed.result() if done else None

    def _fail(self, error: Exception) -> None:
        if not self._failed.done():
            self._failed.set_result(error)

    def lost(self, error: LogError) -> None:
        """Give everything up: the log is another's, or takes nothing more."""
        if isinstance(error, LogFencedError):
            self.engine.partition.step_down(error)
        else:
            self.engine.partition.log_failed(str(error))

    async def flush(self) -> bool:
        """Flush what there is, so that a successor has little to replay; say whether that was possible."""
        try:
            await self.engine.flusher.flush_all()
        except DurableSessionsError as error:
            logger.warning("flush_before_hand_over_failed", reason=str(error))
            return False
        return True

    async def tidy(self) -> None:
        """Trim a log that has grown by nothing but proofs."""
        flushed = self.engine.archive.flushed_through
        if (self.log.ends_at or 0) - flushed >= EMPTY_FRAMES_MAX:
            await self.engine.partition.skip_empty_frames()

    async def hand_over(self, to: str, released: Callable[[], Awaitable[None]]) -> None:
        """Stop answering, let the frame in flight finish, and give the log to another node.

        ``released`` is called as soon as that one may claim it.
        """
        self.serving = None
        self.is_given_up = True
        self._keeper.drain()
        log = self.log

        async def release() -> None:
            await log.give_up(to)
            await released()

        await self._keeper.hand_over(release)
        self._fail(PartitionMovedError())

    async def close(self) -> None:
        """Leave everything durable, for whoever claims the log next; nobody is there to take it now."""
        self.serving = None
        self.is_given_up = True
        self._keeper.drain()
        await self._keeper.close()
        self._fail(PartitionMovedError())

    async def abandon(self) -> None:
        """Throw the engine away."""
        self.serving = None
        await self._keeper.abandon()
