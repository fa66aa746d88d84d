"""Calls of the sessions of an engine, in the words of the model in ``session_model``."""

from collections.abc import Sequence

import msgspec

from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.sessions import drafts, event_ids
from durable_sessions.sessions.batch import Batch
from durable_sessions.sessions.change import By
from durable_sessions.sessions.conditions import Conditions
from durable_sessions.sessions.create import NewSession
from durable_sessions.sessions.record import Record
from durable_sessions.sessions.redaction import Redaction
from durable_sessions.sessions.redactor import EventRedactor
from durable_sessions.sessions.slot_reading import AskedSlots
from durable_sessions.sessions.store import Sessions, session_key
from durable_sessions.storage.door import StreamView
from durable_sessions.streams.append import Append
from durable_sessions.streams.create import Fork
from durable_sessions.testing.session_model import GivenEvent, Outcome

_WORKSPACE = "default"
_PAGE_BYTES = 1 << 20


class SessionCalls:
    """Creates, changes and reads sessions; refusals are raised."""

    def __init__(self, sessions: Sessions, ids: Ids, limits: Limits) -> None:
        self._sessions = sessions
        self._ids = ids
        self._limits = limits

    async def create(self, name: str, source: str | None = None, anchor: int | None = None) -> Outcome:
        """Create a session, or a fork of another."""
        fork = None if source is None else Fork(f"sessions/{source}", anchor)
        request = NewSession(Record(), "me", fork=fork)
        await self._sessions.create(session_key(_WORKSPACE, name), request, 0)
        return ("created",)

    async def append(
        self, name: str, sent: Sequence[GivenEvent], wanted: dict[str, object] | None = None
    ) -> Outcome:
        """Append events, on conditions as the model has them; ``same_life`` means the session of now."""
        events = drafts.parse(msgspec.json.encode(sent), self._limits) if sent else []
        batch = Batch(events, "me", Append(b"", "application/json"))
        if wanted is not None:
            batch.conditions = await self._conditions(name, wanted)
        stored = await self._sessions.append_on_conditions(session_key(_WORKSPACE, name), batch, 0)
        return ("appended", stored.tail)

    async def _conditions(self, name: str, wanted: dict[str, object]) -> Conditions:
        """Return conditions in the words of the engine; holders are known by the ids of their events."""
        found = self._sessions.streams.peek(session_key(_WORKSPACE, name))
        durable = None if found is None or found.removed else found
        made = Conditions(exists=wanted.get("exists"), tail=wanted.get("tail"))  # type: ignore[arg-type]
        if "same_life" in wanted:
            life = "0" * 12 if durable is None else event_ids.tag(durable.stream)
            made.incarnation = life if wanted["same_life"] else "f" * 12
        asked = wanted.get("slots", {})
        assert isinstance(asked, dict)
        for slot, position in asked.items():
            made.slots[slot] = None if position is None else await self._id_at(durable, position)
        return made

    async def _id_at(self, durable: StreamView | None, position: int) -> str | None:
        if durable is None or position >= durable.tail:
            return "nowhere"
        return event_ids.stored_id(await self._sessions.events.one(durable, position))

    async def delete(self, name: str) -> Outcome:
        """Delete a session."""
        await self._sessions.delete(session_key(_WORKSPACE, name), By("me"))
        return ("deleted",)

    async def redact(self, name: str, positions: list[int]) -> Outcome:
        """Redact the events at these positions; the answer has the end of the session behind the record."""
        durable = self._sessions.find(session_key(_WORKSPACE, name))
        ids = [str(await self._id_at(durable, position)) for position in positions]
        redactor = EventRedactor(self._sessions, self._ids, self._limits)
        done = await redactor.redact(session_key(_WORKSPACE, name), Redaction(ids, "asked for"), By("me"))
        return ("redacted", None if done.position is None else done.position + 1)

    async def held(self, name: str, end: int) -> dict[str, int]:
        """Return which positions held the slots of a session as of an offset."""
        durable = self._sessions.find(session_key(_WORKSPACE, name))
        page = await self._sessions.slots.page(durable, AskedSlots(end, 1_000, prefix=""))
        assert page.next_after is None
        return {one.name: one.position for one in page.slots}

    async def shown(self, name: str) -> list[tuple[str, str | None]]:
        """Return all events of a session: the type, and the text or what became of it."""
        durable = self._sessions.find(session_key(_WORKSPACE, name))
        page = await self._sessions.events.page(durable, 0, durable.tail, _PAGE_BYTES)
        return [shown_event(msgspec.json.decode(event)) for event in page.events()]


def shown_event(event: dict[str, object]) -> tuple[str, str | None]:
    """Return the type of an event, and its text or what became of it."""
    kind, text = str(event["type"]), event.get("text")
    for mark in ("redacted", "dropped"):
        if isinstance(event.get(mark), dict):
            return kind, mark if text is None else f"{mark}, and has a text"
    return kind, None if text is None else str(text)
