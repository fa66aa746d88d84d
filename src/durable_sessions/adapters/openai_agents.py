"""A session for the OpenAI Agents SDK: ``Runner.run(agent, "…", session=DurableSession("ann"))``.

Nothing is overwritten. What was popped, cleared or compacted stays in the log, behind an event that says so;
with ``erase=True`` it is erased.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

try:
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings
except ImportError as missing:
    raise ImportError("This needs the OpenAI Agents SDK: pip install 'durable-sessions[openai]'") from missing

from durable_sessions.adapters import _names as names
from durable_sessions.adapters import _requests as requests
from durable_sessions.adapters._adapter import ATTEMPTS_MAX, Adapter, ConflictsPersistError
from durable_sessions.adapters._envelope import BATCH_EVENTS_MAX, encoded, unwrapped, wrapped
from durable_sessions.adapters._plans import Plan
from durable_sessions.client import AsyncClient, Client, Event
from durable_sessions.client.errors import PreconditionFailedError

ITEM, ITEMS, RETRACTED, CLEARED = "openai.item", "openai.items", "openai.retracted", "openai.cleared"
_SLOTS_PER_EVENT = 8
_FIRST_PAGE = 32


@dataclass(frozen=True, slots=True)
class LiveItems:
    """The newest items, the oldest first, each with an id; ``tail`` is where the session ended."""

    items: list[tuple[str, Any]]
    complete: bool
    tail: str | None


class DurableSession(Adapter):
    """The SDK's ``Session``: a conversation is the session ``openai:<session_id>``."""

    name = "openai"
    package = "openai-agents"

    def __init__(
        self,
        session_id: str,
        client: Client | AsyncClient | None = None,
        *,
        url: str | None = None,
        api_key: str | None = None,
        namespace: str = name,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        erase: bool = False,
    ) -> None:
        super().__init__(client, url=url, api_key=api_key, namespace=namespace)
        self.session_id = session_id
        self.session_settings: SessionSettings | None = _settings(session_settings)
        self._session = names.session_id(namespace, session_id)
        self._erase = erase

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the newest items, the oldest of them first; all of them without a limit."""
        if limit is None:
            limit = _settings(self.session_settings).limit
        if limit == 0:
            return []
        wanted = None if limit is None or limit < 0 else limit
        live = await self._clients.arun(self._live(wanted))
        return [item for _, item in live.items]

    async def add_items(self, items: Sequence[TResponseInputItem]) -> None:
        """Add items behind the others, all or none."""
        if items:
            await self._clients.arun(self._add(list(items)))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item away, and return it; of several callers each gets another one."""
        return await self._clients.arun(self._pop())

    async def clear_session(self) -> None:
        """Take all items away."""
        await self._clients.arun(self._clear())

    async def items_at(self, at: str | int) -> list[TResponseInputItem]:
        """Return the items as they were at an offset or position, whatever was taken away or added since."""
        return await self._clients.arun(self._items_at(at))

    async def undo(self) -> list[TResponseInputItem]:
        """Take the last turn away, from the newest message of the user on, and return its items."""
        return await self._clients.arun(self._undo())

    async def branch(self, session_id: str, *, at: str | int | None = None) -> "DurableSession":
        """Return a session of that id with the history up to an offset or position, or all of it."""
        other = copy(self)
        other.session_id = session_id
        other._session = names.session_id(self._namespace, session_id)
        metadata = self._metadata(session_id=session_id)["metadata"]
        await self._clients.arun(requests.fork(self._session, other._session, metadata, at=at))
        return other

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[Any], bool] | None = None
    ) -> Any:
        """Return the newest items, and how to replace the last of them if nobody has added any since.

        The SDK's compaction asks for this; without it, what is added during a compaction is lost.
        """
        if any(
            getattr(type(self), one) is not getattr(DurableSession, one) for one in ("get_items", "add_items")
        ):
            return None
        try:
            from agents.memory.session import _CompactionSnapshot
        except ImportError:  # it is the SDK's own, and may change
            return None
        live = await self._clients.arun(self._live(limit))

        def replace_suffix(start: int, output: list[Any]) -> Awaitable[bool]:
            expected = [item_id for item_id, _ in live.items[start:]]
            return self._clients.arun(self._replace(expected, output, prune_prefix))

        return _CompactionSnapshot([item for _, item in live.items], live.complete, replace_suffix)

    # Plans ------------------------------------------------------------------------------

    def _live(self, wanted: int | None) -> Plan[LiveItems]:
        """Read backwards until there are enough items that nobody has taken away."""
        size: int | None = None if wanted is None else 2 * wanted + _FIRST_PAGE
        while True:
            newest = yield from requests.events(self._session, order="desc", limit=size)
            is_whole = size is None or len(newest) < size
            kept, was_cleared = _kept(newest, wanted)
            if is_whole or was_cleared or (wanted is not None and len(kept) > wanted):
                break
            size = None if size is None else size * 4
        found = yield from _unwrapped(kept[:wanted])
        complete = wanted is None or len(kept) <= wanted
        return LiveItems(found, complete, newest[0].next_offset if newest else None)

    def _items_at(self, at: str | int) -> Plan[list[Any]]:
        limit = at if isinstance(at, int) else None
        if limit == 0:
            return []
        found = yield from requests.events(self._session, limit=limit)
        earlier = found if limit is not None else [event for event in found if event.offset < str(at)]
        kept, _ = _kept(earlier[::-1], None)
        return [item for _, item in (yield from _unwrapped(kept))]

    def _add(self, items: list[Any]) -> Plan[None]:
        events = yield from encoded(self._item_events(items))
        yield from requests.append(self._session, events, new=self._metadata(session_id=self.session_id))

    def _pop(self) -> Plan[Any]:
        for _ in range(ATTEMPTS_MAX):
            live = yield from self._live(1)
            if not live.items:
                return None
            [(item_id, item)] = live.items
            try:
                events = yield from encoded(self._retractions([item_id]))
                yield from requests.append(self._session, events, if_={"tail": live.tail})
            except PreconditionFailedError:
                continue
            return item
        raise ConflictsPersistError(self._session)

    def _undo(self) -> Plan[list[Any]]:
        for _ in range(ATTEMPTS_MAX):
            live = yield from self._turn()
            begin = next((n for n in reversed(range(len(live.items))) if _is_users(live.items[n][1])), None)
            if begin is None:
                return []
            turn = live.items[begin:]
            events = yield from encoded(self._retractions([item_id for item_id, _ in turn]))
            try:
                yield from requests.append(self._session, events, if_={"tail": live.tail})
            except PreconditionFailedError:
                continue
            return [item for _, item in turn]
        raise ConflictsPersistError(self._session)

    def _turn(self) -> Plan[LiveItems]:
        """Read backwards as far as the newest message of the user, or all if there is none."""
        wanted = _FIRST_PAGE
        while True:
            live = yield from self._live(wanted)
            if live.complete or any(_is_users(item) for _, item in live.items):
                return live
            wanted *= 4

    def _clear(self) -> Plan[None]:
        event: dict[str, Any] = {"type": CLEARED, "searchable": False}
        if self._erase:
            event.update(slot_prefix="item/", slot_empty="drop")
        try:
            yield from requests.append(self._session, (yield from encoded([event])), if_={"exists": True})
        except PreconditionFailedError:
            pass

    def _replace(
        self, expected: list[str], output: list[Any], prune_prefix: Callable[[Any], bool] | None
    ) -> Plan[bool]:
        if not expected:
            return False
        for _ in range(ATTEMPTS_MAX):
            live = yield from self._live(len(expected) if prune_prefix is None else None)
            if [item_id for item_id, _ in live.items[-len(expected) :]] != expected:
                return False
            gone = list(expected)
            for item_id, item in live.items[: -len(expected)]:
                if prune_prefix is None or not prune_prefix(item):
                    break
                gone.append(item_id)
            events = yield from encoded([*self._retractions(gone), *self._item_events(output)])
            try:
                yield from requests.append(self._session, events, if_={"tail": live.tail})
            except PreconditionFailedError:
                continue
            return True
        raise ConflictsPersistError(self._session)

    def _item_events(self, items: list[Any]) -> list[dict[str, Any]]:
        """Return items as events; so many that they would not fit into one append are one event."""
        if len(items) <= BATCH_EVENTS_MAX:
            return [wrapped(ITEM, item, **self._erasable()) for item in items]
        return [wrapped(ITEMS, items, count=len(items), **self._erasable())]

    def _erasable(self) -> dict[str, Any]:
        """Return what an event needs if it is to be erased later: a slot of its own."""
        if not self._erase:
            return {}
        item_id = f"oi_{secrets.token_hex(20)}"
        return {"id": item_id, "slot": f"item/{item_id}"}

    def _retractions(self, ids: list[str]) -> list[dict[str, Any]]:
        events = [item_id.partition("#")[0] for item_id in ids]
        refs = [{"rel": "undoes", "id": event_id} for event_id in dict.fromkeys(events)]
        made: list[dict[str, Any]] = [
            {"type": RETRACTED, "searchable": False, "items": ids, "refs": refs[:100]},
        ]
        slots = [f"item/{item_id}" for item_id in ids if self._erase and "#" not in item_id]
        made += [
            {"type": RETRACTED, "searchable": False, "items": [], "slot": some, "slot_empty": "drop"}
            for some in (slots[at : at + _SLOTS_PER_EVENT] for at in range(0, len(slots), _SLOTS_PER_EVENT))
        ]
        return made


def _settings(given: SessionSettings | dict[str, Any] | None) -> SessionSettings:
    return given if isinstance(given, SessionSettings) else SessionSettings().resolve(given)


def _is_users(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") == "user"


def _unwrapped(kept: Sequence[tuple[str, Event, int | None]]) -> Plan[list[tuple[str, Any]]]:
    """Return items that were read backwards, the oldest first, each with its id."""
    found: list[tuple[str, Any]] = []
    of_event: str | None = None
    raw: Any = None
    for item_id, event, index in reversed(kept):
        if event.id != of_event:  # an event with many items may be an artifact: it is read once
            of_event, raw = event.id, (yield from unwrapped(event))
        found.append((item_id, raw if index is None else raw[index]))
    return found


def _kept(newest: Sequence[Event], wanted: int | None) -> tuple[list[tuple[str, Event, int | None]], bool]:
    """Return the live items among events that are read backwards, and whether a clearing ends them.

    Of those that are wanted there is one more, if there is one: so it is known that they are not all.
    """
    retracted: set[str] = set()
    kept: list[tuple[str, Event, int | None]] = []
    for event in newest:
        if event.type == CLEARED:
            return kept, True
        if event.type == RETRACTED:
            retracted.update(event.get("items", ()))
        elif event.type == ITEM and event.id not in retracted and ("raw" in event or "raw_artifact" in event):
            kept.append((event.id, event, None))
        elif event.type == ITEMS and ("raw" in event or "raw_artifact" in event):
            numbers = range(event["count"] - 1, -1, -1)
            kept += [(f"{event.id}#{n}", event, n) for n in numbers if f"{event.id}#{n}" not in retracted]
        if wanted is not None and len(kept) > wanted:
            break
    return kept, False
