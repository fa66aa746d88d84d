"""A link: how this process asks another one, over one connection for all requests."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from durable_sessions.errors import LinkDownError
from durable_sessions.http.carrier.message import Answer, Request, Waiting
from durable_sessions.limits import Limits
from durable_sessions.node.link_address import LinkAddress
from durable_sessions.node.link_asker import LinkAsker, Question
from durable_sessions.node.link_frames import PlainFrame

logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class LinkCounts:
    """What a link has done since the start."""

    forwarded: int = 0
    opened: int = 0
    lost: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class NodeLink:
    """Asks the process at ``address``; connects when it is first asked, and again when that was lost.

    While the link is down requests wait, for a short time and up to a limit. A request that fails with
    :class:`LinkDownError` has certainly not reached the owner; after :class:`LinkLostError` that is unknown.
    """

    def __init__(self, address: LinkAddress, secrets: Sequence[bytes], limits: Limits) -> None:
        self._address = address
        self._secrets = secrets
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._asker: LinkAsker | None = None  # set while the link is open
        self._held: deque[tuple[float, int, Question]] = deque()  # deadline, bytes and request
        self._held_bytes = 0
        self._connecting: asyncio.Task[None] | None = None
        self._failure = ""
        self._closed = False
        self.counts = LinkCounts()

    def ask(self, partition: int, request: Request) -> "asyncio.Future[Answer]":
        """Send a request to the owner of a partition; the future has its answer."""
        question = Question(loop=self._loop)
        question.partition = partition
        question.request = request
        self.counts.forwarded += 1
        if self._asker is not None:
            self._asker.ask(question)
        else:
            self._hold(question)
        return question

    def ask_plain(self, sent: PlainFrame, waiting: Waiting) -> bool:
        """Send a plain append if the link is open; ``waiting`` is told what becomes of it."""
        if self._asker is None or not self._asker.ask_plain(sent, waiting):
            return False
        self.counts.forwarded += 1
        return True

    @property
    def is_open(self) -> bool:
        """Whether a request would be sent at once."""
        return self._asker is not None

    @property
    def open_requests(self) -> int:
        """Requests under way or waiting for the link, streamed answers included."""
        return len(self._held) + (0 if self._asker is None else self._asker.open_questions)

    @property
    def open_streams(self) -> int:
        """Streamed answers under way."""
        return 0 if self._asker is None else self._asker.open_streams

    def traffic(self) -> tuple[int, int]:
        """Return the bytes received and sent since the start."""
        asker = self._asker
        bytes_in, bytes_out = (0, 0) if asker is None else (asker.bytes_in, asker.bytes_out)
        return self.counts.bytes_in + bytes_in, self.counts.bytes_out + bytes_out

    async def close(self) -> None:
        """Close the link; requests under way fail."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        self._fail_held("this process is stopping")
        if self._asker is not None:
            self._asker.close()

    # While it is down -------------------------------------------------------------------

    def _hold(self, question: Question) -> None:
        """Keep a request until the link is open again."""
        limits, size = self._limits, question.request.size()
        if self._closed:
            question.set_exception(LinkDownError(reason="this process is stopping"))
        elif (
            len(self._held) >= limits.link_held_requests_max
            or self._held_bytes + size > limits.link_held_bytes_max
        ):
            question.set_exception(LinkDownError(reason="too many requests wait for it already"))
        else:
            deadline = asyncio.get_running_loop().time() + limits.link_hold_seconds_max
            self._held.append((deadline, size, question))
            self._held_bytes += size
            if self._connecting is None:
                self._connecting = asyncio.create_task(self._connect())

    async def _connect(self) -> None:
        """Try to connect for as long as requests are waiting."""
        pause_seconds = self._limits.link_retry_seconds
        try:
            while self._held and self._asker is None:
                await self._try_once()
                if self._asker is None:
                    # Before the pause and behind it: a request whose time is over waits for no attempt.
                    self._fail_held(self._failure, asyncio.get_running_loop().time())
                    await asyncio.sleep(pause_seconds)
                    pause_seconds = min(2 * pause_seconds, self._limits.link_retry_seconds_max)
                    self._fail_held(self._failure, asyncio.get_running_loop().time())
        finally:
            self._connecting = None

    async def _try_once(self) -> None:
        asker = LinkAsker(self._secrets, self._limits, self._lost)
        try:
            async with asyncio.timeout(self._limits.link_open_seconds_max):
                await self._address.connect(lambda: asker)
                await asker.ready
        except (OSError, LinkDownError) as error:
            self._failed(str(error) or "it did not answer in time")
        else:
            if not asker.closed:
                self._opened(asker)
        finally:
            # Not only after an error: the peer may have closed right behind its welcome, or this task may
            # have been cancelled, and then nobody else knows of this connection.
            if self._asker is not asker:
                asker.discard()

    def _opened(self, asker: LinkAsker) -> None:
        self._asker = asker
        self._failure = ""
        self.counts.opened += 1
        held, self._held = self._held, deque()
        self._held_bytes = 0
        for _, _, question in held:
            if not question.done():
                asker.ask(question)

    def _failed(self, reason: str) -> None:
        if not self._failure:
            # At a start the other process may be slower than this one: nothing is wrong with that yet.
            tell = logger.warning if self.counts.opened else logger.info
            tell("link_down", address=str(self._address), reason=reason)
        self._failure = reason

    def _fail_held(self, reason: str, until: float | None = None) -> None:
        """Fail the requests that have waited for long enough, or all."""
        # All wait for equally long, so the queue is in the order of the deadlines: the first that has time
        # left ends the search.
        while self._held and (until is None or self._held[0][0] <= until or self._held[0][2].done()):
            _, size, question = self._held.popleft()
            self._held_bytes -= size
            if not question.done():
                question.set_exception(LinkDownError(reason=reason))

    def _lost(self, asker: LinkAsker) -> None:
        if asker is not self._asker:
            return
        self._asker = None
        self.counts.bytes_in += asker.bytes_in
        self.counts.bytes_out += asker.bytes_out
        if not self._closed:
            self.counts.lost += 1
            logger.warning("link_lost", address=str(self._address))
