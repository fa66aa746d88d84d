"""The table of keys: who a secret stands for, and whether that is still so.

A process has one, which outlives its engines. It is fed by the store of the keys, in the process that has
it, and by what that process tells in all others.
"""

import asyncio
import hmac
from collections.abc import Callable, Iterable
from typing import Protocol

from durable_sessions.access.caller import Caller, Role
from durable_sessions.access.key import KeyDocument, LiveKey, digest
from durable_sessions.clock import Clock
from durable_sessions.errors import KeysUnprovenError

BOOTSTRAP = "bootstrap"
_LOOK_SECONDS_MAX = 86_400.0


class TablePublisher(Protocol):
    """Told of every change of a table, after it."""

    def key_changed(self, document: KeyDocument) -> None:
        """A key was added or changed."""
        ...

    def key_forgotten(self, key_id: str) -> None:
        """A key was removed."""
        ...

    def keys_needed(self) -> None:
        """From now on every request needs a key."""
        ...

    def keys_replaced(self) -> None:
        """The whole content has changed."""
        ...

    async def everywhere(self) -> bool:
        """Wait until all other processes have the table as it is now; False if that takes too long."""
        ...


class KeyTable:
    """All keys. From the first one on every request needs one, even if all are revoked.

    ``home`` is the workspace that is served while there are no keys; its admins are the operators, who
    manage the keys of all workspaces. ``version`` grows by one with each change. ``publisher`` tells other
    processes of changes, None if there are none. ``is_fresh`` is set where the table follows that of another
    process: it says whether the table may be relied on.
    """

    def __init__(self, clock: Clock, home: str) -> None:
        self._clock = clock
        self.home = home
        self.required = False
        self.version = 0
        self.publisher: TablePublisher | None = None
        self.is_fresh: Callable[[], bool] | None = None
        self._by_id: dict[str, LiveKey] = {}
        self._by_digest: dict[bytes, LiveKey] = {}
        self._revoked_by_digest: dict[bytes, KeyDocument] = {}
        self._bootstrap: LiveKey | None = None
        self._workers = 1
        self._watchers: dict[str | None, dict[object, Callable[[], object]]] = {}

    def __len__(self) -> int:
        """Return how many keys there are, without the one from the settings."""
        return len(self._by_id)

    # Looking up -------------------------------------------------------------------------

    def find(self, secret: bytes) -> LiveKey | None:
        """Return the key with this secret, None if there is none, it is revoked, or it has expired."""
        given = digest(secret)
        key = self._by_digest.get(given)
        if key is None or not hmac.compare_digest(key.digest, given):
            return None
        expires = key.document.expires_at_ms is not None
        return None if expires and key.document.is_over(self._clock.now_ms()) else key

    def revoked(self, secret: bytes) -> KeyDocument | None:
        """Return the revoked key with this secret, None if none is known."""
        return self._revoked_by_digest.get(digest(secret))

    def get(self, key_id: str) -> LiveKey | None:
        """Return a key by its id, also one that is no longer valid; None if there is none."""
        return self._by_id.get(key_id)

    def all(self) -> Iterable[LiveKey]:
        """Return all keys, oldest first; the table must not change meanwhile."""
        return self._by_id.values()

    def visible(self, caller: Caller) -> list[LiveKey]:
        """Return the keys that a caller may see, oldest first: those of its workspace, or all."""
        everything = self.is_operator(caller)
        return [
            key for key in self._by_id.values() if everything or key.document.workspace == caller.workspace
        ]

    def is_operator(self, caller: Caller) -> bool:
        """Say whether a caller manages the whole server."""
        return caller.role is Role.ADMIN and caller.workspace == self.home

    # Validity ---------------------------------------------------------------------------

    @property
    def is_unproven(self) -> bool:
        """Whether nobody can be admitted, because the table may be out of date."""
        return self.is_fresh is not None and not self.is_fresh()

    def require_proven(self) -> None:
        """Refuse everybody while the table may be out of date."""
        if self.is_fresh is not None and not self.is_fresh():
            raise KeysUnprovenError

    def valid(self, caller: Caller) -> bool:
        """Say whether an admitted caller is still valid; one without a key is not once there are keys."""
        if self.is_fresh is not None and not self.is_fresh():
            return False
        if caller.key_id is None:
            return not self.required
        if caller.key_id == BOOTSTRAP:
            return True
        key = self._by_id.get(caller.key_id)
        return key is not None and not key.document.is_over(self._clock.now_ms())

    def watch(self, caller: Caller, ended: Callable[[], object]) -> Callable[[], None]:
        """Call ``ended`` once, when a caller ceases to be valid; return a function that cancels this."""
        token = object()
        self._watchers.setdefault(caller.key_id, {})[token] = ended
        key = None if caller.key_id is None else self._by_id.get(caller.key_id)
        expiry = None
        if key is not None and key.document.expires_at_ms is not None:
            expiry = _Expiry(key.document, self._clock, ended)

        def forget() -> None:
            if expiry is not None:
                expiry.cancel()
            watchers = self._watchers.get(caller.key_id, {})
            watchers.pop(token, None)
            if not watchers:
                self._watchers.pop(caller.key_id, None)

        return forget

    # Changes ----------------------------------------------------------------------------

    def bootstrap(self, secret: str) -> None:
        """Let in whoever knows a secret from the settings, as an admin; it is kept in memory only."""
        document = KeyDocument(
            id=BOOTSTRAP,
            workspace=self.home,
            principal=BOOTSTRAP,
            role=Role.ADMIN.label,
            digest=digest(secret.encode()).hex(),
            created_at_ms=self._clock.now_ms(),
            created_by="settings",
        )
        self._bootstrap = LiveKey(document, self._clock.now_ms())
        self._by_digest[self._bootstrap.digest] = self._bootstrap
        self.require_keys()

    def apply(self, document: KeyDocument) -> LiveKey:
        """Add a key, or change one: from now on a key that is revoked admits nobody."""
        key = self._by_id.get(document.id)
        if key is None:
            key = self._by_id[document.id] = LiveKey(document, self._clock.now_ms(), self._workers)
        else:
            key.document = document
        if document.revoked_at_ms is None:
            self._by_digest[key.digest] = key
        else:
            self._by_digest.pop(key.digest, None)
            self._revoked_by_digest[key.digest] = document
            self._end(document.id)
        self.version += 1
        if self.publisher is not None:
            self.publisher.key_changed(document)
        self.require_keys()
        return key

    def forget(self, key_id: str) -> bool:
        """Remove a key; say whether there was one."""
        key = self._by_id.pop(key_id, None)
        if key is None:
            return False
        self._by_digest.pop(key.digest, None)
        self._revoked_by_digest.pop(key.digest, None)
        self.version += 1
        if self.publisher is not None:
            self.publisher.key_forgotten(key_id)
        self._end(key_id)
        return True

    def require_keys(self) -> None:
        """Let in nobody without a key, from now on and for good."""
        if not self.required:
            self.required = True
            self.version += 1
            if self.publisher is not None:
                self.publisher.keys_needed()
            self._end(None)

    def used(self, key_id: str, last_used_ms: int) -> None:
        """Note when another process has last seen a key."""
        key = self._by_id.get(key_id)
        if key is not None and (key.last_used_ms is None or key.last_used_ms < last_used_ms):
            key.last_used_ms = last_used_ms

    def replacement(self) -> "KeyReplacement":
        """Return a new content for the table, to be filled in steps; until it is finished nothing changes."""
        return KeyReplacement(self)

    def replace(self, documents: Iterable[KeyDocument]) -> None:
        """Replace all keys by others, in one step."""
        replacement = self.replacement()
        for document in documents:
            replacement.add(document)
        replacement.finish()

    def divide_rates(self, workers: int) -> None:
        """Admit of each key's rate only this process's part: requests reach ``workers`` processes alike."""
        if workers != self._workers:
            self._workers = workers
            for key in self._by_id.values():
                key.divide_rate(workers)

    def renewed(self, document: KeyDocument) -> LiveKey:
        """Return a key as a replacement has it; its rate and when it was last used are kept."""
        known = self._by_id.get(document.id)
        if known is not None and known.document == document:
            return known
        key = LiveKey(document, self._clock.now_ms(), self._workers)
        if known is not None:
            key.last_used_ms = known.last_used_ms
        return key

    def take(self, by_id: dict[str, LiveKey], *, required: bool) -> None:
        """Take over the content of a replacement, and end those whose keys it does not have any more."""
        self._by_id = by_id
        self._by_digest = {} if self._bootstrap is None else {self._bootstrap.digest: self._bootstrap}
        self._revoked_by_digest = {}
        for key in by_id.values():
            if key.document.revoked_at_ms is None:
                self._by_digest[key.digest] = key
            else:
                self._revoked_by_digest[key.digest] = key.document
        self.version += 1
        if required or by_id:
            self.require_keys()
        if self.publisher is not None:
            self.publisher.keys_replaced()
        for key_id in [key_id for key_id in self._watchers if not self._admits(key_id)]:
            self._end(key_id)

    def end_all(self) -> None:
        """Notify all watchers: whom they watch cannot be shown to be valid any more."""
        for key_id in list(self._watchers):
            self._end(key_id)

    def _admits(self, key_id: str | None) -> bool:
        """Say whether callers with this key, or without one, are not revoked; expiry has its own timers."""
        if key_id is None:
            return not self.required
        if key_id == BOOTSTRAP:
            return True
        key = self._by_id.get(key_id)
        return key is not None and key.document.revoked_at_ms is None

    def _end(self, key_id: str | None) -> None:
        """Notify the watchers of a key, or of callers without one, that it is no longer valid."""
        for ended in self._watchers.pop(key_id, {}).values():
            ended()


class KeyReplacement:
    """A new content for the table. Keys are prepared one by one, so that many do not hold the event loop."""

    def __init__(self, table: KeyTable) -> None:
        self._table = table
        self._by_id: dict[str, LiveKey] = {}
        self._required = False

    def __len__(self) -> int:
        """Return how many keys were added."""
        return len(self._by_id)

    def add(self, document: KeyDocument) -> None:
        """Add a key, after those that are older."""
        self._by_id[document.id] = self._table.renewed(document)

    def require_keys(self) -> None:
        """Note that there was a key, although nothing else is known of it."""
        self._required = True

    def finish(self) -> None:
        """Replace the content of the table, in one step."""
        self._table.take(self._by_id, required=self._required)


class _Expiry:
    """Calls back when a key expires. It checks once a day, because the clock may be set meanwhile."""

    def __init__(self, document: KeyDocument, clock: Clock, ended: Callable[[], object]) -> None:
        self._document = document
        self._clock = clock
        self._ended = ended
        self._look()

    def _look(self) -> None:
        now_ms = self._clock.now_ms()
        assert self._document.expires_at_ms is not None
        left_seconds = max(0.0, (self._document.expires_at_ms - now_ms) / 1000)
        call = self._ended if self._document.is_over(now_ms) else self._look
        self._timer = asyncio.get_running_loop().call_later(min(left_seconds, _LOOK_SECONDS_MAX), call)

    def cancel(self) -> None:
        """Do not call back any more."""
        self._timer.cancel()
