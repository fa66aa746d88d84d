"""One run of the simulated process: it can die at any fault point, and then none of its code continues."""

import asyncio
import re
from collections.abc import Callable
from contextvars import ContextVar, copy_context

CHANGING = re.compile(
    r"(before|after) (log\.(create|write|truncate|sync|sync_directory|unlink)|bucket\.(create|put|delete) .*"
    r"|catalog\.apply)"
)


class Crash(BaseException):
    """The process has died. Raised where its code was at that moment, and never caught by it."""


class Life:
    """Everything that dies together. Code that belongs to it runs in its ``context``.

    A *fault point* is the moment just before or just after something outside is changed: an operation on
    the disk, a call of the bucket, a job of the catalog. ``die_at_point`` and ``die_at_step`` say at which
    point, or after which step of the event loop, the process dies, counted from 1; ``die_at_name`` counts
    the points of one name.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self.dead = False
        self.points = 0
        self.steps = 0
        self.die_at_point: int | None = None
        self.die_at_step: int | None = None
        self.die_at_name: tuple[str, int] | None = None
        self.tasks: list[asyncio.Task[object]] = []
        self.context = copy_context()
        self.context.run(LIFE.set, self)
        self.reached: list[str] = []
        self._note = note
        self._watchers: list[asyncio.Future[None]] = []

    def reach(self, point: str) -> None:
        """Pass a fault point in the process's own code, or die there."""
        if not self.pass_by(point):
            raise Crash

    def pass_by(self, point: str) -> bool:
        """Pass a fault point that others reach for the process; return False if it is dead now."""
        if self.dead:
            return False
        self._note(point)
        # A death between two reads leaves nothing else behind than one before the first; only points at which
        # something has changed are worth a run each.
        if not CHANGING.fullmatch(point):
            return True
        self.points += 1
        self.reached.append(point)
        if self.points == self.die_at_point:
            self.die()
        elif self.die_at_name is not None and self.die_at_name[0] == point:
            name, left = self.die_at_name
            self.die_at_name = name, left - 1
            if left <= 1:
                self.die()
        return not self.dead

    def step(self) -> None:
        """Count a step of the event loop."""
        self.steps += 1
        if self.steps == self.die_at_step:
            self.die()

    def die(self) -> None:
        """Stop everything that belongs to this process."""
        if not self.dead:
            self.dead = True
            self._note("dies")
            for watcher in self._watchers:
                if not watcher.done():
                    watcher.set_result(None)

    def watch(self, watcher: "asyncio.Future[None]") -> None:
        """End a future of the outside when the life ends."""
        self._watchers.append(watcher)
        if self.dead and not watcher.done():
            watcher.set_result(None)

    def bury(self) -> None:
        """Unwind the tasks of a dead process; calls of clients end with an unknown outcome."""
        assert self.dead
        for task in self.tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # dead, not forgotten
                self.context.run(_unwind, task)
        self.tasks.clear()


def _unwind(task: "asyncio.Task[object]") -> None:
    try:
        task.get_coro().close()
    except (Crash, RuntimeError):
        pass  # it awaited something while unwinding


LIFE: ContextVar[Life | None] = ContextVar("life", default=None)
