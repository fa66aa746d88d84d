"""The audit record: every administrative act, as a log line and as a durable event.

Each workspace has a stream of its own in the system workspace. An act is recorded in that of the
workspace that it is about and, if another, in that of the workspace that it came from.
"""

import asyncio
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import structlog

from durable_sessions.access.caller import Caller, Role
from durable_sessions.access.key import KeyDocument
from durable_sessions.access.rate import TokenBucket
from durable_sessions.clock import Clock
from durable_sessions.errors import DurableSessionsError, InvalidRequestError, QuotaExceededError
from durable_sessions.limits import Limits
from durable_sessions.storage.door import Streams, StreamView
from durable_sessions.streams import outbox_intake
from durable_sessions.streams.effects import Effect, RecordsAppended, StreamCreated
from durable_sessions.streams.outbox import OwedRecord
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import SYSTEM_WORKSPACE, Key
from durable_sessions.times import rfc3339

logger = structlog.get_logger("durable_sessions.audit")

FOLDER = "audit"
_JSON = "application/json"
_READ_AT_ONCE = 100
_REFUSALS_PER_SECOND = 1 / 60
_REFUSALS_KNOWN_MAX = 10_000
REFUSED_KEY_SECONDS = 60.0
"""For how long refused keys are counted before their count is recorded."""


class Act(NamedTuple):
    """Who did what, or was refused it; ``workspace`` is the one that it is about."""

    type: str
    actor: Caller
    workspace: str
    request_id: str = ""
    details: dict[str, object] = {}

    def fields(self) -> dict[str, object]:
        """Return everything but the time, in the order in which it is shown."""
        actor = {"workspace": self.actor.workspace, "principal": self.actor.principal}
        if self.actor.key_id is not None:
            actor["key_id"] = self.actor.key_id
        said: dict[str, object] = {"type": self.type, "workspace": self.workspace, "actor": actor}
        if self.request_id:
            said["request_id"] = self.request_id
        return said | self.details


class AuditPage(NamedTuple):
    """A page of acts as JSON, and where the next page begins, None if there is none."""

    acts: list[msgspec.Raw]
    following: int | None


@dataclass(slots=True)
class _RefusedKey:
    """Refusals of one key, or of all unknown keys together, since they were last recorded."""

    home: str
    revoked: KeyDocument | None
    count: int = 0
    request_id: str = ""


class Beside:
    """The companion of a change: it records the act in the same batch as the change itself."""

    def __init__(self, audit: "Audit", act: Act) -> None:
        self._audit = audit
        self._act = act
        self._is_done = False

    def __call__(self, state: State, now_ms: int) -> list[Effect]:
        """Return the effects of the record; of a caller without a key there is only the log line."""
        self._is_done = True
        if self._act.actor.key_id is None:
            return []
        return self._audit.effects(state, state.next_id, now_ms, self._act)

    def log(self) -> None:
        """Print the log line, if anything was done; call it once that is durable."""
        if self._is_done:
            self._audit.log(self._act)


class Audit:
    """Records acts durably and gives them back, in the order in which they happened.

    The record is kept in the system partition. Any other one, where ``is_system`` is False, owes its acts
    to that one: they are in its outbox, in the same batch as what they are about, until they are delivered.
    """

    def __init__(self, streams: Streams, clock: Clock, limits: Limits, *, is_system: bool = True) -> None:
        self._streams = streams
        self._is_system = is_system
        self._clock = clock
        self._limits = limits
        self._refusals: dict[tuple[str, ...], TokenBucket] = {}
        self._refused_keys: dict[tuple[str, str], _RefusedKey] = {}

    async def record(self, act: Act) -> None:
        """Record an act durably; for a caller without a key, who is anonymous, there is only the log line."""
        if act.actor.key_id is not None:
            await self._streams.commit(
                lambda state, now_ms: (self.effects(state, state.next_id, now_ms, act), None)
            )
        self.log(act)

    def beside(self, act: Act) -> "Beside":
        """Return a companion that records an act in the same batch as the change it is about."""
        return Beside(self, act)

    def effects(self, state: State, number: int, now_ms: int, act: Act) -> list[Effect]:
        """Return the effects of recording an act; new streams are numbered from ``number`` on."""
        message = msgspec.json.encode({"at": rfc3339(now_ms)} | act.fields())
        keys = [_key(workspace) for workspace in sorted({act.workspace, act.actor.workspace})]
        if not self._is_system:
            return [*state.outbox.owe([(key, message) for key in keys], self._limits.outbox_bytes_max)]
        data = message + b","
        effects: list[Effect] = []
        for key in keys:
            stream = state.get(key)
            if stream is None:
                effects.append(StreamCreated(number, *key, _JSON, now_ms))
            at, tail = (number, 0) if stream is None else (stream.id, stream.tail)
            number += stream is None
            effects.append(RecordsAppended(at, tail, now_ms, (len(data),), None, None, False, data))
        return effects

    async def take(self, record: OwedRecord) -> None:
        """Record an act that another partition owes; each is recorded once, however often it is delivered."""
        if record.target.workspace != SYSTEM_WORKSPACE or record.target.folder != FOLDER:
            raise InvalidRequestError(problem=f"The audit record has no stream {record.target.path}.")
        await self._streams.commit(lambda state, now_ms: (outbox_intake.take(state, record, now_ms), None))

    @staticmethod
    def log(act: Act) -> None:
        """Print the log line of an act that has been recorded."""
        logger.info("audit", **{("act" if name == "type" else name): v for name, v in act.fields().items()})

    def refused(self, caller: Caller, act: str, error: DurableSessionsError, request_id: str) -> None:
        """Record that a caller was refused an administrative act; limited per minute and key."""
        said: dict[str, object] = {"asked": act, "code": error.code}
        refusal = Act("act.refused", caller, caller.workspace, request_id, said)
        if caller.key_id is None:
            self.log(refusal)
        else:
            self._record_refusal(refusal, burst=10.0, key=(caller.workspace, caller.key_id, act))

    def key_refused(self, home: str, revoked: KeyDocument | None, request_id: str) -> None:
        """Record that an unknown key, or a revoked one, was used.

        Unknown keys go to the operators' record, a revoked one to that of its workspace. The first is
        recorded at once, all that follow within a minute as one act with their count, so that nobody can
        flood the record.
        """
        about = ("", "") if revoked is None else (revoked.workspace, revoked.id)
        refused = self._refused_keys.get(about)
        if refused is not None:
            refused.count += 1
            refused.request_id = request_id
            return
        if len(self._refused_keys) >= _REFUSALS_KNOWN_MAX:
            return  # unknown keys share one entry: these are ten thousand revoked keys within a minute
        refused = self._refused_keys[about] = _RefusedKey(home, revoked)
        self._record_refused_key(refused, 1, request_id)
        asyncio.get_running_loop().call_later(REFUSED_KEY_SECONDS, self._refused_keys_ended, about)

    def _refused_keys_ended(self, about: tuple[str, str]) -> None:
        """Record the refusals since the first one; keep counting as long as there are more."""
        refused = self._refused_keys.pop(about)
        if not refused.count:
            return
        self._record_refused_key(refused, refused.count, refused.request_id)
        self._refused_keys[about] = _RefusedKey(refused.home, refused.revoked)
        asyncio.get_running_loop().call_later(REFUSED_KEY_SECONDS, self._refused_keys_ended, about)

    def _record_refused_key(self, refused: "_RefusedKey", count: int, request_id: str) -> None:
        document = refused.revoked
        if document is None:
            stranger = Caller(refused.home, "unknown", Role.READER, None)
            said: dict[str, object] = {"reason": "unknown", "count": count}
        else:
            stranger = Caller(document.workspace, document.principal, Role.READER, document.id)
            said = {"reason": "revoked", "count": count}
        self._commit_refusal(Act("key.refused", stranger, stranger.workspace, request_id, said))

    def quota_refused(self, workspace: str, error: QuotaExceededError) -> None:
        """Record that a workspace has met its quota, once a minute at most."""
        server = Caller(workspace, "server", Role.ADMIN, None)
        said: dict[str, object] = {"quota": error.setting, "most": error.most}
        act = Act("quota.refused", server, workspace, "", said)
        self._record_refusal(act, burst=1.0, key=(workspace, str(error.setting)))

    def _record_refusal(self, act: Act, *, burst: float, key: tuple[str, ...]) -> None:
        now_ms = self._clock.now_ms()
        if key not in self._refusals and len(self._refusals) >= _REFUSALS_KNOWN_MAX:
            del self._refusals[next(iter(self._refusals))]  # the oldest: it has most likely filled up again
        known = self._refusals.setdefault(key, TokenBucket(_REFUSALS_PER_SECOND * burst, burst, now_ms))
        if known.take(now_ms):
            return
        self._commit_refusal(act)

    def _commit_refusal(self, act: Act) -> None:
        self.log(act)
        try:
            recorded = self._streams.commit(
                lambda state, at_ms: (self.effects(state, state.next_id, at_ms, act), None)
            )
        except DurableSessionsError:
            return  # nothing can be recorded any more; the refusal stands all the same
        # Nobody waits for it. Its exception is looked at, or asyncio would complain that it never was.
        recorded.add_done_callback(lambda done: done.cancelled() or done.exception())

    # Reading ----------------------------------------------------------------------------

    async def page(self, workspace: str, start: int | None, limit: int, *, newest_first: bool) -> AuditPage:
        """Return acts of a workspace from ``start`` on, or with ``newest_first`` those before it.

        ``start`` is None for the first page. No more is read than fits into a page.
        """
        await self._streams.settled()  # a reader finds every act that was decided before it asked
        durable = self._streams.peek(_key(workspace))
        if durable is None:
            return AuditPage([], None)
        tail = durable.tail
        at = min((tail if newest_first else 0) if start is None else start, tail)
        acts: list[msgspec.Raw] = []
        size = 0
        while len(acts) < limit and (at > 0 if newest_first else at < tail):
            count = min(limit - len(acts), _READ_AT_ONCE)
            first, end = (max(at - count, 0), at) if newest_first else (at, min(at + count, tail))
            found = await self._read(durable, first, end)
            for act in reversed(found) if newest_first else found:
                size += len(bytes(act))
                if acts and size > self._limits.page_bytes_max:
                    return AuditPage(acts, at)
                acts.append(act)
                at += -1 if newest_first else 1
        if newest_first:
            return AuditPage(acts, at or None)
        return AuditPage(acts, at if at < tail else None)

    async def _read(self, durable: StreamView, first: int, end: int) -> list[msgspec.Raw]:
        acts: list[msgspec.Raw] = []
        while first + len(acts) < end:
            found = await self._streams.read(durable, first + len(acts), self._limits.read_chunk_bytes_max)
            acts += msgspec.json.decode(b"[%b]" % found.data[:-1], type=list[msgspec.Raw])
        return acts[: end - first]


def _key(workspace: str) -> Key:
    return Key(SYSTEM_WORKSPACE, f"{FOLDER}/{workspace}")
