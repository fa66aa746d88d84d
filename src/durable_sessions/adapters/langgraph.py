"""A checkpointer for LangGraph: threads are sessions, and every step of a graph is durable before the next.

``graph = builder.compile(checkpointer=DurableSaver())``. Both faces are real: sync methods use a sync client,
async ones the client of their event loop.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from random import random
from typing import Any, Literal

try:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
except ImportError as missing:
    raise ImportError("This needs LangGraph: pip install 'durable-sessions[langgraph]'") from missing

from durable_sessions.adapters._adapter import Adapter
from durable_sessions.adapters.langgraph_plans import CheckpointConflictError, CheckpointCursor, SaverPlans
from durable_sessions.client import AsyncClient, Client

__all__ = ["CheckpointConflictError", "DurableSaver"]


class DurableSaver(BaseCheckpointSaver[str], Adapter):
    """Keeps checkpoints and pending writes; a thread is the session ``langgraph:<thread_id>``.

    With ``on_conflict="raise"`` a run that was overtaken by another on the same thread gets
    CheckpointConflictError; by default both succeed, and the history forks. A write that comes after its
    thread was deleted is dropped with a warning, or with ``on_deleted="raise"`` raises. With
    ``exclusive=True`` a run has its thread for itself: it wakes the session when it first reads it, and a
    worker that was overtaken is refused before it writes. ``index_text=False`` keeps what nodes write out of
    the search.
    """

    name = "langgraph"
    package = "langgraph-checkpoint"

    def __init__(
        self,
        client: Client | AsyncClient | None = None,
        *,
        url: str | None = None,
        api_key: str | None = None,
        namespace: str = name,
        serde: SerializerProtocol | None = None,
        on_conflict: Literal["fork", "raise"] = "fork",
        on_deleted: Literal["drop", "raise"] = "drop",
        exclusive: bool = False,
        index_text: bool = True,
    ) -> None:
        BaseCheckpointSaver.__init__(self, serde=serde)
        Adapter.__init__(self, client, url=url, api_key=api_key, namespace=namespace)
        self._plans = SaverPlans(
            self._metadata,
            namespace,
            raises_conflicts=on_conflict == "raise",
            raises_deleted=on_deleted == "raise",
            exclusive=exclusive,
            index_text=index_text,
        )

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint with its pending writes: the newest, unless the config names one."""
        return self._clients.run(self._plans.get_tuple(self.serde, config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint with its pending writes: the newest, unless the config names one."""
        return await self._clients.arun(self._plans.get_tuple(self.serde, config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, the newest of each thread first."""
        cursor = CheckpointCursor(config, filter, before, limit)
        while not cursor.done:
            yield from self._clients.run(self._plans.next_page(self.serde, cursor))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, the newest of each thread first."""
        cursor = CheckpointCursor(config, filter, before, limit)
        while not cursor.done:
            for found in await self._clients.arun(self._plans.next_page(self.serde, cursor)):
                yield found

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint with the values that are new in it, all or nothing."""
        return self._clients.run(self._plans.put(self.serde, config, checkpoint, metadata, new_versions))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint with the values that are new in it, all or nothing."""
        return await self._clients.arun(
            self._plans.put(self.serde, config, checkpoint, metadata, new_versions)
        )

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task has written, before the next checkpoint includes it."""
        self._clients.run(self._plans.put_writes(self.serde, config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task has written, before the next checkpoint includes it."""
        await self._clients.arun(self._plans.put_writes(self.serde, config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with everything in it."""
        self._clients.run(self._plans.delete_thread(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread with everything in it."""
        await self._clients.arun(self._plans.delete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Erase the checkpoints and writes of runs."""
        self._clients.run(self._plans.delete_for_runs(self.serde, run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Erase the checkpoints and writes of runs."""
        await self._clients.arun(self._plans.delete_for_runs(self.serde, run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Give a thread the checkpoints of another: as a fork, which costs nothing, if it is new."""
        self._clients.run(self._plans.copy_thread(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Give a thread the checkpoints of another: as a fork, which costs nothing, if it is new."""
        await self._clients.arun(self._plans.copy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Erase all checkpoints but the newest of each namespace and what it rests on, or all of them."""
        self._clients.run(self._plans.prune(self.serde, thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Erase all checkpoints but the newest of each namespace and what it rests on, or all of them."""
        await self._clients.arun(self._plans.prune(self.serde, thread_ids, strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return for each channel the last stored value before a checkpoint, and the writes since."""
        return self._clients.run(self._plans.delta_history(self.serde, config, channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return for each channel the last stored value before a checkpoint, and the writes since."""
        return await self._clients.arun(self._plans.delta_history(self.serde, config, channels))

    def get_next_version(self, current: str | int | None, channel: None) -> str:
        """Return a version behind the current one, which no other process gives out as well."""
        number = 0 if current is None else int(str(current).partition(".")[0])
        return f"{number + 1:032}.{random():016}"
