"""A tool call in progress, for programs with an event loop."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from durable_sessions.client import artifact
from durable_sessions.client.errors import ClientError
from durable_sessions.client.tool_record import DIFF_TYPE, ToolRecord

if TYPE_CHECKING:
    from durable_sessions.client.async_work import AsyncWork


class AsyncWorkCall:
    """A call that the session knows before the tool runs, and whose result it knows afterwards.

    As a context manager it appends the call, and at the end a result, if the block has given none: an empty
    one, or what it raised. A process that dies inside leaves the call open, and the next worker is told.
    """

    def __init__(self, work: "AsyncWork", record: ToolRecord) -> None:
        self._work = work
        self._record = record
        self._has_result = False

    @property
    def id(self) -> str:
        """The id of the call, for refs to it."""
        return self._record.id

    async def __aenter__(self) -> "AsyncWorkCall":
        if self._record.is_new:
            await self._work.append(self._record.call())
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._has_result:
            return
        if error is None:
            await self.result("")
        elif isinstance(error, Exception) and not isinstance(error, ClientError):
            await self._work.append(self._record.failure(error))

    async def run(self, tool: Callable[..., Awaitable[str]], *args: Any, **kwargs: Any) -> str:
        """Run the tool, append what it returns as the result, and return that.

        In a replay the tool is not run: this returns what was recorded, or raises RecordedFailureError.
        """
        if self._record.recorded is not None:
            return self._record.replayed()
        said = await tool(*args, **kwargs)
        await self.result(said)
        return said

    async def result(
        self,
        content: str | Iterable[Mapping[str, Any]],
        *,
        is_error: bool = False,
        effects: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """Append the result, a text or blocks. ``effects`` say what it changed, each by kind and target."""
        await self._work.append(self._record.result(content, effects, is_error=is_error))
        self._has_result = True

    async def diff(self, patch: str | bytes, *, name: str = "changes.patch") -> str:
        """Store what the call changed as an artifact of the session, and return its SHA-256."""
        data = patch.encode() if isinstance(patch, str) else patch
        stored = await self._work._store(artifact.put(data, DIFF_TYPE))
        await self._work.append(self._record.attached(stored, name))
        return stored
