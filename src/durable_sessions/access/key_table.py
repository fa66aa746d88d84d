"""The table of keys: who a secret stands for, and whether that is still so.

Each process has one, which outlives its engines. The key store feeds it in the process that has the store; in
all others, a follower feeds it with what that process publishes.
"""

import asyncio
import hmac
from collections.abc import Callable, Iterable
from typing import Protocol

from durable_sessions.access.caller import Caller, Role
from durable_sessions.access.key import KeyDocument, LiveKey, digest
from durable_sessions.access.sign_in_index import SignInIndex
from durable_sessions.clock import Clock
from durable_sessions.errors import KeysUnprovenError

BOOTSTRAP = "bootstrap"
"""The id of the key from the settings, which no log contains."""
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


class TableProof(Protocol):
    """Knows whether a table that follows that of another process may be relied on."""

    def is_fresh(self) -> bool:
        """Say whether the other process has confirmed the table recently enough."""
        ...

    async def renew(self) -> None:
        """Have the table confirmed again, as soon as possible; return also if that cannot be done."""
        ...


class KeyTable:
    """All keys. From the first one on every request needs one, even if all are revoked.

    ``home`` is the workspace that is served while there are no keys; its admins are the operators, who
    manage the keys of all workspaces. ``version`` grows by one with each change. ``publisher`` tells other
    processes of changes, None if there are none. ``proof`` is set where the table follows that of another
    process. ``sign_ins`` has those keys that are sign-ins of browsers.
    """

    def __init__(self, clock: Clock, home: str) -> None:
        self._clock = clock
        self.home = home
        self.required = False
        self.version = 0
        self.publisher: TablePublisher | None = None
        self.proof: TableProof | None = None
        self._by_id: dict[str, LiveKey] = {}
        self.sign_ins = SignInIndex()
        self._by_digest: dict[bytes, LiveKey] = {}
        self._revoked_by_digest: dict[bytes, KeyDocument] = {}
        self._bootstrap: LiveKey | None = None
        self._workers = 1
        self._watchers: dict[str | None, dict[object, Callable[[], object]]] = {}

    def __len__(self) -> int:
        """Return how many keys there are, without the one from the settings."""
        return len(self._by_id)

    # Looking up -------------------------------------------------------------------------

    def find(self, secret: bytes, *, in_cookie: bool = False) -> LiveKey | None:
        """Return the key with this secret, None if there is none, it is revoked, or it has expired.

        The secret of a browser's sign-in is found only in a cookie, and that of a key only elsewhere.
        """
        given = digest(secret)
        key = self._by_digest.get(given)
        # The look-up compares digests, not secrets: how long it takes tells nothing that helps to guess a
        # secret.
        if key is None or not hmac.compare_digest(key.digest, given):
            return None
        document = key.document
        if in_cookie is (document.parent is None):
            return None
        if document.expires_at_ms is None and document.parent is None:
            return key  # a revoked one is not in this table
        return None if self.is_over(key) else key

    def parent(self, key: LiveKey) -> LiveKey | None:
        """Return the key that a browser has signed in with; None if it is gone, or this is no sign-in."""
        if key.document.parent == BOOTSTRAP:
            return self._bootstrap
        return None if key.document.parent is None else self._by_id.get(key.document.parent)

    def is_over(self, key: LiveKey) -> bool:
        """Say whether a key was revoked or has expired, or the key that a browser has signed in with."""
        now_ms = self._clock.now_ms()
        if key.document.is_over(now_ms):
            return True
        if key.document.parent is None:
            return False
        parent = self.parent(key)
        return parent is None or parent.document.is_over(now_ms)

    def revoked(self, secret: bytes) -> KeyDocument | None:
        """Return the revoked key with this secret, None if none is known."""
        return self._revoked_by_digest.get(digest(secret))

    def get(self, key_id: str) -> LiveKey | None:
        """Return a key by its id, also one that is no longer valid; None if there is none."""
        return self._by_id.get(key_id)

    def all(self) -> Iterable[LiveKey]:
        """Return all keys, oldest first; the table must not change meanwhile."""
        return self._by_id.values()

    @property
    def since_ms(self) -> int | None:
        """When the oldest key was created: from then on every caller has shown one. None if there is none.

        The key of the settings does not count: whether it was there at an earlier time, nobody knows.
        """
        oldest = next((key for key in self._by_id.values() if key.document.parent is None), None)
        return None if oldest is None else oldest.document.created_at_ms

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
        return self.proof is not None and not self.proof.is_fresh()

    def require_proven(self) -> None:
        """Refuse everybody while the table may be out of date."""
        if self.is_unproven:
            raise KeysUnprovenError

    async def renew_proof(self) -> None:
        """Try to have the table confirmed, if it may be out of date; a process that slept finds it so."""
        if self.proof is not None and not self.proof.is_fresh():
            await self.proof.renew()

    def valid(self, caller: Caller) -> bool:
        """Say whether an admitted caller is still valid; one without a key is not once there are keys."""
        if self.is_unproven:
            return False
        if caller.key_id is None:
            return not self.required
        if caller.key_id == BOOTSTRAP:
            return True
        key = self._by_id.get(caller.key_id)
        return key is not None and not self.is_over(key)

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
            self.sign_ins.add(key)
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
        self.sign_ins.remove(key)
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
        """Admit of each key's rate only this process's part: requests reach ``workers`` processes alike.

        That is for as long as it is not heard what the others admit; ``spend`` is told that.
        """
        if workers != self._workers:
            self._workers = workers
            for key in self._by_id.values():
                key.divide_rate(workers)

    def spend(self, key_id: str, requests: int, debt_bursts_max: int) -> None:
        """Count requests that other processes have admitted against the rate of a key."""
        key = self._by_id.get(key_id)
        if key is not None and key.rate is not None:
            key.rate.spend(requests, debt_bursts_max, self._clock.now_ms())

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
        self.sign_ins = SignInIndex(by_id.values())
        self._by_digest = {} if self._bootstrap is None else {self._bootstrap.digest: self._bootstrap}
        self._revoked_by_digest = {}
        for key in by_id.values():
            if key.document.revoked_at_ms is None:
                self._by_digest[key.digest] = key
            else:
                self._revoked_by_digest[key.digest] = key.document
        self.version += 1
        # A sign-in with the key of the settings is no key: without that setting nobody needs one.
        if required or any(key.document.parent != BOOTSTRAP for key in by_id.values()):
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
        if key is None or key.document.revoked_at_ms is not None:
            return False
        return key.document.parent is None or self._admits(key.document.parent)

    def _end(self, key_id: str | None) -> None:
        """Notify the watchers of a key and its sign-ins, or of callers without one, that it is not valid."""
        ids = [key_id] if key_id is None else [key_id, *(key.document.id for key in self.sign_ins.of(key_id))]
        for one in ids:
            for ended in self._watchers.pop(one, {}).values():
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
