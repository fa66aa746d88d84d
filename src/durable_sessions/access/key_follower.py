"""Follows the table of keys of another process, and knows until when what it has may be trusted."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from math import inf

import msgspec
import structlog

from durable_sessions.access.key_feed import (
    KeyChange,
    KeyChanged,
    KeyFeedError,
    KeyForgotten,
    KeyRecord,
    KeysConfirmed,
    KeysSeen,
    SnapshotBegun,
    SnapshotEnded,
    SnapshotSlice,
    encode,
    records,
)
from durable_sessions.access.key_table import KeyReplacement, KeyTable
from durable_sessions.errors import DurableSessionsError
from durable_sessions.limits import Limits

logger = structlog.get_logger(__name__)

OpenStream = Callable[[str], AsyncIterator[bytes]]
"""Connects to the publisher's ``follow`` with the name of this follower."""
Acknowledge = Callable[[bytes], Awaitable[bytes]]
"""Calls the publisher's ``acknowledge``."""


class KeyFollower:
    """Keeps a table equal to the publisher's; without its confirmation the table soon admits nobody.

    The follower is confirmed as of the moment at which it *sent* an acknowledgement whose answer names no
    newer version than it has: at some moment after that the publisher had nothing newer. ``name`` is new for
    each process. ``now`` is a monotonic clock that also counts while the machine sleeps, in seconds.

    A process that was stopped for longer than the proof holds, or got no processor time, wakes with a proof
    that has ended although nothing is wrong. So the end of the proof alone refuses nobody: callers wait for
    one more confirmation. Only when a try that began after that end has failed, the publisher counts as lost.
    """

    def __init__(
        self, name: str, table: KeyTable, acknowledge: Acknowledge, now: Callable[[], float], limits: Limits
    ) -> None:
        self.name = name
        self.incarnation: str | None = None
        self.version = -1
        self.failure: str | None = None
        self._table = table
        self._acknowledge = acknowledge
        self._now = now
        self._limits = limits
        self._confirmed_at: float | None = None
        self._fresh_until = -inf
        # A version that is still to come, and when the acknowledgement was sent whose answer named it.
        self._awaited: tuple[int, float] | None = None
        self._replacement: KeyReplacement | None = None
        self._begun: str | None = None
        self._told_used_ms = 0
        self._is_lost = False  # whether a try has failed that began when the proof had ended
        self._tried = asyncio.Event()
        self._advanced = asyncio.Event()
        self._confirmed = asyncio.Event()
        self._was_fresh = False
        table.proof = self

    # Freshness --------------------------------------------------------------------------

    def is_fresh(self) -> bool:
        """Say whether the publisher has confirmed the table recently enough to rely on it."""
        return self._now() < self._fresh_until

    @property
    def confirmed_seconds_ago(self) -> float | None:
        """How long ago the table was confirmed; None if it never was."""
        return None if self._confirmed_at is None else self._now() - self._confirmed_at

    async def confirmed(self) -> None:
        """Wait until the table was confirmed for the first time."""
        await self._confirmed.wait()

    async def renew(self) -> None:
        """Ask for a confirmation now and wait for it, with all who do; not if the publisher is lost."""
        try:
            async with asyncio.timeout(self._limits.key_confirm_seconds_max):
                while not self._is_lost and not self.is_fresh():
                    self._tried.clear()
                    self._advanced.set()
                    await self._tried.wait()
        except TimeoutError:
            pass  # whoever waited finds the table as it is

    def _failed(self, reason: str, *, began_fresh: bool) -> None:
        """Note why a try has failed. If the table cannot be relied on, end those whom it admitted."""
        self.failure = reason
        if began_fresh or self.is_fresh():
            return
        self._is_lost = True
        self._tried.set()
        if self._was_fresh:
            self._was_fresh = False
            logger.warning("keys_unproven", reason=reason)
            self._table.end_all()

    # Following --------------------------------------------------------------------------

    async def run(self, open_stream: OpenStream) -> None:
        """Follow until cancelled; connect again whenever the connection is lost."""
        pause_seconds = self._limits.key_feed_retry_seconds
        while True:
            began_fresh, confirmed_at = self.is_fresh(), self._confirmed_at
            try:
                await self.follow(open_stream(self.name))
                self._failed("the connection has ended", began_fresh=began_fresh)
            except (DurableSessionsError, KeyFeedError, OSError) as error:
                self._failed(_reason(error), began_fresh=began_fresh)
            if self._confirmed_at != confirmed_at:
                pause_seconds = self._limits.key_feed_retry_seconds
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, self._limits.key_feed_retry_seconds_max)

    async def follow(self, chunks: AsyncIterator[bytes]) -> None:
        """Apply one connection's snapshot and changes until it ends, and acknowledge them meanwhile.

        It also ends when another publisher answers an acknowledgement. A process that has handed the keys
        over still runs, so that its connection stays open, and would never have anything to send again.
        """
        self._replacement = None
        # What follows may be of another publisher, whose versions mean something else.
        self.incarnation = self._awaited = None
        tasks = [asyncio.create_task(self._apply_all(chunks)), asyncio.create_task(self._confirm())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            aclose = getattr(chunks, "aclose", None)
            if aclose is not None:
                await aclose()

    async def _apply_all(self, chunks: AsyncIterator[bytes]) -> None:
        async for record in records(chunks, self._limits.key_feed_line_bytes_max):
            self.apply(record)

    def apply(self, record: KeyRecord) -> None:
        """Apply one record; one that does not follow from those before is refused."""
        if isinstance(record, SnapshotBegun):
            self._begun = record.incarnation
            self._replacement = self._table.replacement()
        elif isinstance(record, SnapshotSlice):
            replacement = self._replacement
            if replacement is None:
                raise KeyFeedError("keys outside of a snapshot")
            for document in record.keys:
                replacement.add(document)
        elif isinstance(record, SnapshotEnded):
            self._replace(record)
        else:
            self._change(record)

    def _replace(self, record: SnapshotEnded) -> None:
        replacement, self._replacement = self._replacement, None
        if replacement is None or len(replacement) != record.count:
            raise KeyFeedError(f"a snapshot is not complete: it should have {record.count} keys")
        if record.required:
            replacement.require_keys()
        replacement.finish()
        self.incarnation = self._begun
        self._reached(record.version)

    def _change(self, record: KeyChange) -> None:
        if self.incarnation is None or record.version != self.version + 1:
            raise KeyFeedError(f"version {record.version} does not follow {self.version}")
        if isinstance(record, KeyChanged):
            self._table.apply(record.key)
        elif isinstance(record, KeyForgotten):
            self._table.forget(record.id)
        else:
            self._table.require_keys()
        self._reached(record.version)

    def _reached(self, version: int) -> None:
        self.version = version
        if self._awaited is not None and version >= self._awaited[0]:
            self._confirm_as_of(self._awaited[1])
            self._awaited = None
        self._advanced.set()

    # Acknowledging ----------------------------------------------------------------------

    async def _confirm(self) -> None:
        """Acknowledge every version, and now and then the same again, until another publisher answers."""
        while True:
            self._advanced.clear()
            if self.incarnation is not None:
                began_fresh = self.is_fresh()
                try:
                    async with asyncio.timeout(self._limits.key_confirm_seconds_max):
                        if not await self.confirm():
                            return
                except Exception as error:  # whatever it is, without the next try nobody would be admitted
                    self._failed(_reason(error), began_fresh=began_fresh)
            try:
                async with asyncio.timeout(self._limits.key_confirm_seconds):
                    await self._advanced.wait()
            except TimeoutError:
                pass

    async def confirm(self) -> bool:
        """Acknowledge what the table has, and take the answer as a confirmation if there is nothing newer.

        False if another publisher has answered, whose snapshot is still to come.
        """
        assert self.incarnation is not None
        sent_at, used_until_ms = self._now(), self._told_used_ms
        used = self._used()
        seen = KeysSeen(self.name, self.incarnation, self.version, used)
        try:
            answer = msgspec.json.decode(await self._acknowledge(encode(seen)), type=KeysConfirmed)
        except BaseException:
            self._told_used_ms = used_until_ms  # told again with the next one
            raise
        if answer.incarnation != self.incarnation:
            return False
        if answer.version <= self.version:
            self._confirm_as_of(sent_at)
            self.failure = None
        elif self._awaited is None or self._awaited[0] <= self.version:
            # Changes are on the way: once this version is here, the table is as good as it was at
            # ``sent_at``. An earlier wait is not replaced, or it would never end while changes keep coming.
            self._awaited = answer.version, sent_at
        return True

    def _confirm_as_of(self, at: float) -> None:
        if self._confirmed_at is None or at > self._confirmed_at:
            self._confirmed_at = at
            self._fresh_until = at + self._limits.key_proof_seconds
        self._confirmed.set()
        if self.is_fresh():
            self._was_fresh = True
            self._is_lost = False
            self._tried.set()

    def _used(self) -> dict[str, int]:
        """Return when keys were last used here, as far as that was not told yet; only a hint, so not all."""
        since_ms = self._told_used_ms
        recent = [
            (key.last_used_ms, key.document.id)
            for key in self._table.all()
            if key.last_used_ms is not None and key.last_used_ms > since_ms
        ]
        recent.sort()
        del recent[self._limits.key_feed_slice_max :]  # the others next time
        if recent:
            self._told_used_ms = recent[-1][0]
        return {key_id: last_used_ms for last_used_ms, key_id in recent}


def _reason(error: Exception) -> str:
    """Return why a try has failed, for people."""
    if isinstance(error, TimeoutError):
        return "the worker that keeps the keys did not answer in time"
    return str(error) or repr(error)
