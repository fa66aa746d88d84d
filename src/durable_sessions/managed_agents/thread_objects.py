"""Thread objects as clients see them; each contains its agent, which many threads share."""

from typing import Annotated, Any, Literal

import msgspec

from durable_sessions.managed_agents import callable_agents
from durable_sessions.schema_notes import Time, about, ref
from durable_sessions.sessions import record, summary, threads
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.threads import Thread
from durable_sessions.sessions.view import UNKNOWN_AGENT
from durable_sessions.storage.door import StreamView
from durable_sessions.times import rfc3339


class ThreadObject(msgspec.Struct):
    """A thread as clients see it."""

    id: str
    type: Literal["session_thread"]
    session_id: str
    agent: Annotated[msgspec.Raw, about(**ref("AgentSnapshot"))]
    status: Annotated[str, about(enum=list(summary.STATUSES))]
    parent_thread_id: Annotated[str | None, about("Null of the primary thread.")]
    created_at: Time
    updated_at: Time
    archived_at: Time | None
    stats: Any
    usage: Any
    workflow_run_id: Any


class ThreadObjects:
    """The threads of a session as they are now; each object is encoded on demand."""

    def __init__(self, durable: StreamView) -> None:
        attributes = durable.attributes
        created_ms = durable.stream.created_at_ms
        self._session = session_of(durable.stream.key)
        self._said = record.of(attributes)
        self._primary = threads.primary(self._session)
        root = Thread(
            created_at_ms=created_ms,
            updated_at_ms=max(durable.changed_ms, created_ms),
            status=summary.of(attributes).status,
            archived_at_ms=record.archived_at_ms(attributes),
        )
        self._threads = {self._primary: root} | {
            name: thread for name, thread in threads.of(attributes).items() if name != self._primary
        }
        self._agents: dict[str | None, msgspec.Raw] = {}
        self._known: dict[str, dict[str, Any]] | None = None

    def names(self) -> list[str]:
        """Return the ids of the threads, the primary one first."""
        return list(self._threads)

    def status(self, name: str) -> str:
        """Return the status of a thread."""
        return self._threads[name].status

    def find(self, name: str) -> bytes | None:
        """Return a thread as clients see it, None if there is none."""
        return self.encoded(name) if name in self._threads else None

    def encoded(self, name: str) -> bytes:
        """Return a thread as clients see it."""
        thread = self._threads[name]
        parent = None if name == self._primary else thread.parent or self._primary
        return msgspec.json.encode(
            ThreadObject(
                id=name,
                type="session_thread",
                session_id=self._session,
                agent=self._agent(thread.agent_name),
                status=thread.status,
                parent_thread_id=parent,
                created_at=rfc3339(thread.created_at_ms),
                updated_at=rfc3339(thread.updated_at_ms),
                archived_at=None if thread.archived_at_ms is None else rfc3339(thread.archived_at_ms),
                # Only whoever runs the agents knows these; they are here because clients expect the members.
                stats=None,
                usage=None,
                workflow_run_id=None,
            )
        )

    def _agent(self, name: str | None) -> msgspec.Raw:
        """Return an agent by name: the session's own, one that it may call, or one with only a name."""
        if name not in self._agents:
            if self._known is None:
                self._known = self._roster()
            agent = self._known.get(name or "", None)
            if agent is None:
                agent = {**UNKNOWN_AGENT, "name": name}
            shown = {key: value for key, value in agent.items() if key != "multiagent"}
            self._agents[name] = msgspec.Raw(msgspec.json.encode(shown))
        return self._agents[name]

    def _roster(self) -> dict[str, dict[str, Any]]:
        """Return the agents of threads by name; the session's own is also that of threads without a name."""
        own = UNKNOWN_AGENT if self._said.agent == record.NULL else msgspec.json.decode(self._said.agent)
        roster = own.get("multiagent")
        called = [] if roster is None else callable_agents.entries(roster)
        return {**{entry.get("name", ""): entry for entry in called}, own["name"]: own, "": own}
