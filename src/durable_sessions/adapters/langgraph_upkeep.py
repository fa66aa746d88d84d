"""Threads of LangGraph are copied, pruned, and rid of runs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from durable_sessions.adapters import _requests as requests
from durable_sessions.adapters import langgraph_records as records
from durable_sessions.adapters._envelope import batches, encoded
from durable_sessions.adapters._plans import Plan
from durable_sessions.adapters.langgraph_records import StoredCheckpoint
from durable_sessions.client.encoding import encode
from durable_sessions.client.errors import NotFoundError
from durable_sessions.server_members import SET_BY_SERVER

PRUNED = "langgraph.pruned"
_SLOTS_PER_EVENT = 8


def copy(source: str, target: str, metadata: Mapping[str, Any]) -> Plan[None]:
    """Make a session the fork of another; if it exists, append what it lacks of the other's slots."""
    if source == target:
        return
    if (yield from requests.info(target)) is None:
        try:
            yield from requests.fork(source, target, metadata)
        except NotFoundError:
            return
        return
    there = set((yield from requests.slot_names(target, "")))
    held = yield from requests.slots(source, prefix="")
    lacking: dict[str, dict[str, Any]] = {}
    for name, event in held.events.items():
        if name not in there and event.id not in lacking:
            lacking[event.id] = {key: value for key, value in event.items() if key not in SET_BY_SERVER}
    for batch in batches((yield from encoded(lacking.values()))):
        yield from requests.append(target, batch)


def erase_run(session: str, run_id: str) -> Plan[None]:
    """Erase the checkpoints of a run in a session, with their writes."""
    held = yield from requests.slots(session, prefix="c/")
    gone = [event for event in held.events.values() if event.get("run_id") == run_id]
    slots = [records.checkpoint_slot(event["ns"], event["checkpoint_id"]) for event in gone]
    prefixes = [records.writes_of(event["ns"], event["checkpoint_id"]) for event in gone]
    yield from _drop(session, [*slots, records.run_slot(run_id)], prefixes, held.incarnation)


def keep_latest(serde: SerializerProtocol, session: str) -> Plan[None]:
    """Erase all checkpoints but the newest of each namespace and those that it is made up from.

    Values are listed before checkpoints: what a run puts meanwhile is not in the list, and stays.
    """
    values = yield from requests.slot_names(session, "b/")
    held = yield from requests.slots(session, prefix="c/")
    by_place: dict[tuple[str, str], StoredCheckpoint] = {}
    for event in held.events.values():
        stored = yield from records.stored_checkpoint(serde, event)
        by_place[stored.ns, stored.id] = stored
    kept: dict[tuple[str, str], StoredCheckpoint] = {}
    for ns in {place[0] for place in by_place}:
        newest = max(place for place in by_place if place[0] == ns)
        kept.update((yield from _needed(session, by_place, by_place[newest])))
    named = {slot for stored in kept.values() for slot in stored.blobs}
    gone = [stored for place, stored in by_place.items() if place not in kept]
    runs = {stored.metadata.get("run_id") for stored in gone} - {
        stored.metadata.get("run_id") for stored in kept.values()
    }
    slots = [
        *(records.checkpoint_slot(stored.ns, stored.id) for stored in gone),
        *(slot for slot in values if slot not in named),
        *(records.run_slot(run_id) for run_id in runs if isinstance(run_id, str) and run_id),
    ]
    prefixes = [records.writes_of(stored.ns, stored.id) for stored in gone]
    yield from _drop(session, slots, prefixes, held.incarnation)


def _needed(
    session: str, by_place: Mapping[tuple[str, str], StoredCheckpoint], newest: StoredCheckpoint
) -> Plan[dict[tuple[str, str], StoredCheckpoint]]:
    """Return a checkpoint, and its ancestors back to a stored value of every channel kept as deltas."""
    counted = newest.metadata.get("counters_since_delta_snapshot") or {}
    kept = {(newest.ns, newest.id): newest}
    open_channels = set(counted)
    one: StoredCheckpoint | None = newest
    while one is not None:
        slots = {slot: channel for slot, channel in one.blobs.items() if channel in open_channels}
        held = yield from requests.slots(session, list(slots))
        for slot, event in held.events.items():
            if event["raw"]["kind"] != records.EMPTY:
                open_channels.discard(slots[slot])
        if not open_channels or one.parent is None:
            break
        one = by_place.get((one.ns, one.parent))
        if one is not None:
            kept[one.ns, one.id] = one
    return kept


def _drop(session: str, slots: Sequence[str], prefixes: Iterable[str], life: str | None) -> Plan[None]:
    """Empty slots, and erase what only they held; all of it in this life of the session."""
    if life is None:
        return
    made = [
        encode({"type": PRUNED, "searchable": False, "slot": list(some), "slot_empty": "drop"})
        for some in (slots[at : at + _SLOTS_PER_EVENT] for at in range(0, len(slots), _SLOTS_PER_EVENT))
    ]
    made += [
        encode({"type": PRUNED, "searchable": False, "slot_prefix": prefix, "slot_empty": "drop"})
        for prefix in prefixes
    ]
    for batch in batches(made):
        yield from requests.append(session, batch, if_={"incarnation": life})
