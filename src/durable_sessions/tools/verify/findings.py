"""The findings of a check: problems, each with its place, and how much was examined."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple


class Problem(NamedTuple):
    """A problem: the file or object, and the byte or row in it if that is known."""

    where: str
    problem: str
    byte: int | None = None
    row: int | None = None

    @property
    def detail(self) -> str:
        """The place in the file or object, and the problem."""
        place = f"byte {self.byte}, " if self.byte is not None else ""
        place += f"row {self.row}, " if self.row is not None else ""
        return f"{place[:-2]}: {self.problem}" if place else self.problem

    def __str__(self) -> str:
        separator = ": " if self.detail == self.problem else ", "
        return f"{self.where}{separator}{self.detail}"


@dataclass(slots=True)
class Findings:
    """Collects the results of checks; ``notes`` are worth knowing but no problems.

    ``unmendable`` are problems that are no damage: data that cannot be read now, or that is intact but not
    understood, perhaps because a newer version wrote it.
    """

    problems: list[Problem] = field(default_factory=list)
    unmendable: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)

    def merge(self, other: "Findings") -> None:
        """Add the findings of another check."""
        self.problems += other.problems
        self.unmendable += other.unmendable
        self.notes += other.notes
        self.checked += other.checked

    def add(
        self,
        where: str,
        problem: str,
        *,
        byte: int | None = None,
        row: int | None = None,
        mendable: bool = True,
    ) -> None:
        """Report a problem."""
        found = Problem(where, problem, byte, row)
        self.problems.append(found)
        if not mendable:
            self.unmendable.append(found)
