"""The report of an import: what became of each source session, and the counts of all."""

from dataclasses import dataclass, field
from pathlib import Path

from durable_sessions.importers.format_detection import SourceFormat
from durable_sessions.importers.tally import Tally


@dataclass(slots=True)
class ImportOutcome:
    """The outcome of one source session: imported, unchanged, empty, refused or failed."""

    session: str
    tool: str
    status: str
    new_events: int = 0
    problem: str | None = None
    path: Path | None = None
    """Its main file."""
    is_unredacted: bool = False
    """Whether it was refused because what is stored still has its secrets."""
    looks_like: SourceFormat | None = None
    """What its file is, if it was refused because it is another tool's."""

    def plain(self) -> dict[str, object]:
        """Return it for JSON."""
        plain: dict[str, object] = {
            "session": self.session,
            "tool": self.tool,
            "status": self.status,
            "new_events": self.new_events,
        }
        return plain | ({"problem": self.problem} if self.problem else {})


@dataclass(slots=True)
class Report:
    """What a run has done."""

    outcomes: list[ImportOutcome] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)

    @property
    def new_events(self) -> int:
        """How many events were not there before."""
        return sum(one.new_events for one in self.outcomes)

    def plain(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "new_events": self.new_events,
            "sessions": [one.plain() for one in self.outcomes],
            **self.tally.plain(),
        }
