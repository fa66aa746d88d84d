"""The store of keys: each key is a stream of the system partition. It feeds the key table of this process."""

import asyncio
from collections import Counter
from collections.abc import Callable
from math import ceil
from typing import NamedTuple, TypeVar

import msgspec
import structlog

from durable_sessions.access.audit import Act, Audit
from durable_sessions.access.caller import Caller, Role
from durable_sessions.access.key import SECRET_PREFIX, KeyDocument, LiveKey, digest
from durable_sessions.access.key_table import KeyTable
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
ATTRIBUTE = "key"
_JSON = "application/json"
_PAGE = 100

N = TypeVar("N", int, float)


class NewKey(NamedTuple):
    """What a caller asks for a new key to be."""

    workspace: str
    principal: str
    role: Role
    requests_per_second: float | None = None
    expires_at_ms: int | None = None


class KeyStore:
    """Creates and revokes keys durably, within their limits; every change goes to the table as well."""

    def __init__(
        self, streams: Streams, table: KeyTable, audit: Audit, clock: Clock, ids: Ids, limits: Limits
    ) -> None:
        self._streams = streams
        self._table = table
        self._audit = audit
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self._held: Counter[str] = Counter()  # keys by workspace, including those that are not durable yet
        self._rates: dict[str, TokenBucket] = {}

    async def create(self, caller: Caller, wanted: NewKey, request_id: str) -> tuple[LiveKey, str]:
        """Create a key durably; return it and its secret, which cannot be shown again."""
        self._require_manager(caller, wanted.workspace)
        if not self._table.required and (wanted.workspace, wanted.role) != (self._table.home, Role.ADMIN):
            raise ForbiddenError(
                problem="From the first key on every request needs one, so the first has to be able to make "
                f"others: create it with the role admin in the workspace {self._table.home}."
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
        act = Act("key.created", caller, wanted.workspace, request_id, _audited(document))

        def decide(state: State, now_ms: int) -> tuple[list[Effect], None]:
            number = state.next_id
            effects: list[Effect] = []
            if forgotten is not None:
                effects += lifetime.delete(state, key_stream(forgotten.document.id), now_ms)
            effects.append(StreamCreated(number, *key_stream(document.id), _JSON, now_ms))
            effects.append(StreamDescribed(number, now_ms, {ATTRIBUTE: msgspec.json.encode(document)}))
            return effects + self._audit.effects(state, number + 1, now_ms, act), None

        created = self._streams.commit(decide)
        # Counted before it is durable: else many requests at once would all find room for one more.
        if forgotten is not None:
            self._forget(forgotten)
        self._held[wanted.workspace] += 1

        def durable(done: "asyncio.Future[None]") -> None:
            if done.exception() is not None:
                self._held[wanted.workspace] -= 1
                return
            self._table.apply(document)
            self._audit.log(act)

        created.add_done_callback(durable)
        await asyncio.shield(created)  # the key exists even if the client goes away
        return LiveKey(document, self._clock.now_ms()), secret

    async def revoke(self, caller: Caller, key_id: str, request_id: str) -> LiveKey:
        """Revoke a key durably; it is refused from this moment on. Idempotent."""
        key = self._table.get(key_id)
        if key is None or not (self._table.is_operator(caller) or key.document.workspace == caller.workspace):
            raise KeyNotFoundError(id=key_id)
        self._require_manager(caller, key.document.workspace)
        if key.document.revoked_at_ms is not None:
            self._streams.require_running()  # else it may never have become durable
            await self._streams.settled()
            return key
        document = msgspec.structs.replace(
            key.document, revoked_at_ms=self._clock.now_ms(), revoked_by=caller.principal
        )
        # Before it is durable, unlike a creation: a key in doubt admits nobody. If the commit fails, this
        # process refuses the key all the same, until an engine loads the keys again.
        self._table.apply(document)
        act = Act("key.revoked", caller, document.workspace, request_id, _audited(document))

        def decide(state: State, now_ms: int) -> tuple[list[Effect], None]:
            stream = lifetime.find(state, key_stream(key_id), now_ms)
            described = StreamDescribed(stream.id, now_ms, {ATTRIBUTE: msgspec.json.encode(document)})
            return [described, *self._audit.effects(state, state.next_id, now_ms, act)], None

        revoked = self._streams.commit(decide)
        revoked.add_done_callback(lambda done: done.exception() or self._audit.log(act))
        await asyncio.shield(revoked)
        return key

    async def everywhere(self) -> bool | None:
        """Wait until all processes know the last change; say whether they do, None if there are no others."""
        publisher = self._table.publisher
        return None if publisher is None else await publisher.everywhere()

    def _require_manager(self, caller: Caller, workspace: str) -> None:
        caller.require(Role.ADMIN)
        if workspace != caller.workspace and not self._table.is_operator(caller):
            raise ForbiddenError(
                problem=f"The key of {caller.principal} manages the keys of its own workspace only. Leave "
                "workspace out, or ask an operator."
            )

    def _room(self, caller: Caller, workspace: str) -> LiveKey | None:
        """Return the key to evict so that there is room for another: the oldest that is no longer valid.

        The keys of a workspace are limited, and some of the server's are reserved for the operators.
        """
        limits = self._limits
        if workspace != self._table.home and self._held[workspace] >= limits.workspace_keys_max:
            forgotten = self._revoked(workspace)
            if forgotten is None:
                raise TooManyKeysError(
                    holder=f"The workspace {workspace}", keys_max=limits.workspace_keys_max
                )
            return forgotten
        most = limits.keys_max - (0 if self._table.is_operator(caller) else limits.keys_reserved)
        if self._held.total() < most:
            return None
        forgotten = self._revoked(workspace) or self._revoked(None)
        if forgotten is None:
            raise TooManyKeysError(holder="The server", keys_max=most)
        return forgotten

    def _revoked(self, workspace: str | None) -> LiveKey | None:
        """Return the oldest key that is revoked or has expired, of a workspace or of all."""
        now_ms = self._clock.now_ms()
        for key in self._table.all():
            is_known = key.document.parent is None and workspace in (None, key.document.workspace)
            if is_known and key.document.is_over(now_ms):
                return key
        return None

    def _require_pace(self, caller: Caller, workspace: str) -> None:
        """Refuse to create keys in a workspace faster than its rate allows."""
        if self._table.is_operator(caller):
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
        key = None if caller.key_id is None else self._table.get(caller.key_id)
        return None if key is None else key.document

    def _forget(self, key: LiveKey) -> None:
        if self._table.forget(key.document.id):
            self._held[key.document.workspace] -= 1

    async def load(self) -> None:
        """Load the keys into the table, before anybody is let in; what it had of another engine goes."""
        replacement = self._table.replacement()
        after: int | None = None
        while True:
            page = self._streams.folders.page(SYSTEM_WORKSPACE, FOLDER, after, _PAGE, newest_first=False)
            for durable in page.streams:
                found = durable.attributes.get(ATTRIBUTE)
                if found is not None:
                    document = msgspec.json.decode(found, type=KeyDocument)
                    replacement.add(document)
                    self._held[document.workspace] += document.parent is None
                    continue
                # A repair has lost part of this key. It admits nobody, but it still counts as a key.
                logger.warning("key_lost", key=durable.stream.key.path.removeprefix(FOLDER + "/"))
                replacement.require_keys()
            if not page.more:
                return replacement.finish()
            after = page.streams[-1].stream.id
            await asyncio.sleep(0)  # yield, so that many keys do not hold up the event loop


def key_stream(key_id: str) -> Key:
    """Return the stream that holds a key."""
    return Key(SYSTEM_WORKSPACE, f"{FOLDER}/{key_id}")


def _audited(document: KeyDocument) -> dict[str, object]:
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
