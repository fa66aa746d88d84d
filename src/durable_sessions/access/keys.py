"""The keys of the server: durable in the log, in memory for looking them up."""

import asyncio
import hmac
from collections import Counter
from collections.abc import Callable
from math import ceil
from typing import NamedTuple, TypeVar

import msgspec
import structlog

from durable_sessions.access.audit import Act, Audit
from durable_sessions.access.caller import Caller, Role
from durable_sessions.access.key import SECRET_PREFIX, KeyDocument, LiveKey, digest
from durable_sessions.access.rate import TokenBucket
from durable_sessions.clock import Clock
from durable_sessions.errors import (
    ForbiddenError,
    KeyNotFoundError,
    KeysTooFastError,
    TooManyKeysError,
)
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.storage.door import Streams
from durable_sessions.streams import lifetime
from durable_sessions.streams.effects import Effect, StreamCreated, StreamDescribed
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import SYSTEM_WORKSPACE, Key
from durable_sessions.times import rfc3339

logger = structlog.get_logger(__name__)

FOLDER = "keys"
_ATTRIBUTE = "key"
_JSON = "application/json"
_PAGE = 100
_LOOK_SECONDS_MAX = 86_400.0
_BOOTSTRAP = "bootstrap"

N = TypeVar("N", int, float)


class NewKey(NamedTuple):
    """What a new key is to be."""

    workspace: str
    principal: str
    role: Role
    requests_per_second: float | None = None
    expires_at_ms: int | None = None


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


class Keys:
    """All keys. From the first one on every request needs one, even if all are revoked.

    ``home`` is the workspace that is served while there are no keys; its admins are the operators, who
    manage the keys of all workspaces.
    """

    def __init__(
        self, streams: Streams, audit: Audit, clock: Clock, ids: Ids, limits: Limits, home: str
    ) -> None:
        self._streams = streams
        self._audit = audit
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self.home = home
        self.required = False
        self._by_id: dict[str, LiveKey] = {}
        self._by_digest: dict[bytes, LiveKey] = {}
        self._revoked_by_digest: dict[bytes, KeyDocument] = {}
        self._held: Counter[str] = Counter()  # keys by workspace, including those that are not durable yet
        self._rates: dict[str, TokenBucket] = {}
        self._watchers: dict[str | None, dict[object, Callable[[], object]]] = {}

    def bootstrap(self, secret: str) -> None:
        """Let in whoever knows a secret from the settings, as an admin; it is kept in memory only."""
        document = KeyDocument(
            id=_BOOTSTRAP,
            workspace=self.home,
            principal=_BOOTSTRAP,
            role=Role.ADMIN.label,
            digest=digest(secret.encode()).hex(),
            created_at_ms=self._clock.now_ms(),
            created_by="settings",
        )
        key = LiveKey(document, self._clock.now_ms())
        self._by_digest[key.digest] = key
        self._require_from_now_on()

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

    def valid(self, caller: Caller) -> bool:
        """Say whether an admitted caller is still valid; one without a key is not once there are keys."""
        if caller.key_id is None:
            return not self.required
        if caller.key_id == _BOOTSTRAP:
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

    def visible(self, caller: Caller) -> list[LiveKey]:
        """Return the keys that a caller may see, oldest first: those of its workspace, or all."""
        everything = self.is_operator(caller)
        return [
            key for key in self._by_id.values() if everything or key.document.workspace == caller.workspace
        ]

    def is_operator(self, caller: Caller) -> bool:
        """Say whether a caller manages the whole server."""
        return caller.role is Role.ADMIN and caller.workspace == self.home

    async def create(self, caller: Caller, wanted: NewKey, request_id: str) -> tuple[LiveKey, str]:
        """Create a key durably; return it and its secret, which cannot be shown again."""
        self._require_manager(caller, wanted.workspace)
        if not self.required and (wanted.workspace, wanted.role) != (self.home, Role.ADMIN):
            raise ForbiddenError(
                problem="From the first key on every request needs one, so the first has to be able to make "
                f"others: create it with the role admin in the workspace {self.home}."
            )
        forgotten = self._room(caller, wanted.workspace)
        self._require_pace(caller, wanted.workspace)
        secret = self._ids.token(SECRET_PREFIX) + self._ids.token("")
        document = KeyDocument(
            id=self._ids.token("key_"),
            workspace=wanted.workspace,
            principal=wanted.principal,
            role=wanted.role.label,
            digest=digest(secret.encode()).hex(),
            created_at_ms=self._clock.now_ms(),
            created_by=caller.principal,
            requests_per_second=self._rate(caller, wanted.requests_per_second),
            expires_at_ms=self._expiry(caller, wanted.expires_at_ms),
        )
        act = Act("key.created", caller, wanted.workspace, request_id, _told(document))

        def decide(state: State, now_ms: int) -> tuple[list[Effect], None]:
            number = state.next_id
            effects: list[Effect] = []
            if forgotten is not None:
                effects += lifetime.delete(state, _stream(forgotten.document.id), now_ms)
            effects.append(StreamCreated(number, *_stream(document.id), _JSON, now_ms))
            effects.append(StreamDescribed(number, now_ms, {_ATTRIBUTE: msgspec.json.encode(document)}))
            return effects + self._audit.effects(state, number + 1, now_ms, act), None

        key = LiveKey(document, self._clock.now_ms())
        created = self._streams.commit(decide)
        if forgotten is not None:
            self._forget(forgotten)
        self._held[wanted.workspace] += 1

        def durable(done: "asyncio.Future[None]") -> None:
            self._held[wanted.workspace] -= 1
            if done.exception() is None:
                self._add(key)
                self._audit.log(act)

        created.add_done_callback(durable)
        await asyncio.shield(created)  # the key exists even if the client goes away
        return key, secret

    async def revoke(self, caller: Caller, key_id: str, request_id: str) -> LiveKey:
        """Revoke a key durably; it is refused from this moment on. Idempotent."""
        key = self._by_id.get(key_id)
        if key is None or not (self.is_operator(caller) or key.document.workspace == caller.workspace):
            raise KeyNotFoundError(id=key_id)
        self._require_manager(caller, key.document.workspace)
        if key.document.revoked_at_ms is not None:
            self._streams.require_running()  # else it may never have become durable
            await self._streams.settled()
            return key
        document = key.document = msgspec.structs.replace(
            key.document, revoked_at_ms=self._clock.now_ms(), revoked_by=caller.principal
        )
        self._by_digest.pop(key.digest, None)
        self._revoked_by_digest[key.digest] = document
        self._end(key_id)
        act = Act("key.revoked", caller, document.workspace, request_id, _told(document))

        def decide(state: State, now_ms: int) -> tuple[list[Effect], None]:
            stream = lifetime.find(state, _stream(key_id), now_ms)
            described = StreamDescribed(stream.id, now_ms, {_ATTRIBUTE: msgspec.json.encode(document)})
            return [described, *self._audit.effects(state, state.next_id, now_ms, act)], None

        revoked = self._streams.commit(decide)
        revoked.add_done_callback(lambda done: done.exception() or self._audit.log(act))
        await asyncio.shield(revoked)
        return key

    def _require_manager(self, caller: Caller, workspace: str) -> None:
        caller.require(Role.ADMIN)
        if workspace != caller.workspace and not self.is_operator(caller):
            raise ForbiddenError(
                problem=f"The key of {caller.principal} manages the keys of its own workspace only. Leave "
                "workspace out, or ask an operator."
            )

    def _room(self, caller: Caller, workspace: str) -> LiveKey | None:
        """Return the key to evict so that there is room for another: the oldest that is no longer valid.

        The keys of a workspace are limited, and some of the server's are reserved for the operators.
        """
        limits = self._limits
        if workspace != self.home and self._held[workspace] >= limits.workspace_keys_max:
            forgotten = self._revoked(workspace)
            if forgotten is None:
                raise TooManyKeysError(
                    holder=f"The workspace {workspace}", keys_max=limits.workspace_keys_max
                )
            return forgotten
        most = limits.keys_max - (0 if self.is_operator(caller) else limits.keys_reserved)
        if self._held.total() < most:
            return None
        forgotten = self._revoked(workspace) or self._revoked(None)
        if forgotten is None:
            raise TooManyKeysError(holder="The server", keys_max=most)
        return forgotten

    def _revoked(self, workspace: str | None) -> LiveKey | None:
        """Return the oldest key that is revoked or has expired, of a workspace or of all."""
        now_ms = self._clock.now_ms()
        for key in self._by_id.values():
            if key.document.is_over(now_ms) and workspace in (None, key.document.workspace):
                return key
        return None

    def _require_pace(self, caller: Caller, workspace: str) -> None:
        """Refuse to create keys in a workspace faster than its rate allows."""
        if self.is_operator(caller):
            return
        per_minute, now_ms = self._limits.workspace_keys_per_minute_max, self._clock.now_ms()
        rate = self._rates.setdefault(workspace, TokenBucket(per_minute / 60, per_minute, now_ms))
        if wait_seconds := rate.take(now_ms):
            raise KeysTooFastError(
                workspace=workspace, per_minute=per_minute, retry_after_seconds=ceil(wait_seconds)
            )

    def _expiry(self, caller: Caller, wanted_ms: int | None) -> int | None:
        """Return when a new key expires."""
        maker = self._document(caller)
        most_ms = None if maker is None else maker.expires_at_ms
        return _at_most(
            most_ms,
            wanted_ms,
            lambda most: f"No key outlives its maker: send expires_at up to {rfc3339(most)}.",
        )

    def _rate(self, caller: Caller, wanted: float | None) -> float | None:
        """Return the rate of a new key."""
        maker = self._document(caller)
        most = None if maker is None else maker.requests_per_second
        return _at_most(
            most,
            wanted,
            lambda most: f"No key is faster than its maker: send requests_per_second up to {most:g}.",
        )

    def _document(self, caller: Caller) -> KeyDocument | None:
        """Return the key of a caller, None for one that has none of ours."""
        key = None if caller.key_id is None else self._by_id.get(caller.key_id)
        return None if key is None else key.document

    def _forget(self, key: LiveKey) -> None:
        if self._by_id.pop(key.document.id, None) is not None:
            self._held[key.document.workspace] -= 1
            self._revoked_by_digest.pop(key.digest, None)

    def _end(self, key_id: str | None) -> None:
        """Notify the watchers of a key, or of callers without one, that it is no longer valid."""
        for ended in self._watchers.pop(key_id, {}).values():
            ended()

    def _require_from_now_on(self) -> None:
        if not self.required:
            self.required = True
            self._end(None)

    async def load(self) -> None:
        """Load the keys into memory, before anybody is let in."""
        after: int | None = None
        while True:
            page = self._streams.page(SYSTEM_WORKSPACE, FOLDER, after, _PAGE, newest_first=False)
            for durable in page.streams:
                found = durable.attributes.get(_ATTRIBUTE)
                if found is not None:
                    document = msgspec.json.decode(found, type=KeyDocument)
                    self._add(LiveKey(document, self._clock.now_ms()))
                    continue
                # A repair has lost part of this key. It admits nobody, but it still counts as a key.
                logger.warning("key_lost", key=durable.stream.key.path.removeprefix(FOLDER + "/"))
                self._require_from_now_on()
            if not page.more:
                return
            after = page.streams[-1].stream.id
            await asyncio.sleep(0)  # yield, so that many keys do not hold up the event loop

    def _add(self, key: LiveKey) -> None:
        self._by_id[key.document.id] = key
        self._held[key.document.workspace] += 1
        if key.document.revoked_at_ms is None:
            self._by_digest[key.digest] = key
        else:
            self._revoked_by_digest[key.digest] = key.document
        self._require_from_now_on()


def _stream(key_id: str) -> Key:
    return Key(SYSTEM_WORKSPACE, f"{FOLDER}/{key_id}")


def _told(document: KeyDocument) -> dict[str, object]:
    return {
        "key": {
            "id": document.id,
            "workspace": document.workspace,
            "principal": document.principal,
            "role": document.role,
        }
    }


def _at_most(most: N | None, wanted: N | None, problem: Callable[[N], str]) -> N | None:
    """Return what a new key gets: what is wanted, or what its maker has, but never more than that."""
    if most is None or wanted is None:
        return wanted or most
    if wanted > most:
        raise ForbiddenError(problem=problem(most))
    return wanted
