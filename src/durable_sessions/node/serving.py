"""A node of a cluster while it owns the log: it answers, but from its state only while that is proven.

Another node can have claimed the log without this one knowing: while it was paused, or cut off. So whenever
an answer is ready to leave, the last acknowledged frame must have been sent less than the proof's time ago;
the successor waits for longer than that before it answers anything. If there was no frame for a while, an
empty one is appended first.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from durable_sessions.errors import (
    DurableSessionsError,
    LogError,
    LogFencedError,
    OutcomeUnknownError,
    OwnershipUnprovenError,
    PartitionMovedError,
)
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.handler_failures import close_iterator
from durable_sessions.http.carrier.message import Answer, Handler, Later, Request, Response, StreamingResponse
from durable_sessions.log import Log

PROVE_SECONDS_MAX = 2.0
"""How long an answer waits for the proof before it is refused."""
_READING = (b"GET", b"HEAD", b"OPTIONS")
_UNAVAILABLE = 503
_UNKNOWN = OutcomeUnknownError.code.encode()


class Serving:
    """Answers requests with ``handle``, each only if the log is still ours when the answer leaves.

    ``lost`` is called when a proof fails: another process has claimed the log, or its end is unknown; either
    way it takes nothing more. ``now`` is CLOCK_BOOTTIME, which also counts while the machine sleeps.
    """

    def __init__(
        self, handle: Handler, log: Log, lost: Callable[[LogError], None], now: Callable[[], float]
    ) -> None:
        self._handle = handle
        self._log = log
        self._lost = lost
        self._now = now
        self._proving: asyncio.Task[None] | None = None

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request, synchronously where possible."""
        answer = self._handle(request)
        if isinstance(answer, Response | StreamingResponse):
            return self._checked(request, answer)
        if isinstance(answer, Later):
            return Later(answer.future, partial(self._respond, request, answer.respond))
        return self._awaited(request, answer)

    @property
    def is_proven(self) -> bool:
        """Whether nobody else can have acknowledged anything yet."""
        return self._now() < self._log.proven_until

    def _respond(
        self,
        request: Request,
        respond: "Callable[[asyncio.Future[object]], Answer | Awaitable[Answer]]",
        future: "asyncio.Future[object]",
    ) -> Answer | Awaitable[Answer]:
        answer = respond(future)
        if isinstance(answer, Response | StreamingResponse):
            return self._checked(request, answer)
        return self._awaited(request, answer)

    async def _awaited(self, request: Request, answer: Awaitable[Answer]) -> Answer:
        checked = self._checked(request, await answer)
        return checked if isinstance(checked, Response | StreamingResponse) else await checked

    def _checked(self, request: Request, answer: Answer) -> Answer | Awaitable[Answer]:
        if isinstance(answer, StreamingResponse):
            answer.chunks = self._proven_chunks(answer.chunks)
        if self.is_proven or _leaves_open(answer):
            return answer
        return self._once_proven(request, answer)

    async def _once_proven(self, request: Request, answer: Answer) -> Answer:
        try:
            await self.prove()
        except (PartitionMovedError, OwnershipUnprovenError) as error:
            if isinstance(answer, StreamingResponse):
                await close_iterator(answer.chunks)
            return ANSWER_FORMAT.refuse(request.path, _refusal(request, answer, error), request.id)
        return answer

    async def _proven_chunks(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield what is streamed; the stream ends, and its reader comes back, if it cannot be proven."""
        try:
            async for chunk in chunks:
                if not self.is_proven:
                    try:
                        await self.prove()
                    except (PartitionMovedError, OwnershipUnprovenError):
                        return
                yield chunk
        finally:
            await close_iterator(chunks)

    async def prove(self) -> None:
        """Renew the proof; all who wait for it share one frame."""
        if self._proving is None or self._proving.done():
            self._proving = asyncio.create_task(self._log.prove())
            self._proving.add_done_callback(self._proved)
        try:
            # Shielded: a frame that is under way must not be cancelled, for its outcome would be unknown.
            async with asyncio.timeout(PROVE_SECONDS_MAX):
                await asyncio.shield(self._proving)
        except LogFencedError:
            raise PartitionMovedError from None
        except TimeoutError:
            reason = f"the log did not answer within {PROVE_SECONDS_MAX:g} seconds"
            raise OwnershipUnprovenError(reason=reason) from None
        except LogError as error:
            raise OwnershipUnprovenError(reason=str(error)) from None

    def _proved(self, proving: "asyncio.Task[None]") -> None:
        """Give the log up if a proof has failed, also when nobody waits for it any more."""
        error = None if proving.cancelled() else proving.exception()
        if isinstance(error, LogError):
            self._lost(error)


def _leaves_open(answer: Answer) -> bool:
    """Say whether an answer tells that its request may have taken effect: no refusal may say otherwise."""
    return answer.status == _UNAVAILABLE and isinstance(answer, Response) and _UNKNOWN in answer.body


def _refusal(request: Request, answer: Answer, error: DurableSessionsError) -> DurableSessionsError:
    """Return the refusal instead of an answer; what may have changed something is never said not to have."""
    if request.method in _READING or answer.status >= 400:
        return error
    return OutcomeUnknownError(reason="another server may have taken over before the answer left")
