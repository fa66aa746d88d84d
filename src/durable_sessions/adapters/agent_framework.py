"""History and checkpoints for the Microsoft Agent Framework."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

try:
    from agent_framework import HistoryProvider, Message, WorkflowCheckpoint, WorkflowCheckpointException
    from agent_framework._workflows._checkpoint_encoding import (
        decode_checkpoint_value,
        encode_checkpoint_value,
    )
except ImportError as missing:
    raise ImportError(
        "This needs the Agent Framework: pip install 'durable-sessions[agent-framework]'"
    ) from missing

from durable_sessions.adapters import _names as names
from durable_sessions.adapters import _requests as requests
from durable_sessions.adapters._adapter import Adapter
from durable_sessions.adapters._envelope import (
    BATCH_EVENTS_MAX,
    all_unwrapped,
    encoded,
    unwrapped,
    wrapped,
)
from durable_sessions.adapters._plans import Plan
from durable_sessions.client import AsyncClient, Client, Event
from durable_sessions.client.errors import PreconditionFailedError

MESSAGE, MESSAGES = "agent-framework.message", "agent-framework.messages"
CHECKPOINT, DELETED = "agent-framework.checkpoint", "agent-framework.deleted"
_NO_SESSION = "default"


class DurableHistoryProvider(HistoryProvider, Adapter):  # type: ignore[misc]
    """Keeps the messages of agents: a conversation is the session ``agent-framework:<session_id>``.

    With ``load_messages=False`` it is an audit log, which no agent reads.
    """

    name = "agent-framework"
    package = "agent-framework-core"

    def __init__(
        self,
        client: Client | AsyncClient | None = None,
        *,
        url: str | None = None,
        api_key: str | None = None,
        namespace: str = name,
        source_id: str = "durable_sessions",
        **options: Any,
    ) -> None:
        HistoryProvider.__init__(self, source_id, **options)
        Adapter.__init__(self, client, url=url, api_key=api_key, namespace=namespace)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **_: Any
    ) -> list[Message]:
        """Return the messages of a conversation, the oldest first."""
        return await self._clients.arun(self._get(session_id or _NO_SESSION))

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Add messages to a conversation, all or none."""
        if messages:
            await self._clients.arun(self._save(session_id or _NO_SESSION, messages))

    def _get(self, session_id: str) -> Plan[list[Message]]:
        session = names.session_id(self._namespace, session_id)
        found = yield from requests.events(session, types=[MESSAGE, MESSAGES])
        raws = yield from all_unwrapped(found)
        several = (raw if isinstance(raw, list) else [raw] for raw in raws)
        return [Message.from_dict(raw) for some in several for raw in some]

    def _save(self, session_id: str, messages: Sequence[Message]) -> Plan[None]:
        raws = [message.to_dict() for message in messages]
        if len(raws) <= BATCH_EVENTS_MAX:
            made = [wrapped(MESSAGE, raw) for raw in raws]
        else:  # one event, so that all or none of them are stored
            made = [wrapped(MESSAGES, raws)]
        events = yield from encoded(made)
        session = names.session_id(self._namespace, session_id)
        yield from requests.append(session, events, new=self._metadata(session_id=session_id))


class DurableCheckpointStorage(Adapter):
    """The framework's ``CheckpointStorage``: the checkpoints of workflows of one name are one session.

    Values are encoded as the framework's own file storage does it. What is not of its own types is read only
    if it is named in ``allowed_checkpoint_types``, as ``"module:qualname"``.
    """

    name = "agent-framework"
    package = "agent-framework-core"

    def __init__(
        self,
        client: Client | AsyncClient | None = None,
        *,
        url: str | None = None,
        api_key: str | None = None,
        namespace: str = name,
        allowed_checkpoint_types: Iterable[str] = (),
    ) -> None:
        super().__init__(client, url=url, api_key=api_key, namespace=namespace)
        self._allowed = frozenset(allowed_checkpoint_types)

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Store a checkpoint, in the place of one with the same id, and return its id."""
        return await self._clients.arun(self._save(checkpoint))

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """Return a checkpoint; WorkflowCheckpointException if there is none."""
        return await self._clients.arun(self._load(checkpoint_id))

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Return the checkpoints of a workflow, the oldest first."""
        return await self._clients.arun(self._list(workflow_name))

    async def delete(self, checkpoint_id: str) -> bool:
        """Erase a checkpoint, and say whether there was one."""
        return await self._clients.arun(self._delete(checkpoint_id))

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """Return the checkpoint of a workflow with the latest time, None if it has none."""
        found = await self.list_checkpoints(workflow_name=workflow_name)
        return max(found, key=lambda one: datetime.fromisoformat(one.timestamp), default=None)

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Return the ids of a workflow's checkpoints, the oldest first."""
        return [event["checkpoint_id"] for event in await self._clients.arun(self._held(workflow_name))]

    # Plans ------------------------------------------------------------------------------

    def _save(self, checkpoint: WorkflowCheckpoint) -> Plan[str]:
        raw = encode_checkpoint_value(checkpoint.to_dict())
        decode_checkpoint_value(raw, allowed_types=self._allowed)  # nothing is stored that cannot be read
        event = wrapped(
            CHECKPOINT,
            raw,
            slot=names.slot("c", checkpoint.checkpoint_id),
            searchable=False,
            checkpoint_id=checkpoint.checkpoint_id,
        )
        events = yield from encoded([event])
        new = self._metadata(workflow_name=checkpoint.workflow_name)
        yield from requests.append(self._session(checkpoint.workflow_name), events, new=new)
        return str(checkpoint.checkpoint_id)

    def _load(self, checkpoint_id: str) -> Plan[WorkflowCheckpoint]:
        slot = names.slot("c", checkpoint_id)
        wanted = {"adapter": self.name, "namespace": self._namespace}
        for info in (yield from requests.sessions(holding=slot, metadata=wanted, limit=1)):
            event = (yield from requests.slots(info.id, [slot])).get(slot)
            if event is not None:
                return (yield from self._checkpoint(event))
        raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")

    def _list(self, workflow_name: str) -> Plan[list[WorkflowCheckpoint]]:
        found = []
        for event in (yield from self._held(workflow_name)):
            found.append((yield from self._checkpoint(event)))  # noqa: PERF401 - a comprehension cannot do that
        return found

    def _held(self, workflow_name: str) -> Plan[list[Event]]:
        held = yield from requests.slots(self._session(workflow_name), prefix=names.slot("c", ""))
        return sorted(held.events.values(), key=lambda event: event.position)

    def _delete(self, checkpoint_id: str) -> Plan[bool]:
        slot = names.slot("c", checkpoint_id)
        wanted = {"adapter": self.name, "namespace": self._namespace}
        was_there = False
        for info in (yield from requests.sessions(holding=slot, metadata=wanted)):
            gone = {"type": DELETED, "searchable": False, "slot": slot, "slot_empty": "drop"}
            events = yield from encoded([gone])
            try:
                yield from requests.append(info.id, events, if_={"incarnation": info.incarnation})
            except PreconditionFailedError:
                continue  # the session is gone, and the checkpoint with it
            was_there = True
        return was_there

    def _checkpoint(self, event: Event) -> Plan[WorkflowCheckpoint]:
        raw = yield from unwrapped(event)
        return WorkflowCheckpoint.from_dict(decode_checkpoint_value(raw, allowed_types=self._allowed))

    def _session(self, workflow_name: str) -> str:
        return names.session_id(self._namespace, "workflow", workflow_name)
