"""Checkpoints, values and writes of LangGraph as events, and the slots that find them again.

``c/<ns>/<checkpoint>`` is a checkpoint without its values, ``b/<ns>/<channel>/<version>`` a value, stored
once per version, and ``w/<ns>/<checkpoint>/<task>/<index>`` a pending write. Checkpoint ids sort by time,
so the newest checkpoint is the last slot of its namespace.
"""

import base64
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from durable_sessions.adapters import _names as names
from durable_sessions.adapters._envelope import BATCH_EVENTS_MAX, wrapped
from durable_sessions.adapters._plans import Plan
from durable_sessions.adapters._requests import get_artifact, put_artifact
from durable_sessions.client import Event

CHECKPOINT, BLOB, WRITE = "langgraph.checkpoint", "langgraph.blob", "langgraph.write"
EMPTY = "empty"
_INLINE_BYTES_MAX = 700_000
_TEXT_CHARACTERS_MAX = 32 * 1024
_TEXT_DEPTH_MAX = 20


def checkpoints_of(ns: str) -> str:
    """Return the prefix of the slots of a namespace's checkpoints."""
    return names.slot("c", ns, "")


def checkpoint_slot(ns: str, checkpoint_id: str) -> str:
    """Return the slot of a checkpoint."""
    return names.slot("c", ns, checkpoint_id)


def blob_slots(ns: str, versions: Mapping[str, Any]) -> dict[str, str]:
    """Return the channels of a checkpoint by the slots of their values."""
    return {names.slot("b", ns, channel, str(version)): channel for channel, version in versions.items()}


def writes_of(ns: str, checkpoint_id: str) -> str:
    """Return the prefix of the slots of a checkpoint's pending writes."""
    return names.slot("w", ns, checkpoint_id, "")


def head_slot(ns: str) -> str:
    """Return the slot of the checkpoint that was put last."""
    return names.slot("head", ns)


def run_slot(run_id: str) -> str:
    """Return the slot by which the sessions of a run are found."""
    return names.slot("run", run_id)


def packed(serde: SerializerProtocol, value: Any) -> Plan[dict[str, Any]]:
    """Return a value as the serializer writes it, in base64; a large one is an artifact."""
    kind, data = serde.dumps_typed(value)
    if len(data) > _INLINE_BYTES_MAX:
        stored = yield from put_artifact(data, "application/octet-stream")
        return {"type": "artifact", "kind": kind, "sha256": stored.sha256, "bytes": stored.size}
    return {"type": "base64", "kind": kind, "data": base64.b64encode(data).decode()}


def unpacked(serde: SerializerProtocol, payload: Mapping[str, Any]) -> Plan[Any]:
    """Return the value of a payload."""
    if payload["type"] == "artifact":
        data = yield from get_artifact(payload["sha256"])
    else:
        data = base64.b64decode(payload["data"])
    return serde.loads_typed((payload["kind"], data))


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint as it was read, without its values."""

    ns: str
    id: str
    parent: str | None
    checkpoint: dict[str, Any]
    metadata: dict[str, Any]
    event_id: str

    @property
    def blobs(self) -> dict[str, str]:
        """The channels by the slots of their values."""
        return blob_slots(self.ns, self.checkpoint["channel_versions"])


def stored_checkpoint(serde: SerializerProtocol, event: Event) -> Plan[StoredCheckpoint]:
    """Return the checkpoint in an event."""
    raw = event["raw"]
    checkpoint = yield from unpacked(serde, raw["checkpoint"])
    metadata = yield from unpacked(serde, raw["metadata"])
    return StoredCheckpoint(
        event["ns"], event["checkpoint_id"], event.get("parent_id"), checkpoint, metadata, event.id
    )


def checkpoint_event(
    serde: SerializerProtocol, ns: str, checkpoint: Mapping[str, Any], metadata: Any, parent: str | None
) -> Plan[dict[str, Any]]:
    """Return a checkpoint as an event, which also is the head of its namespace and of its run."""
    rest = {name: value for name, value in checkpoint.items() if name != "channel_values"}
    packed_rest = yield from packed(serde, rest)
    packed_metadata = yield from packed(serde, metadata)
    slots = [checkpoint_slot(ns, checkpoint["id"]), head_slot(ns)]
    run_id = metadata.get("run_id")
    if isinstance(run_id, str) and run_id:
        slots.append(run_slot(run_id))
    return wrapped(
        CHECKPOINT,
        {"checkpoint": packed_rest, "metadata": packed_metadata},
        id=f"lc_{secrets.token_hex(20)}",
        slot=slots,
        searchable=False,
        ns=ns,
        checkpoint_id=checkpoint["id"],
        parent_id=parent,
        run_id=run_id if isinstance(run_id, str) else None,
        step=metadata.get("step") if isinstance(metadata.get("step"), int) else None,
    )


def blob_events(
    serde: SerializerProtocol, ns: str, values: Mapping[str, Any], new_versions: Mapping[str, Any]
) -> Plan[list[dict[str, Any]]]:
    """Return the values of new versions as events; a version without a value says so."""
    made = []
    for slot, channel in blob_slots(ns, new_versions).items():
        if channel in values:
            payload = yield from packed(serde, values[channel])
        else:
            payload = {"type": "base64", "kind": EMPTY, "data": ""}
        made.append(wrapped(BLOB, payload, slot=slot, searchable=False, channel=channel))
    return made


def write_events(
    serde: SerializerProtocol,
    ns: str,
    checkpoint_id: str,
    writes: Sequence[tuple[str, Any]],
    task: tuple[str, str],
    *,
    index_text: bool,
) -> Plan[list[dict[str, Any]]]:
    """Return what a task has written as events: of an ordinary write the first counts, else the last."""
    task_id, task_path = task
    # More than one request takes: readers pass over them until all are there.
    is_large = len(writes) > BATCH_EVENTS_MAX
    ordinary = sum(channel not in WRITES_IDX_MAP for channel, _ in writes) if is_large else None
    searchable = index_text and not isinstance(serde, EncryptedSerializer)
    made = []
    for number, (channel, value) in enumerate(writes):
        index = WRITES_IDX_MAP.get(channel, number)
        slot = names.slot("w", ns, checkpoint_id, task_id, str(index))
        payload = yield from packed(serde, value)
        text = "\n".join(_texts(value))[:_TEXT_CHARACTERS_MAX] if searchable else ""
        made.append(
            wrapped(
                WRITE,
                payload,
                id=names.event_id("lw", slot) if index >= 0 else None,
                slot=slot,
                searchable=None if text else False,
                text=text or None,
                channel=channel,
                task_id=task_id,
                task_path=task_path,
                index=index,
                of=ordinary,
            )
        )
    return made


def ordered(events: Iterable[Event]) -> list[Event]:
    """Return writes in the order in which a running graph applies them; no call that is half stored."""
    listed = list(events)
    if any("of" in event for event in listed):
        stored = Counter(event["task_id"] for event in listed if event["index"] >= 0)
        listed = [event for event in listed if stored[event["task_id"]] >= event.get("of", 0)]
    return sorted(listed, key=lambda event: (event["task_path"], event["task_id"], event["index"]))


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield the texts in what a node has written: its messages, above all."""
    if isinstance(value, str):
        if value:
            yield value
    elif depth >= _TEXT_DEPTH_MAX:
        return
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner, depth + 1)
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from _texts(inner, depth + 1)
    elif hasattr(value, "content"):  # a message of LangChain
        yield from _texts(value.content, depth + 1)
        yield from _texts([(call.get("name"), call.get("args")) for call in _calls(value)], depth + 1)


def _calls(message: Any) -> list[Mapping[str, Any]]:
    calls = getattr(message, "tool_calls", None)
    return [call for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
