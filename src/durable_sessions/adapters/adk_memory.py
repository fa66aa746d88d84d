"""The memory of Google's Agent Development Kit (ADK): what a user's sessions said is found by its words."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

try:
    from google.adk.events.event import Event as AdkEvent
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions.session import Session
except ImportError as missing:
    raise ImportError("This needs ADK: pip install 'durable-sessions[adk]'") from missing

from durable_sessions.adapters import _names as names
from durable_sessions.adapters import _requests as requests
from durable_sessions.adapters._adapter import Adapter
from durable_sessions.adapters._envelope import batches, encoded, unwrapped, wrapped
from durable_sessions.adapters._plans import Plan
from durable_sessions.client import AsyncClient, Client, Event
from durable_sessions.client.encoding import encode

__all__ = ["DurableMemoryService"]

EVENT, MEMORY, FORGOTTEN = "adk.event", "adk.memory", "adk.forgotten"
HITS_MAX = 10
"""How many memories a search returns, as the service of ADK in memory does."""


class DurableMemoryService(BaseMemoryService, Adapter):  # type: ignore[misc]
    """ADK's ``BaseMemoryService``, over what ``DurableSessionService`` has stored under the same namespace.

    An event is found as soon as it is stored, so that adding sessions and their events does nothing. What is
    added otherwise, and what was deleted, is in a session beside them: ``adk-memory:<app>:<user>``.
    """

    name = "adk"
    package = "google-adk"

    def __init__(
        self,
        client: Client | AsyncClient | None = None,
        *,
        url: str | None = None,
        api_key: str | None = None,
        namespace: str = name,
    ) -> None:
        Adapter.__init__(self, client, url=url, api_key=api_key, namespace=namespace)

    async def add_session_to_memory(self, session: Session) -> None:
        """Do nothing: what the session service has stored is found."""

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[AdkEvent],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Do nothing: what the session service has stored is found."""

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add memories that no event says; one with an id takes the place of the one that has it."""
        if memories:
            await self._clients.arun(self._add(app_name, user_id, memories))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return what sessions of the user said, and what was added: the ten that match best."""
        return SearchMemoryResponse(memories=await self._clients.arun(self._search(app_name, user_id, query)))

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Find a memory no more; one that was added is erased, an event stays in its session."""
        if memory_id:
            await self._clients.arun(self._delete(app_name, user_id, memory_id))

    # Plans ------------------------------------------------------------------------------

    def _add(self, app: str, user: str, memories: Sequence[MemoryEntry]) -> Plan[None]:
        wished: list[dict[str, Any]] = []
        for memory in memories:
            chosen = memory.id or f"mem_{secrets.token_hex(10)}"
            raw = memory.model_copy(update={"id": chosen}).model_dump(mode="json", exclude_none=True)
            wished.append(wrapped(MEMORY, raw, slot=names.slot("memory", chosen)))
            if memory.id:
                remembered = {"slot": names.slot("forgotten", chosen), "slot_empty": "keep"}
                wished.append({"type": FORGOTTEN, "searchable": False, **remembered})
        for batch in batches((yield from encoded(wished))):
            yield from requests.append(self._session(app, user), batch, new=self._described(app, user))

    def _search(self, app: str, user: str, query: str) -> Plan[list[MemoryEntry]]:
        wanted = {"adapter": self.name, "namespace": self._namespace, "app": app, "user": user}
        found = yield from requests.search(query, wanted, types=(EVENT, MEMORY), limit=HITS_MAX)
        entries = []
        for hit in found:
            raw = yield from unwrapped(hit.event)
            if raw is not None:
                entries.append((hit.event, raw))
        ids = {raw["id"] for _, raw in entries}
        slots = [names.slot(kind, one) for kind in ("memory", "forgotten") for one in ids]
        held = yield from requests.slots(self._session(app, user), slots)
        return [_entry(event, raw) for event, raw in entries if _is_live(event, raw["id"], held)][:HITS_MAX]

    def _delete(self, app: str, user: str, memory_id: str) -> Plan[None]:
        kept = {"type": FORGOTTEN, "searchable": False, "slot": names.slot("forgotten", memory_id)}
        erased = {"type": FORGOTTEN, "searchable": False, "slot": names.slot("memory", memory_id)}
        events = [encode(kept), encode({**erased, "slot_empty": "drop"})]
        yield from requests.append(self._session(app, user), events, new=self._described(app, user))

    # Names ------------------------------------------------------------------------------

    def _session(self, app: str, user: str) -> str:
        return names.session_id(f"{self._namespace}-memory", app, user)

    def _described(self, app: str, user: str) -> Mapping[str, Any]:
        return self._metadata(app=app, user=user)


def _is_live(event: Event, memory_id: str, held: requests.HeldSlots) -> bool:
    """Say whether a memory was not forgotten, nor another one has taken its place."""
    if held.get(names.slot("forgotten", memory_id)) is not None:
        return False
    holder = held.get(names.slot("memory", memory_id))
    return event.type == EVENT or (holder is not None and holder.id == event.id)


def _entry(event: Event, raw: Mapping[str, Any]) -> MemoryEntry:
    if event.type == MEMORY:
        return MemoryEntry.model_validate(raw)
    told = AdkEvent.model_validate(raw)
    at = datetime.fromtimestamp(told.timestamp, UTC).isoformat()
    return MemoryEntry(id=told.id, content=told.content, author=told.author, timestamp=at)
