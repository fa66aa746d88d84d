"""Sign-ins of browsers: each is a key of its own, valid only as long as the key that was shown.

What a browser keeps is the secret of the sign-in, in a cookie. So the key itself is in no page, and a browser
can be signed out from the list of keys.
"""

import asyncio

import msgspec

from durable_sessions.access.audit import Act, Audit
from durable_sessions.access.key import KeyDocument, LiveKey, digest
from durable_sessions.access.key_store import ATTRIBUTE, key_stream
from durable_sessions.access.key_table import KeyTable
from durable_sessions.clock import Clock
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.storage.door import Streams
from durable_sessions.streams import lifetime
from durable_sessions.streams.effects import Effect, StreamCreated, StreamDescribed
from durable_sessions.streams.state import State

SECRET_PREFIX = "dsb_"  # noqa: S105  # how the secret of a sign-in begins
_JSON = "application/json"
_REMOVED_AT_ONCE = 64


class BrowserSignIns:
    """Creates and ends sign-ins durably; they do not count among the keys of a workspace."""

    def __init__(
        self, streams: Streams, table: KeyTable, audit: Audit, clock: Clock, ids: Ids, limits: Limits
    ) -> None:
        self._streams = streams
        self._table = table
        self._audit = audit
        self._clock = clock
        self._ids = ids
        self._limits = limits

    async def create(self, parent: LiveKey, request_id: str) -> tuple[LiveKey, str]:
        """Sign a browser in with a key; return the sign-in and its secret. The oldest one makes room."""
        secret = self._ids.token(SECRET_PREFIX) + self._ids.token("")
        now_ms, about = self._clock.now_ms(), parent.document
        ends_ms = now_ms + self._limits.browser_sign_in_seconds * 1000
        document = KeyDocument(
            id=self._ids.token("key_"),
            workspace=about.workspace,
            principal=about.principal,
            role=about.role,
            digest=digest(secret.encode()).hex(),
            created_at_ms=now_ms,
            created_by=about.principal,
            expires_at_ms=ends_ms if about.expires_at_ms is None else min(ends_ms, about.expires_at_ms),
            parent=about.id,
        )
        removed = self._removable(about.id)
        act = self._act("browser.signed_in", document, request_id)

        def decide(state: State, now_ms: int) -> tuple[list[Effect], None]:
            number = state.next_id
            effects: list[Effect] = []
            for key in removed:
                if state.get(key_stream(key.document.id)) is not None:
                    effects += lifetime.delete(state, key_stream(key.document.id), now_ms)
            effects.append(StreamCreated(number, *key_stream(document.id), _JSON, now_ms))
            effects.append(StreamDescribed(number, now_ms, {ATTRIBUTE: msgspec.json.encode(document)}))
            return effects + self._audit.effects(state, number + 1, now_ms, act), None

        created = self._streams.commit(decide)
        for key in removed:
            self._table.forget(key.document.id)

        def durable(done: "asyncio.Future[None]") -> None:
            if done.exception() is None:
                self._table.apply(document)
                self._audit.log(act)

        created.add_done_callback(durable)
        await asyncio.shield(created)
        return LiveKey(document, now_ms), secret

    async def end(self, key_id: str, request_id: str) -> None:
        """End a sign-in durably; it is refused from this moment on, and open streams end."""
        key = self._table.get(key_id)
        if key is None or key.document.parent is None or key.document.revoked_at_ms is not None:
            return
        document = msgspec.structs.replace(
            key.document, revoked_at_ms=self._clock.now_ms(), revoked_by=key.document.principal
        )
        self._table.apply(document)
        act = self._act("browser.signed_out", document, request_id)

        def decide(state: State, now_ms: int) -> tuple[list[Effect], None]:
            stream = lifetime.find(state, key_stream(key_id), now_ms)
            described = StreamDescribed(stream.id, now_ms, {ATTRIBUTE: msgspec.json.encode(document)})
            return [described, *self._audit.effects(state, state.next_id, now_ms, act)], None

        ended = self._streams.commit(decide)
        ended.add_done_callback(lambda done: done.exception() or self._audit.log(act))
        await asyncio.shield(ended)

    def _removable(self, parent_id: str) -> list[LiveKey]:
        """Return the sign-ins that are removed for a new one: those that are over, and the oldest too many.

        Of other keys only the oldest are looked at. All last equally long, so that each of them is among
        these once it is over.
        """
        sign_ins = self._table.sign_ins
        held = sign_ins.of(parent_id)
        known = {key.document.id: key for key in (*sign_ins.oldest(_REMOVED_AT_ONCE), *held)}
        over = {name: key for name, key in known.items() if self._table.is_over(key)}
        valid = [key for key in held if key.document.id not in over]
        too_many = len(valid) + 1 - self._limits.browser_sign_ins_max
        return [*over.values(), *valid[: max(0, too_many)]]

    @staticmethod
    def _act(name: str, document: KeyDocument, request_id: str) -> Act:
        told: dict[str, object] = {
            "key": {"id": document.id, "parent": document.parent, "principal": document.principal}
        }
        caller = LiveKey(document, document.created_at_ms).caller
        return Act(name, caller, document.workspace, request_id, told)
