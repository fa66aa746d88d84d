"""Counts of the records of a source by outcome and reason."""

from collections import Counter
from dataclasses import dataclass, field, fields, replace

REASONS_MAX = 200
REASON_CHARACTERS_MAX = 80
OTHERS = "(others)"
WAITS = "imported when it is complete"
"""How a note on something ends that a tool is still writing."""


class Reasons(Counter[str]):
    """Counts by reason. Reasons may contain names from sources, so their length and number are limited."""

    def __setitem__(self, reason: str, number: int) -> None:
        if reason not in self:
            shown = "".join(one if one.isprintable() else "?" for one in reason[:REASON_CHARACTERS_MAX])
            if shown not in self and len(self) >= REASONS_MAX:
                shown = OTHERS
            if shown != reason:
                number += self.get(shown, 0)
            reason = shown
        super().__setitem__(reason, number)


@dataclass(slots=True)
class Tally:
    """Counts for the summary: every record that was read is in one of them, unless its events were known.

    ``events`` and ``redacted`` count only what was not stored before.
    """

    records: int = 0
    events: Reasons = field(default_factory=Reasons)
    merged: Reasons = field(default_factory=Reasons)
    skipped: Reasons = field(default_factory=Reasons)
    kept: Reasons = field(default_factory=Reasons)
    notes: Reasons = field(default_factory=Reasons)
    redacted: Reasons = field(default_factory=Reasons)
    differ: int = 0
    artifacts: int = 0
    artifact_bytes: int = 0

    def add(self, other: "Tally") -> None:
        """Add the counts of another tally to this one."""
        self.records += other.records
        self.differ += other.differ
        self.artifacts += other.artifacts
        self.artifact_bytes += other.artifact_bytes
        for name in ("events", "merged", "skipped", "kept", "notes", "redacted"):
            getattr(self, name).update(getattr(other, name))

    def take(self) -> "Tally":
        """Return the counts so far, and reset them."""
        taken, blank = replace(self), Tally()
        for one in fields(self):
            setattr(self, one.name, getattr(blank, one.name))
        return taken

    def plain(self) -> dict[str, object]:
        """Return the counts for JSON."""
        return {
            "records": self.records,
            "events": dict(self.events),
            "merged": dict(self.merged),
            "skipped": dict(self.skipped),
            "kept": dict(self.kept),
            "notes": dict(self.notes),
            "redacted": dict(self.redacted),
            "differ": self.differ,
            "artifacts": self.artifacts,
            "artifact_bytes": self.artifact_bytes,
        }
