"""The plan of a repair, shown before anything is done."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from durable_sessions.streams.stream import Stream


class Action(NamedTuple):
    """One change: the file or object, its problem, and what is done."""

    where: str
    what: str


class Loss(NamedTuple):
    """Lost records: they are replaced by markers, or dropped because their stream is lost."""

    stream: int
    path: str | None
    first: int
    next: int
    outcome: Literal["marked", "dropped"]

    def __str__(self) -> str:
        name = f"stream {self.stream}" + ("" if self.path is None else f" ({self.path})")
        end = "markers take their place" if self.outcome == "marked" else "they are dropped"
        return f"{name}, positions {self.first} to {self.next}: {end}"


@dataclass(slots=True)
class Plan:
    """All actions of a repair; without any, nothing is wrong."""

    actions: list[Action] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)

    def act(self, where: str, what: str) -> None:
        """Add an action."""
        self.actions.append(Action(where, what))

    def lose(
        self, stream: int, known: Stream | None, first: int, following: int, *, marked: bool = True
    ) -> None:
        """Add a loss."""
        path = None if known is None else f"{known.key.workspace}/{known.key.path}"
        self.losses.append(Loss(stream, path, first, following, "marked" if marked else "dropped"))
