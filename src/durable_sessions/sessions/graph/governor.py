"""Takes the new events of one append through the rules of the session, and says what is written behind them.

One governor lives for one decision. It works on a copy of control, so that a refusal changes nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import UnresolvedReferenceError
from durable_sessions.limits import Limits
from durable_sessions.sessions.graph import lease, rules, strict
from durable_sessions.sessions.graph.budget import MEASURED, Meter
from durable_sessions.sessions.graph.companions import Companions, IsCall, Word
from durable_sessions.sessions.graph.control import CONTROL, GENERATED, GENERATORS, METER, Control, Core
from durable_sessions.sessions.graph.happened import Happened
from durable_sessions.sessions.graph.managed_outcomes import TYPES
from durable_sessions.sessions.graph.rules import Appender
from durable_sessions.sessions.graph.schemas import Imported, StrictEvent

Knows = Callable[[str], bool]
"""Says whether the session has an event, or the append has it further in front."""


class SentEvent(NamedTuple):
    """An event that is about to be stored: its type, its members as they were sent, and what they mean."""

    kind: str
    body: bytes
    strict: StrictEvent | None
    imported: Imported | None = None


def governs(attributes: Mapping[str, bytes], kind: str, actor: str, epoch: int | None) -> bool:
    """Say whether an event needs a governor; of most it is known at once that it does not.

    A worker's ordinary event under its lease changes nothing, so that it costs little more than elsewhere.
    """
    if strict.is_strict(kind) or kind in TYPES:
        return True
    meter = attributes.get(METER)
    if meter is not None and (kind in MEASURED or _is_timed(meter)):
        return True
    if kind.startswith(GENERATED) and not _has_generated(attributes, actor):
        return True
    control = attributes.get(CONTROL)
    if control is None:
        return epoch is not None
    core = _core(control)
    is_stopped = core.paused is not None or bool(core.blocking) or core.trip is not None
    if is_stopped or not core.worked:
        return True
    return not lease.allows(core.lease, kind, epoch, actor)


# Cached, because the attribute changes with what is measured only.
@lru_cache(maxsize=1_024)
def _is_timed(attribute: bytes) -> bool:
    """Say whether there is a limit in seconds, which any event may be the first to find reached."""
    return "seconds" in msgspec.json.decode(attribute, type=Meter).limits


# Cached, because control changes with strict events only. Never changed.
@lru_cache(maxsize=1_024)
def _core(attribute: bytes) -> Core:
    return msgspec.json.decode(attribute, type=Core)


def _has_generated(attributes: Mapping[str, bytes], actor: str) -> bool:
    generators = attributes.get(GENERATORS)
    return generators is not None and actor in _generators(generators)


# Cached, because every agent's event needs it and the attribute changes once per principal.
@lru_cache(maxsize=1_024)
def _generators(attribute: bytes) -> frozenset[str]:
    return frozenset(msgspec.json.decode(attribute, type=dict[str, int]))


class Governor:
    """Decides one append to a session."""

    def __init__(
        self,
        attributes: Mapping[str, bytes],
        by: Appender,
        now_ms: int,
        limits: Limits,
        status: str,
        is_call: IsCall,
        session: str,
    ) -> None:
        self._session = session
        self._control = Control(attributes, limits)
        self._by = by
        self._now_ms = now_ms
        self._limits = limits
        self._companions = Companions(self._control, status, is_call)

    def require_lease(self, kinds: Iterable[str], epoch: int | None) -> None:
        """Refuse the whole append if the lease does not allow it."""
        lease.require(self._control.core.lease, kinds, epoch, self._by.principal)

    def take(self, sent: SentEvent, event: str, position: int, index: int, knows: Knows) -> None:
        """Take one event, against what those before it in the append leave; or refuse it."""
        if sent.strict is not None:
            # An event is no evidence of itself: refs lead to what came before, so that there is no cycle.
            _require_refs(sent.strict, index, self._session, lambda target: target != event and knows(target))
        # An import is checked for nothing, but nobody may import his way round a stop.
        if sent.imported != "trusted":
            rules.require(self._control, sent.kind, sent.strict, self._by, position, index, self._limits)
        self._step(sent, event, position)

    def limit_cost(self, usd: float | None, position: int) -> None:
        """Set or lift the limit on cost of the session's record, behind this many events."""
        self._control.limit_cost(usd, position, self._now_ms)

    def trip(self) -> Word | None:
        """Return the event that says that a budget was used up, if the append has reached a limit."""
        due = self._control.trip_due(self._now_ms)
        if due is None:
            return None
        return {"type": "ds.budget.tripped", "limit": due.limit, "max": due.max, "value": due.value}

    def write(self, word: Word, event: str, position: int) -> bytes:
        """Take an event of the server's own, and return its body."""
        body = msgspec.json.encode(word)
        kind = word["type"]
        self._step(SentEvent(kind, body, strict.read(kind, body)), event, position)
        return body

    def companions(self) -> list[Word]:
        """Return what the append means in Managed Agents' words."""
        return self._companions.end()

    def changes(self) -> dict[str, bytes | None]:
        """Return the attributes that the append changes."""
        return self._control.changes()

    def _step(self, sent: SentEvent, event: str, position: int) -> None:
        self._companions.before(sent.strict)
        happened = Happened(
            sent.kind,
            event,
            position,
            self._by.principal if sent.imported is None else _original_actor(sent, self._by.principal),
            self._now_ms,
            sent.body,
            sent.imported,
            trusted=sent.imported != "untrusted",
            _strict=sent.strict if sent.imported is None else None,  # read already, so not again
        )
        self._control.step(happened)
        if sent.imported is None:
            self._companions.after(happened)


class _Actors(msgspec.Struct):
    actor: msgspec.Raw = lenient.NULL
    original_actor: msgspec.Raw = lenient.NULL


_ACTORS = msgspec.json.Decoder(_Actors)


def _original_actor(sent: SentEvent, principal: str) -> str:
    """Return who sent the original of a strict event that is imported; for others that counts for nothing."""
    if not strict.is_strict(sent.kind):
        return principal
    actors = lenient.decode(_ACTORS, sent.body)
    return lenient.text(actors.original_actor) or lenient.text(actors.actor) or principal


def _require_refs(event: StrictEvent, index: int, session: str, knows: Knows) -> None:
    """Refuse a ref to an event of the session itself that is not there."""
    for at, ref in enumerate(event.refs):
        if ref.session in (None, session) and ref.artifact is None and not knows(ref.id):
            raise UnresolvedReferenceError(
                what=f"there is no event {ref.id} before this one", index=index, member=f"refs[{at}]"
            )
