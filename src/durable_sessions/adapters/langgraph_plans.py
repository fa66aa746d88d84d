"""What the LangGraph checkpointer asks of the server."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from durable_sessions.adapters import _names as names
from durable_sessions.adapters import _requests as requests
from durable_sessions.adapters import langgraph_records as records
from durable_sessions.adapters import langgraph_upkeep as upkeep
from durable_sessions.adapters._envelope import batches, encoded
from durable_sessions.adapters._plans import Plan
from durable_sessions.adapters._requests import HeldSlots
from durable_sessions.adapters.langgraph_records import StoredCheckpoint
from durable_sessions.client import Appended, Event
from durable_sessions.client.errors import (
    PreconditionFailedError,
    SessionLeaseLostError,
    SessionReplacedError,
)

PAGE = 50
_WRITES_PAGE = 1_000
_REMEMBERED_MAX = 10_000
K = TypeVar("K")
V = TypeVar("V")
_log = logging.getLogger("durable_sessions.adapters.langgraph")


class CheckpointConflictError(Exception):
    """Another run has put a checkpoint on the thread since this one has read it."""

    def __init__(self, thread_id: str, read: str | None, found: str | None) -> None:
        super().__init__(
            f"Thread {thread_id} was continued by another run: this one has read the checkpoint {read}, "
            f"and the last one is {found} now. Read the thread again."
        )
        self.thread_id = thread_id
        self.read = read
        self.found = found


class CheckpointCursor:
    """How far a list of checkpoints has come."""

    def __init__(
        self,
        config: RunnableConfig | None,
        wanted: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> None:
        configurable = {} if config is None else config["configurable"]
        self.wanted = wanted or {}
        self.ns: str | None = configurable.get("checkpoint_ns")
        self.checkpoint_id = None if config is None else get_checkpoint_id(config)
        self.before = None if before is None else get_checkpoint_id(before)
        self.left = limit
        self.threads: list[str] | None = None if config is None else [str(configurable["thread_id"])]
        self.after: str | None = None

    @property
    def done(self) -> bool:
        """Whether there is nothing more to list."""
        return self.threads == [] or (self.left is not None and self.left <= 0)


class SaverPlans:
    """The plans of one saver, and what it remembers of threads: which lives of them it has seen."""

    def __init__(
        self,
        described: Callable[..., Mapping[str, Any]],
        namespace: str,
        *,
        raises_conflicts: bool,
        raises_deleted: bool,
        exclusive: bool,
        index_text: bool,
    ) -> None:
        self._described = described
        self._namespace = namespace
        self._raises_conflicts = raises_conflicts
        self._raises_deleted = raises_deleted
        self._exclusive = exclusive
        self._index_text = index_text
        self._epochs: OrderedDict[str, int] = OrderedDict()
        self._lives: OrderedDict[str, str] = OrderedDict()
        self._heads: OrderedDict[tuple[str, str], tuple[str | None, str | None]] = OrderedDict()

    # Reading ----------------------------------------------------------------------------

    def get_tuple(self, serde: SerializerProtocol, config: RunnableConfig) -> Plan[CheckpointTuple | None]:
        """Return a checkpoint: the newest of its namespace, unless one is named."""
        thread_id, ns = _place(config)
        session = self._session(thread_id)
        head = [records.head_slot(ns)] if self._raises_conflicts else []
        checkpoint_id = get_checkpoint_id(config)
        if self._exclusive and not ns and not checkpoint_id:  # so a run begins
            described = self._described(thread_id=thread_id)
            _note(self._epochs, session, (yield from requests.wake(session, described)))
        if checkpoint_id:
            slot = records.checkpoint_slot(ns, checkpoint_id)
            held = yield from requests.slots(session, [slot, *head])
            event = held.get(slot)
        else:
            prefix = records.checkpoints_of(ns)
            held = yield from requests.slots(session, head, prefix=prefix, order="desc", limit=1 + len(head))
            event = next((one for name, one in held.events.items() if name.startswith(prefix)), None)
        self._seen(session, held, ns)
        if event is None:
            return None
        stored = yield from records.stored_checkpoint(serde, event)
        [found] = yield from self._with_values(serde, thread_id, [stored])
        return found

    def next_page(self, serde: SerializerProtocol, cursor: CheckpointCursor) -> Plan[list[CheckpointTuple]]:
        """Return the next checkpoints of a list, and move its cursor behind them."""
        if cursor.threads is None:
            wanted = {"adapter": "langgraph", "namespace": self._namespace}
            found = yield from requests.sessions(metadata=wanted)
            cursor.threads = [info.metadata["thread_id"] for info in found]
            return []
        thread_id = cursor.threads[0]
        session = self._session(thread_id)
        if cursor.checkpoint_id and cursor.ns is not None:
            slot = records.checkpoint_slot(cursor.ns, cursor.checkpoint_id)
            held = yield from requests.slots(session, [slot])
        else:
            prefix = "c/" if cursor.ns is None else records.checkpoints_of(cursor.ns)
            if cursor.after is None and cursor.before is not None and cursor.ns is not None:
                cursor.after = records.checkpoint_slot(cursor.ns, cursor.before)
            held = yield from requests.slots(
                session, prefix=prefix, order="desc", limit=PAGE, after=cursor.after
            )
        cursor.after = next(reversed(held.events), None) if len(held.events) >= PAGE else None
        if cursor.after is None:
            cursor.threads = cursor.threads[1:]
        chosen = []
        for event in held.events.values():
            stored = yield from records.stored_checkpoint(serde, event)
            if _matches(stored, cursor):
                chosen.append(stored)
        if cursor.left is not None:
            chosen = chosen[: cursor.left]
            cursor.left -= len(chosen)
        return (yield from self._with_values(serde, thread_id, chosen))

    def delta_history(
        self, serde: SerializerProtocol, config: RunnableConfig, channels: Sequence[str]
    ) -> Plan[dict[str, DeltaChannelHistory]]:
        """Return for each channel the nearest stored value among the ancestors, and the writes since."""
        thread_id, ns = _place(config)
        session = self._session(thread_id)
        writes: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}
        seeds: dict[str, Any] = {}
        walk = AncestorWalk(session, ns)
        target = yield from walk.target(serde, get_checkpoint_id(config)) if channels else _nothing()
        parent = None if target is None else target.parent
        while parent is not None and len(seeds) < len(writes):
            chain = yield from walk.ancestors(serde, parent)
            if not chain:
                break
            left = {channel for channel in writes if channel not in seeds}
            slots = {slot: channel for one in chain for slot, channel in one.blobs.items() if channel in left}
            values = yield from requests.slots(session, list(slots))
            pending = yield from _writes_between(session, ns, chain)
            for one in chain:
                for event in reversed(records.ordered(pending.get(one.id, ()))):
                    if (channel := event["channel"]) in left:
                        value = yield from records.unpacked(serde, event["raw"])
                        writes[channel].append((event["task_id"], channel, value))
                for slot, channel in one.blobs.items():
                    held = values.get(slot)
                    if channel in left and held is not None and held["raw"]["kind"] != records.EMPTY:
                        seeds[channel] = yield from records.unpacked(serde, held["raw"])
                        left.discard(channel)
            parent = chain[-1].parent
        made: dict[str, DeltaChannelHistory] = {}
        for channel, newest_first in writes.items():
            made[channel] = {"writes": newest_first[::-1]}
            if channel in seeds:
                made[channel]["seed"] = seeds[channel]
        return made

    def _with_values(
        self, serde: SerializerProtocol, thread_id: str, chosen: Sequence[StoredCheckpoint]
    ) -> Plan[list[CheckpointTuple]]:
        """Return checkpoints with their values and writes: one request for a single one."""
        session = self._session(thread_id)
        slots = list(dict.fromkeys(slot for one in chosen for slot in one.blobs))
        pending: Mapping[str, list[Event]] = {}
        if len(chosen) == 1:
            [one] = chosen
            prefix = records.writes_of(one.ns, one.id)
            held = yield from requests.slots(session, slots, prefix=prefix)
            pending = {one.ns + "/" + one.id: [e for n, e in held.events.items() if n.startswith(prefix)]}
        else:
            held = yield from requests.slots(session, slots)
            found: dict[str, list[Event]] = {}
            for ns in {one.ns for one in chosen}:
                of_ns = yield from _writes_between(session, ns, [one for one in chosen if one.ns == ns])
                found.update((ns + "/" + checkpoint_id, events) for checkpoint_id, events in of_ns.items())
            pending = found
        return (yield from _tuples(serde, thread_id, chosen, held, pending))

    # Writing ----------------------------------------------------------------------------

    def put(
        self,
        serde: SerializerProtocol,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: Mapping[str, Any],
    ) -> Plan[RunnableConfig]:
        """Store the values of new versions, and then the checkpoint that names them."""
        thread_id, ns = _place(config)
        session = self._session(thread_id)
        said = get_checkpoint_metadata(config, metadata)
        blobs = yield from records.blob_events(serde, ns, checkpoint["channel_values"], new_versions)
        head = yield from records.checkpoint_event(serde, ns, checkpoint, said, get_checkpoint_id(config))
        condition = {}
        if self._raises_conflicts and (session, ns) in self._heads:
            condition = {"slots": {records.head_slot(ns): self._heads[session, ns][0]}}
        try:
            stored = yield from self._append(session, thread_id, [*blobs, head], condition)
        except PreconditionFailedError as refused:
            if not condition:
                raise
            read = self._heads.pop((session, ns))[1]
            head_now = (yield from requests.slots(session, [records.head_slot(ns)])).get(
                records.head_slot(ns)
            )
            found = None if head_now is None else head_now["checkpoint_id"]
            raise CheckpointConflictError(thread_id, read, found) from refused
        if stored:
            self._note_head(session, ns, head["id"], checkpoint["id"])
        return _config(thread_id, ns, checkpoint["id"])

    def put_writes(
        self,
        serde: SerializerProtocol,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> Plan[None]:
        """Store pending writes of a checkpoint, which need not be there yet."""
        if not writes:
            return
        thread_id, ns = _place(config)
        checkpoint_id = str(config["configurable"]["checkpoint_id"])
        events = yield from records.write_events(
            serde, ns, checkpoint_id, writes, (task_id, task_path), index_text=self._index_text
        )
        yield from self._append(self._session(thread_id), thread_id, events, {})

    def _append(
        self, session: str, thread_id: str, events: Sequence[dict[str, Any]], condition: dict[str, Any]
    ) -> Plan[bool]:
        """Append to the life of a thread that was seen last; say whether it was still there."""
        life = self._lives.get(session)
        if life is not None:
            condition = {**condition, "incarnation": life}
        new = self._described(thread_id=thread_id)
        try:
            for batch in batches((yield from encoded(events))):
                appended = yield from self._append_batch(session, batch, condition or None, new)
                condition = {"incarnation": appended.incarnation}
                self._note_life(session, appended.incarnation)
        except (PreconditionFailedError, SessionReplacedError) as refused:
            found = refused.details
            is_gone = found.get("exists") is False or found.get("incarnation", life) != life
            if self._raises_deleted or not (is_gone or isinstance(refused, SessionReplacedError)):
                raise
            _log.warning("adapter=langgraph: thread %s was deleted; a late write to it is dropped", thread_id)
            return False
        return True

    def _append_batch(
        self,
        session: str,
        batch: Sequence[bytes],
        condition: Mapping[str, Any] | None,
        new: Mapping[str, Any],
    ) -> Plan[Appended]:
        while True:
            epoch = self._epochs.get(session)
            try:
                return (yield from requests.append(session, batch, if_=condition, new=new, epoch=epoch))
            except SessionLeaseLostError:
                if self._epochs.get(session) == epoch:
                    raise  # else this saver itself has woken the session once more, for a run or a look at it

    # Upkeep -----------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> Plan[None]:
        """Delete a thread; what comes late for it is dropped."""
        self._epochs.pop(self._session(thread_id), None)
        yield from requests.delete(self._session(thread_id))

    def delete_for_runs(self, serde: SerializerProtocol, run_ids: Sequence[str]) -> Plan[None]:
        """Erase runs from all threads that they have touched."""
        for run_id in run_ids:
            found = yield from requests.sessions(
                holding=records.run_slot(run_id), metadata={"namespace": self._namespace}
            )
            for info in found:
                yield from upkeep.erase_run(info.id, run_id)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> Plan[None]:
        """Fork a thread, or complete one that exists by what it lacks of another."""
        described = self._described(thread_id=target_thread_id)
        yield from upkeep.copy(
            self._session(source_thread_id), self._session(target_thread_id), described["metadata"]
        )

    def prune(self, serde: SerializerProtocol, thread_ids: Sequence[str], strategy: str) -> Plan[None]:
        """Erase what no newest checkpoint rests on."""
        if isinstance(thread_ids, str):
            raise TypeError("Give a list of thread ids, not one id.")
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"{strategy!r} is no strategy; there are 'keep_latest' and 'delete'.")
        for thread_id in thread_ids:
            if strategy == "delete":
                yield from self.delete_thread(thread_id)
            else:
                yield from upkeep.keep_latest(serde, self._session(thread_id))

    # What is remembered -----------------------------------------------------------------

    def _session(self, thread_id: str) -> str:
        return names.session_id(self._namespace, thread_id)

    def _seen(self, session: str, held: HeldSlots, ns: str) -> None:
        """Note which life of a thread was read; one that is not there may begin anew."""
        self._note_life(session, held.incarnation)
        if self._raises_conflicts:
            head = held.get(records.head_slot(ns))
            if head is None:
                self._note_head(session, ns, None, None)
            else:
                self._note_head(session, ns, head.id, head["checkpoint_id"])

    def _note_life(self, session: str, incarnation: str | None) -> None:
        if incarnation is None:
            self._lives.pop(session, None)
            return
        _note(self._lives, session, incarnation)

    def _note_head(self, session: str, ns: str, event_id: str | None, checkpoint_id: str | None) -> None:
        _note(self._heads, (session, ns), (event_id, checkpoint_id))


class AncestorWalk:
    """Walks from a checkpoint to its ancestors, which mostly lie side by side."""

    def __init__(self, session: str, ns: str) -> None:
        self._session = session
        self._ns = ns

    def target(self, serde: SerializerProtocol, checkpoint_id: str | None) -> Plan[StoredCheckpoint | None]:
        """Return a checkpoint, the newest if none is named."""
        if checkpoint_id:
            slots = [records.checkpoint_slot(self._ns, checkpoint_id)]
            held = yield from requests.slots(self._session, slots)
        else:
            prefix = records.checkpoints_of(self._ns)
            held = yield from requests.slots(self._session, prefix=prefix, order="desc", limit=1)
        for event in held.events.values():
            return (yield from records.stored_checkpoint(serde, event))
        return None

    def ancestors(self, serde: SerializerProtocol, checkpoint_id: str) -> Plan[list[StoredCheckpoint]]:
        """Return a checkpoint and those of its ancestors that lie close to it, the nearest first."""
        behind = records.checkpoint_slot(self._ns, checkpoint_id) + "~"  # so that it is the first of the page
        prefix = records.checkpoints_of(self._ns)
        held = yield from requests.slots(self._session, prefix=prefix, order="desc", limit=PAGE, after=behind)
        chain: list[StoredCheckpoint] = []
        following: str | None = checkpoint_id
        while following is not None:
            event = held.get(records.checkpoint_slot(self._ns, following))
            if event is None:
                break
            chain.append((yield from records.stored_checkpoint(serde, event)))
            following = chain[-1].parent
        return chain


def _note(noted: OrderedDict[K, V], name: K, value: V) -> None:
    noted[name] = value
    noted.move_to_end(name)
    if len(noted) > _REMEMBERED_MAX:
        noted.popitem(last=False)


def _nothing() -> Plan[None]:
    return
    yield


def _writes_between(
    session: str, ns: str, chosen: Sequence[StoredCheckpoint]
) -> Plan[dict[str, list[Event]]]:
    """Return the writes of checkpoints by their ids. Their slots lie side by side, as the ids do."""
    wanted = {records.writes_of(ns, one.id): one.id for one in chosen}
    found: dict[str, list[Event]] = {}
    if not wanted:
        return found
    after: str | None = min(wanted)
    last = max(wanted) + "\x7f"
    while after is not None and after <= last:
        held = yield from requests.slots(
            session, prefix=names.slot("w", ns, ""), limit=_WRITES_PAGE, after=after
        )
        for name, event in held.events.items():
            checkpoint_id = wanted.get(name.rpartition("/")[0].rpartition("/")[0] + "/")
            if checkpoint_id is not None:
                found.setdefault(checkpoint_id, []).append(event)
        after = next(reversed(held.events), None) if len(held.events) >= _WRITES_PAGE else None
    return found


def _tuples(
    serde: SerializerProtocol,
    thread_id: str,
    chosen: Sequence[StoredCheckpoint],
    held: HeldSlots,
    pending: Mapping[str, list[Event]],
) -> Plan[list[CheckpointTuple]]:
    made = []
    for one in chosen:
        values: dict[str, Any] = {}
        for slot, channel in one.blobs.items():
            event = held.get(slot)
            if event is not None and event["raw"]["kind"] != records.EMPTY:
                values[channel] = yield from records.unpacked(serde, event["raw"])
        writes = []
        for event in records.ordered(pending.get(one.ns + "/" + one.id, ())):
            value = yield from records.unpacked(serde, event["raw"])
            writes.append((event["task_id"], event["channel"], value))
        made.append(
            CheckpointTuple(
                _config(thread_id, one.ns, one.id),
                {**one.checkpoint, "channel_values": values},  # type: ignore[typeddict-item]
                one.metadata,  # type: ignore[arg-type]
                _config(thread_id, one.ns, one.parent) if one.parent else None,
                writes,
            )
        )
    return made


def _matches(stored: StoredCheckpoint, cursor: CheckpointCursor) -> bool:
    if cursor.checkpoint_id and stored.id != cursor.checkpoint_id:
        return False
    if cursor.before and stored.id >= cursor.before:
        return False
    return all(stored.metadata.get(name) == value for name, value in cursor.wanted.items())


def _place(config: RunnableConfig) -> tuple[str, str]:
    configurable = config["configurable"]
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns", "")


def _config(thread_id: str, ns: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}
