"""A conversation store for Pydantic AI: each message is stored once, and forks share them."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

try:
    from pydantic import TypeAdapter
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.messages import ModelMessagesTypeAdapter
except ImportError as missing:
    raise ImportError("This needs Pydantic AI: pip install 'durable-sessions[pydantic-ai]'") from missing

from durable_sessions.adapters import _names as names
from durable_sessions.adapters import _requests as requests
from durable_sessions.adapters._adapter import Adapter
from durable_sessions.adapters._envelope import batches, encoded, unwrapped, wrapped
from durable_sessions.adapters._plans import Plan
from durable_sessions.client import AsyncClient, Client, Event
from durable_sessions.client.encoding import encode
from durable_sessions.client.errors import ConflictError, NotFoundError, PreconditionFailedError

ENTRY, RECORD = "pydantic.entry", "pydantic.record"
_SLOT = "record"
_PAGE = 200
_REMEMBERED_MAX = 10_000
_RECORDS = TypeAdapter(ConversationRecord)


class DurableConversationStore(ConversationStore, Adapter):
    """Keeps conversations: one is the session ``pydantic:<conversation_id>``, a fork is a fork of it."""

    name = "pydantic"
    package = "pydantic-ai-slim"

    def __init__(
        self,
        client: Client | AsyncClient | None = None,
        *,
        url: str | None = None,
        api_key: str | None = None,
        namespace: str = name,
    ) -> None:
        Adapter.__init__(self, client, url=url, api_key=api_key, namespace=namespace)
        self._homes: OrderedDict[str, str] = OrderedDict()

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, None if there is none."""
        return await self._clients.arun(self._read_own(conversation_id))

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Return the records, or those of a scope, the one that was saved last first."""
        return await self._clients.arun(self._list(scope, limit))

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new entries together, in the place of the record with that revision."""
        await self._clients.arun(self._write(record, new_entries, expected_revision))

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation with its entries; forks keep those that they share with it."""
        await self._clients.arun(self._delete(conversation_id, expected_revision))

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry; LookupError if there is none."""
        return (await self._clients.arun(self._history(entry_id, 1)))[-1]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """Return the entries up to one, the oldest first, or the last of them."""
        if head_id is None or limit == 0:
            return []
        return await self._clients.arun(self._history(head_id, limit))

    # Plans ------------------------------------------------------------------------------

    def _held(self, conversation_id: str, *more: str) -> Plan[tuple[Event | None, requests.HeldSlots]]:
        """Return the event with the record of a conversation: not one that a fork has inherited."""
        session = self._session(conversation_id)
        held = yield from requests.slots(session, [_SLOT, *more])
        event = held.get(_SLOT)
        is_own = event is not None and event.get("conversation_id") == conversation_id
        return (event if is_own else None), held

    def _read_own(self, conversation_id: str) -> Plan[ConversationRecord | None]:
        event, _ = yield from self._held(conversation_id)
        if event is None:
            return None
        record = _record((yield from unwrapped(event)))
        for entry_id in (record.head_id, *record.branches):
            if entry_id is not None:
                self._remember(entry_id, self._session(conversation_id))
        return record

    def _list(self, scope: str | None, limit: int | None) -> Plan[list[ConversationRecord]]:
        wanted = {"adapter": self.name, "namespace": self._namespace}
        if scope is not None:
            wanted["scope"] = scope
        found = yield from requests.sessions(metadata=wanted, show=_SLOT)
        records = []
        for info in found:
            held = info.raw["slots"].get(_SLOT)
            if held is not None and held.get("conversation_id") == info.metadata.get("conversation_id"):
                records.append(_record((yield from unwrapped(Event(held)))))
        records.sort(key=lambda record: record.updated_at, reverse=True)
        return records[:limit]

    def _write(
        self, record: ConversationRecord, new_entries: Sequence[ConversationEntry], expected: str | None
    ) -> Plan[None]:
        conversation_id, head_id = record.conversation_id, record.head_id
        session = self._session(conversation_id)
        is_new_head = head_id is None or any(entry.id == head_id for entry in new_entries)
        head_slot = [] if is_new_head or head_id is None else [names.slot("entry", head_id)]
        event, held = yield from self._held(conversation_id, *head_slot)
        if (None if event is None else event.get("revision")) != expected:
            raise ConversationConflict(conversation_id)
        if head_slot and held.get(head_slot[0]) is None:
            if expected is not None or head_id is None:
                raise ConversationConflict(conversation_id)
            held = yield from self._forked(record, head_id, held)
        holder = held.get(_SLOT)
        parts = [
            wrapped(ENTRY, _dumped(entry), id=_entry_id(entry), slot=names.slot("entry", entry.id))
            for entry in new_entries
        ]
        parts.append(
            wrapped(
                RECORD,
                _RECORDS.dump_python(record, mode="json"),
                slot=_SLOT,
                searchable=False,
                conversation_id=conversation_id,
                revision=record.revision,
            )
        )
        events = yield from encoded(parts)
        *earlier, last = batches(events)
        condition = {"slots": {_SLOT: None if holder is None else holder.id}}
        try:
            for batch in (*earlier, last):  # entries without a record that names them are not seen
                yield from requests.append(session, batch, if_=condition, new=self._described(record))
        except (PreconditionFailedError, NotFoundError) as refused:
            raise ConversationConflict(conversation_id) from refused
        if head_id is not None:
            self._remember(head_id, session)

    def _forked(
        self, record: ConversationRecord, head_id: str, held: requests.HeldSlots
    ) -> Plan[requests.HeldSlots]:
        """Make the session of a record a fork of the one that has the entry which it goes on from."""
        session = self._session(record.conversation_id)
        slot = names.slot("entry", head_id)
        homes = yield from requests.sessions(
            holding=slot, metadata={"adapter": self.name, "namespace": self._namespace}, limit=1
        )
        if not homes:
            raise ConversationConflict(record.conversation_id)
        if held.incarnation is not None:  # left by a process that died before it wrote the record
            yield from requests.delete(session)
        try:
            yield from requests.fork(homes[0].id, session, self._described(record)["metadata"])
        except (ConflictError, NotFoundError) as refused:
            raise ConversationConflict(record.conversation_id) from refused
        made = yield from requests.slots(session, [_SLOT, slot])
        if made.get(slot) is None:
            raise ConversationConflict(record.conversation_id)
        return made

    def _delete(self, conversation_id: str, expected: str) -> Plan[None]:
        session = self._session(conversation_id)
        before = yield from requests.info(session)
        event, _ = yield from self._held(conversation_id)
        if before is None or event is None or event.get("revision") != expected:
            raise ConversationConflict(conversation_id)
        try:
            yield from requests.delete(session, if_match=before.next_offset)
        except PreconditionFailedError as refused:
            raise ConversationConflict(conversation_id) from refused

    def _history(self, head_id: str, limit: int | None) -> Plan[list[ConversationEntry]]:
        session = yield from self._home(head_id)
        found: dict[str, Event] = {}
        entries: list[ConversationEntry] = []
        wanted: str | None = head_id
        while wanted is not None and (limit is None or len(entries) < limit):
            event = found.get(names.slot("entry", wanted))
            if event is None:
                # Ids of entries sort by time: those before it lie side by side, mostly.
                size = _PAGE if limit is None else min(_PAGE, limit - len(entries))
                behind = names.slot("entry", wanted) + "~"
                page = yield from requests.slots(
                    session, prefix="entry/", order="desc", limit=size, after=behind
                )
                found = page.events
                event = found.get(names.slot("entry", wanted))
                if event is None:
                    self._homes.pop(head_id, None)
                    raise LookupError(f"There is no entry {wanted}.")
            entries.append(_entry((yield from unwrapped(event))))
            wanted = entries[-1].parent_id
        return entries[::-1]

    def _home(self, entry_id: str) -> Plan[str]:
        """Return a session that has an entry."""
        known = self._homes.get(entry_id)
        slot = names.slot("entry", entry_id)
        if known is not None and (yield from requests.slots(known, [slot])).get(slot) is not None:
            return known
        homes = yield from requests.sessions(
            holding=slot, metadata={"adapter": self.name, "namespace": self._namespace}, limit=1
        )
        if not homes:
            raise LookupError(f"There is no entry {entry_id}.")
        self._remember(entry_id, homes[0].id)
        return homes[0].id

    # Names ------------------------------------------------------------------------------

    def _session(self, conversation_id: str) -> str:
        return names.session_id(self._namespace, conversation_id)

    def _described(self, record: ConversationRecord) -> dict[str, Any]:
        parts = {"conversation_id": record.conversation_id}
        if record.scope is not None:
            parts["scope"] = record.scope
        return dict(self._metadata(**parts))

    def _remember(self, entry_id: str, session: str) -> None:
        self._homes[entry_id] = session
        self._homes.move_to_end(entry_id)
        if len(self._homes) > _REMEMBERED_MAX:
            self._homes.popitem(last=False)


def _entry_id(entry: ConversationEntry) -> str:
    return names.event_id("pe", entry.id)


def _dumped(entry: ConversationEntry) -> dict[str, Any]:
    [message] = ModelMessagesTypeAdapter.dump_python([entry.message], mode="json")
    return {"id": entry.id, "parent_id": entry.parent_id, "kind": entry.kind, "message": message}


def _entry(raw: dict[str, Any]) -> ConversationEntry:
    [message] = ModelMessagesTypeAdapter.validate_json(encode([raw["message"]]))
    return ConversationEntry(id=raw["id"], parent_id=raw["parent_id"], message=message, kind=raw["kind"])


def _record(raw: dict[str, Any]) -> ConversationRecord:
    return _RECORDS.validate_json(encode(raw))
