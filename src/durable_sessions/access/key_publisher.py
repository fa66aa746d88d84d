"""Publishes the table of keys to the other processes of a server, and knows which of them have it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator

import msgspec

from durable_sessions.access.key import KeyDocument
from durable_sessions.access.key_feed import (
    KeyChange,
    KeyChanged,
    KeyForgotten,
    KeysConfirmed,
    KeysNeeded,
    KeysSeen,
    SnapshotBegun,
    SnapshotEnded,
    encode,
    line,
    snapshot_lines,
)
from durable_sessions.access.key_table import KeyTable
from durable_sessions.errors import KeysUnprovenError
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits

_CLOCK_RATES = 1.1
"""The factor by which the clocks of two processes may run at different speeds."""


class _Follower:
    """A process that follows: what it has not been sent yet, and what it has acknowledged.

    It counts until its own proof must have ended, also when its connection is lost: until then it may admit
    callers by what it has.
    """

    def __init__(self, before: "_Follower | None") -> None:
        self.acked: int = -1 if before is None else before.acked
        self.acked_at: float | None = None if before is None else before.acked_at
        self.is_connected = True
        self.needs_snapshot = True
        self._changes: deque[bytes] = deque()
        self._changes_bytes = 0
        self._news = asyncio.Event()

    def add(self, change: bytes, limits: Limits) -> None:
        """Queue a change; one that has fallen too far behind gets a new snapshot instead."""
        if self.needs_snapshot:
            return
        self._changes.append(change)
        self._changes_bytes += len(change)
        full = self._changes_bytes > limits.key_feed_queue_bytes_max
        if full or len(self._changes) > limits.key_feed_queue_max:
            self.renew()
        self._news.set()

    def renew(self) -> None:
        """Send a new snapshot, and nothing of what is queued."""
        self.needs_snapshot = True
        self._changes.clear()
        self._changes_bytes = 0
        self._news.set()

    def take(self) -> bytes:
        """Return everything that is queued."""
        queued = b"".join(self._changes)
        self._changes.clear()
        self._changes_bytes = 0
        return queued

    async def wait(self) -> None:
        """Wait until there is something to send."""
        while not self._changes and not self.needs_snapshot:
            self._news.clear()
            await self._news.wait()


class KeyPublisher:
    """Sends the table to everyone who follows it; one for each table, in the process that has the store.

    ``now`` is a monotonic clock that also counts while the machine sleeps, in seconds. ``is_proven`` says
    whether this process is still the one that has the keys: only then it confirms a follower.
    """

    def __init__(
        self,
        table: KeyTable,
        ids: Ids,
        limits: Limits,
        now: Callable[[], float],
        is_proven: Callable[[], bool] = lambda: True,
    ) -> None:
        self.incarnation = ids.token("keys_")
        self._table = table
        self._limits = limits
        self._now = now
        self._is_proven = is_proven
        self._followers: dict[str, _Follower] = {}
        self._acknowledged = asyncio.Event()
        table.publisher = self

    # Changes of the table ---------------------------------------------------------------

    def key_changed(self, document: KeyDocument) -> None:
        """Publish that a key was created or revoked."""
        self._publish(KeyChanged(self._table.version, document))

    def key_forgotten(self, key_id: str) -> None:
        """Publish that a key is gone."""
        self._publish(KeyForgotten(self._table.version, key_id))

    def keys_needed(self) -> None:
        """Publish that every request needs a key."""
        self._publish(KeysNeeded(self._table.version))

    def keys_replaced(self) -> None:
        """Publish the whole table anew."""
        for follower in self._followers.values():
            follower.renew()

    def _publish(self, change: KeyChange) -> None:
        if self._followers:
            encoded = line(change)
            for follower in self._followers.values():
                follower.add(encoded, self._limits)

    # Followers --------------------------------------------------------------------------

    async def follow(self, name: str) -> AsyncIterator[bytes]:
        """Yield the table and then its changes, for as long as the follower is connected."""
        self._forget_ended()
        follower = self._followers[name] = _Follower(self._followers.get(name))
        try:
            while True:
                if follower.needs_snapshot:
                    for chunk in self._snapshot(follower):
                        yield chunk
                else:
                    await follower.wait()
                    if changes := follower.take():
                        yield changes
        finally:
            follower.is_connected = False
            self._forget_ended()

    def _snapshot(self, follower: _Follower) -> Iterator[bytes]:
        """Yield the table as it is now; later changes are queued meanwhile."""
        # Nothing runs between this line and ``ended``: a change is either in the snapshot or queued after it.
        follower.needs_snapshot = False
        documents = [key.document for key in self._table.all()]
        ended = SnapshotEnded(self._table.version, len(documents), self._table.required)
        yield line(SnapshotBegun(self.incarnation))
        limits = self._limits
        yield from snapshot_lines(
            documents, keys_max=limits.key_feed_slice_max, bytes_max=limits.key_feed_slice_bytes_max
        )
        # If it was to be renewed meanwhile, the rest is sent all the same: the next one follows at once.
        yield line(ended)

    def acknowledge(self, seen: bytes) -> bytes:
        """Note which version a follower has, and return which one there is, as JSON."""
        if not self._is_proven():
            raise KeysUnprovenError
        told = msgspec.json.decode(seen, type=KeysSeen)
        for key_id, last_used_ms in told.last_used_ms.items():
            self._table.used(key_id, last_used_ms)
        follower = self._followers.get(told.follower)
        if follower is not None and told.incarnation == self.incarnation:
            follower.acked = max(follower.acked, told.version)
            follower.acked_at = self._now()
            self._acknowledged.set()
        return encode(KeysConfirmed(self.incarnation, self._table.version))

    def gone(self, name: str) -> None:
        """Do not wait for a follower any more whose process is known to have ended."""
        self._followers.pop(name, None)
        self._acknowledged.set()

    async def everywhere(self) -> bool:
        """Wait until all followers have what the table has now; False if one has not after some seconds."""
        version = self._table.version
        try:
            async with asyncio.timeout(self._limits.keys_everywhere_seconds_max):
                while self._is_missing(version):
                    self._acknowledged.clear()
                    await self._acknowledged.wait()
        except TimeoutError:
            return not self._is_missing(version)
        return True

    def _is_missing(self, version: int) -> bool:
        """Say whether some follower may still admit callers by an older version."""
        return any(one.acked < version and self._counts(one) for one in self._followers.values())

    def _counts(self, follower: _Follower) -> bool:
        """Say whether a follower may be proven: one that was never confirmed admits nobody."""
        proof_seconds = _CLOCK_RATES * self._limits.key_proof_seconds
        return follower.acked_at is not None and self._now() - follower.acked_at < proof_seconds

    def _forget_ended(self) -> None:
        ended = [
            name for name, one in self._followers.items() if not one.is_connected and not self._counts(one)
        ]
        for name in ended:
            del self._followers[name]
