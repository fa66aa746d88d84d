"""Restores the streams of damaged checkpoints."""

import sqlite3
from collections import Counter
from pathlib import Path

import msgspec

from durable_sessions.streams.stream import Key, Stream
from durable_sessions.tier import stream_codec
from durable_sessions.tools.repair.plan import Plan
from durable_sessions.tools.verify.catalog import about, copied
from durable_sessions.tools.verify.inventory import Inventory
from durable_sessions.tools.verify.segments import CheckedSegment


def restore_from_catalog(inventory: Inventory, catalog: Path, folder: Path, manifest: int) -> int | None:
    """Restore all streams from an intact catalog of this manifest.

    Return up to which position the log was flushed then, None if there is no such catalog.
    """
    if not catalog.exists():
        return None
    try:
        copy = copied(catalog, folder)
        number, flushed_through = about(copy)
        if number != manifest:
            return None
        connection = sqlite3.connect(copy)
        try:
            if connection.execute("pragma integrity_check").fetchone() != ("ok",):
                return None
            states = connection.execute("select state from streams").fetchall()
        finally:
            connection.close()
        streams = [stream_codec.decode(state) for (state,) in states]
    except (sqlite3.DatabaseError, msgspec.MsgspecError, ValueError):
        return None
    inventory.forget_streams()
    inventory.put(streams)
    return flushed_through


def restore_from_rows(inventory: Inventory, segments: list[CheckedSegment]) -> list[Stream]:
    """Add every stream with records in segments to the inventory; return those that were unknown.

    Only what rows say about a stream is restored: its names, its content type and its end.
    """
    restored: list[Stream] = []
    for checked in segments:
        for number, names in checked.names.items():
            runs = checked.good_runs(number)
            stream = inventory.load_id(number)
            if not runs or (stream is None and inventory.was_removed(number)):
                continue
            if stream is None:
                there = inventory.load(Key(names.workspace, names.path))
                if there is not None and there.id > number:
                    continue  # removed, and its path was reused
                inventory.remove([] if there is None else [there.id])
                stream = _stream(number, checked)
                restored.append(stream)
            if stream.tail < runs[-1][1]:
                stream.tail = runs[-1][1]
                inventory.put([stream])
    return restored


def _stream(number: int, checked: CheckedSegment) -> Stream:
    names, info = checked.names[number], checked.info
    return Stream(
        id=number,
        key=Key(names.workspace, names.path),
        content_type=names.content_type,
        tail=0,
        ttl_seconds=None,
        expires_at_ms=None,
        created_at_ms=info.first_at_ms,
        accessed_at_ms=info.last_at_ms,
        recorded_at_ms=info.last_at_ms,
        changed_at_ms=info.last_at_ms,
    )


def settle_paths(inventory: Inventory, plan: Plan) -> bool:
    """Leave only the newest stream at each path; say whether any path had several.

    A path is reused only after its stream was removed, so it is that removal that was lost.
    """
    shared = inventory.shared_paths()
    for *older, newest in shared:
        for number in older:
            plan.act(
                f"stream {number}", f"its path was used again by stream {newest}, so it had been removed"
            )
        inventory.remove(older)
    return bool(shared)


def settle_forks(inventory: Inventory, plan: Plan) -> bool:
    """Make forks and their sources consistent; say whether any was not.

    A fork whose source is lost becomes independent, and a source is extended to where its forks begin.
    """
    changed: dict[int, Stream] = {}
    forks: Counter[int] = Counter()
    for stream, _ in inventory.streams():
        if stream.parent is None:
            continue
        parent = changed.get(stream.parent) or inventory.load_id(stream.parent)
        if parent is None:
            plan.act(
                f"stream {stream.id}", f"its source, stream {stream.parent}, is lost; it stands alone now"
            )
            alone = changed.setdefault(stream.id, stream)
            alone.parent, alone.base, alone.fork_at_tail = None, 0, False
            continue
        forks[parent.id] += 1
        if parent.tail < stream.base:
            plan.act(
                f"stream {parent.id}", f"it reaches to {stream.base}, where stream {stream.id} was forked"
            )
            parent.tail = stream.base
            changed[parent.id] = parent
    for stream, _ in inventory.streams():
        if stream.forks != forks[stream.id]:
            plan.act(f"stream {stream.id}", f"it has {forks[stream.id]} forks, not {stream.forks}")
            changed.setdefault(stream.id, stream).forks = forks[stream.id]
    inventory.put(changed.values())
    return bool(changed)
