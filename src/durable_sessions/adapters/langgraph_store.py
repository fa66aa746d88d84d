"""A store for LangGraph: what agents keep beyond a thread, by namespace and key.

``graph = builder.compile(store=DurableStore())``. All namespaces with the same first label are one session,
``langgraph-store:<label>``; an item is the event that holds the slot ``<namespace>/<key>``. So every earlier
value stays in the log, and items are found by their words, without an embedding.
"""

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
    )
    from langgraph.store.base import InvalidNamespaceError as InvalidNamespaceError
except ImportError as missing:
    raise ImportError("This needs LangGraph: pip install 'durable-sessions[langgraph]'") from missing

from durable_sessions.adapters import _names as names
from durable_sessions.adapters import _requests as requests
from durable_sessions.adapters._adapter import Adapter
from durable_sessions.adapters._envelope import batches, encoded, unwrapped, wrapped
from durable_sessions.adapters._plans import Plan
from durable_sessions.client import AsyncClient, Client, Event

__all__ = ["DurableStore"]

_OPERATORS = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
ITEM, DELETED = "langgraph.item", "langgraph.item_deleted"
SLOT_BYTES_MAX = 512
Namespace = tuple[str, ...]


class DurableStore(BaseStore, Adapter):
    """Keeps items; those of a batch that share the first label of their namespace are stored all or none.

    Reads of a batch see what was there before its puts. ``search`` with a query ranks the items that have
    words of it by BM25; without one the newest come first.
    """

    name = "langgraph-store"
    package = "langgraph-checkpoint"

    def __init__(
        self,
        client: Client | AsyncClient | None = None,
        *,
        url: str | None = None,
        api_key: str | None = None,
        namespace: str = name,
    ) -> None:
        Adapter.__init__(self, client, url=url, api_key=api_key, namespace=namespace)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations, and return their results in the same order."""
        return self._clients.run(self._batch(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations, and return their results in the same order."""
        return await self._clients.arun(self._batch(list(ops)))

    # Plans ------------------------------------------------------------------------------

    def _batch(self, ops: Sequence[Op]) -> Plan[list[Result]]:
        for op in ops:
            _require_valid(op)
        results: list[Result] = [None] * len(ops)
        items = yield from self._items([op for op in ops if isinstance(op, GetOp)])
        for index, op in enumerate(ops):
            if isinstance(op, GetOp):
                results[index] = items.get((op.namespace, op.key))
            elif isinstance(op, SearchOp):
                results[index] = yield from self._search(op)
            elif isinstance(op, ListNamespacesOp):
                results[index] = yield from self._namespaces(op)
            elif not isinstance(op, PutOp):
                raise TypeError(f"{type(op).__name__} is no operation of a store.")
        yield from self._put([op for op in ops if isinstance(op, PutOp)])
        return results

    def _items(self, ops: Sequence[GetOp]) -> Plan[dict[tuple[Namespace, str], Item]]:
        """Return the items that are there of those asked for: one session's by one request or few."""
        by_root: dict[str, dict[str, GetOp]] = {}
        for op in ops:
            by_root.setdefault(op.namespace[0], {})[_slot(op.namespace, op.key)] = op
        found: dict[tuple[Namespace, str], Item] = {}
        for root, wanted in by_root.items():
            held = yield from requests.slots(self._session(root), list(wanted))
            for slot, event in held.events.items():
                value = yield from unwrapped(event)
                if value is not None:
                    op = wanted[slot]
                    found[op.namespace, op.key] = Item(**_members(event), value=value)
        return found

    def _put(self, ops: Sequence[PutOp]) -> Plan[None]:
        """Write each session's items by one request; of several puts of a key the last one counts."""
        last = {(op.namespace, op.key): op for op in ops}
        by_root: dict[str, list[dict[str, Any]]] = {}
        for op in last.values():
            by_root.setdefault(op.namespace[0], []).append(_event(op))
        for root, events in by_root.items():
            session = self._session(root)
            new = self._metadata(root=root)
            deletes_only = all(event["type"] == DELETED for event in events)
            if deletes_only and (yield from requests.info(session)) is None:
                continue  # nothing to delete: no session is made for that
            for batch in batches((yield from encoded(events))):
                yield from requests.append(session, batch, new=new)

    def _search(self, op: SearchOp) -> Plan[list[SearchItem]]:
        found: list[tuple[Event, float | None]] = []
        for session in (yield from self._sessions(op.namespace_prefix[:1])):
            prefix = _prefix(op.namespace_prefix)
            held = yield from requests.slots(session, prefix=prefix)
            live = {event.id: event for event in held.events.values()}
            if op.query:
                scores = yield from requests.scores(session, op.query, types=ITEM)
                found += [(live[hit], score) for hit, score in scores.items() if hit in live]
            else:
                found += [(event, None) for event in live.values()]
        found.sort(key=lambda one: (one[1] or 0.0, one[0].created_at), reverse=True)
        chosen: list[SearchItem] = []
        end = op.offset + op.limit
        for event, score in found:
            if len(chosen) >= end:
                break
            value = yield from unwrapped(event)
            if value is not None and _matches(value, op.filter or {}):
                chosen.append(SearchItem(**_members(event), value=value, score=score))
        return chosen[op.offset : end]

    def _namespaces(self, op: ListNamespacesOp) -> Plan[list[Namespace]]:
        conditions = op.match_conditions or ()
        first = next((one.path[0] for one in conditions if one.match_type == "prefix" and one.path), "*")
        found: set[Namespace] = set()
        for session in (yield from self._sessions(() if first == "*" else (first,))):
            slots = yield from requests.slot_names(session, "")
            long = yield from requests.slots(session, [slot for slot in slots if names.HASHED in slot])
            for slot in slots:
                event = long.get(slot)
                namespace = tuple(event["namespace"]) if event else _namespace_of(slot)
                if all(_is_matched(condition, namespace) for condition in conditions):
                    found.add(namespace[: op.max_depth])
        return sorted(found)[op.offset : op.offset + op.limit]

    def _sessions(self, root: Sequence[str]) -> Plan[list[str]]:
        """Return the session of a first label; of none given, all of them."""
        if root:
            return [self._session(root[0])]
        wanted = {"adapter": self.name, "namespace": self._namespace}
        found = yield from requests.sessions(metadata=wanted)
        return [info.id for info in found]

    def _session(self, root: str) -> str:
        return names.session_id(self._namespace, root)


def _event(op: PutOp) -> dict[str, Any]:
    """Return an item as the event that holds its slot, or as one that empties it."""
    slot = _slot(op.namespace, op.key)
    if op.value is None:
        return {"type": DELETED, "slot": slot, "slot_empty": "keep", "searchable": False}
    return wrapped(
        ITEM,
        op.value,
        slot=slot,
        searchable=False if op.index is False else None,
        namespace=list(op.namespace),
        key=op.key,
    )


def _members(event: Event) -> dict[str, Any]:
    """Return the members of an item that its event has; as with SQLite, a new value is a new item."""
    return {
        "namespace": tuple(event["namespace"]),
        "key": event["key"],
        "created_at": event.created_at,
        "updated_at": event.created_at,
    }


# Names ----------------------------------------------------------------------------------


def _slot(namespace: Namespace, key: str) -> str:
    slot = names.slot(*namespace, key)
    if len(slot) > SLOT_BYTES_MAX:
        raise ValueError(
            f"The namespace and key of an item are at most {SLOT_BYTES_MAX} bytes together, in which each "
            f"label counts up to 120; these are {len(slot)}. Use fewer or shorter labels."
        )
    return slot


def _prefix(namespace: Namespace) -> str:
    return names.slot(*namespace, "") if namespace else ""


def _namespace_of(slot: str) -> Namespace:
    return tuple(map(unquote, slot.split("/")[:-1]))


def _require_valid(op: Op) -> None:
    """Refuse labels that LangGraph refuses, also in operations that were made by hand."""
    if isinstance(op, GetOp | PutOp):
        labels: Iterable[Any] = op.namespace
        if not op.namespace:
            raise InvalidNamespaceError("Namespace cannot be empty.")
    elif isinstance(op, SearchOp):
        labels = op.namespace_prefix
    else:
        conditions = getattr(op, "match_conditions", None) or ()
        labels = [label for condition in conditions for label in condition.path if label != "*"]
    for label in labels:
        if not isinstance(label, str) or not label or "." in label or "\x00" in label:
            raise InvalidNamespaceError(
                f"Invalid namespace label {label!r}: labels are texts that are not empty, without periods "
                "and NUL bytes."
            )


def _is_matched(condition: MatchCondition, namespace: Namespace) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return not path or all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


# Filters --------------------------------------------------------------------------------


def _matches(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether an item has the values that a filter names; a name may be a path, ``author.name``."""
    return all(_is_wanted(_at(value, name), one) for name, one in wanted.items())


def _at(value: Any, path: str) -> Any:
    if isinstance(value, Mapping) and path in value:
        return value[path]
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _is_wanted(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping) and any(str(name).startswith("$") for name in wanted):
        return all(_holds(found, name, operand) for name, operand in wanted.items())
    return bool(found == wanted)


def _holds(found: Any, name: str, operand: Any) -> bool:
    if name not in _OPERATORS:
        raise ValueError(f"Unsupported operator: {name}. Use one of {', '.join(_OPERATORS)}.")
    if name not in ("$eq", "$ne") and not _are_ordered(found, operand):
        return False
    return bool(_OPERATORS[name](found, operand))


def _are_ordered(found: Any, operand: Any) -> bool:
    """Whether one value can be less than the other: two texts, or two numbers."""
    return any(isinstance(found, kind) and isinstance(operand, kind) for kind in (str, (int, float)))
