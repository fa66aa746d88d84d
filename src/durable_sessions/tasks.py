"""What a long-lived background task needs of whoever keeps it running."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

Run = Callable[[], Coroutine[Any, Any, None]]
"""Begins the work of a task, or begins it again after a failure."""


class Task(Protocol):
    """A background task that was started."""

    def cancel(self) -> None:
        """Let it end soon; it is not restarted."""
        ...

    async def stop(self) -> None:
        """Cancel it and wait until it has ended."""
        ...


class TaskFailure(NamedTuple):
    """A task that failed and has not proven since that it works again."""

    task: str
    error: str
    since_ms: int
    failures: int


class TaskSupervisor(Protocol):
    """Keeps background tasks running; ``restarts`` counts by name how often one had to be begun again."""

    restarts: Mapping[str, int]

    def failures(self) -> Sequence[TaskFailure]:
        """Return the tasks that do not work now, one of each name."""
        ...

    def start(self, name: str, run: Run) -> Task:
        """Run a task until it returns or is stopped; if it raises, run it again after a pause.

        Tasks of one kind share a name: it is a label in metrics.
        """
        ...
