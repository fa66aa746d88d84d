"""The summary of a session in a few rows: those known before its events, and those known after."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from durable_sessions.exporters.options import Session
from durable_sessions.rendering import human_times
from durable_sessions.rendering.entries import EntryRole, TranscriptEntry, entry_of
from durable_sessions.rendering.events import decode
from durable_sessions.rendering.lenses import as_meant
from durable_sessions.rendering.pairing import paired
from durable_sessions.rendering.text import one_line, plural
from durable_sessions.rendering.threads import Threads
from durable_sessions.rendering.usage import UsageTotals

Rows = list[tuple[str, str]]


def facts(session: Session) -> tuple[str, Rows]:
    """Return the title of a session, and rows with its other properties."""
    name = one_line(str(session.get("id") or "session"), 200)
    title = one_line(str(session.get("title") or ""), 300)
    agent = session.get("agent")
    agent = agent if isinstance(agent, dict) else {}
    model = agent.get("model")
    model = model.get("id") if isinstance(model, dict) else model
    created, started = (human_times.moment(session.get(name)) for name in ("created_at", "started_at"))
    first = "Created"
    if session.get("imported") is True:
        first = "Imported" if started == created else "Started"
        created = started
    rows = [
        ("Session", name if title else ""),
        ("Fork of", _source(session.get("forked_from"))),
        ("Agent", "" if agent.get("name") in (None, "unknown") else str(agent["name"])),
        ("Model", str(model) if isinstance(model, str) and model != "unknown" else ""),
        ("Status", shown_status(session)),
        (first, "" if created is None else f"{human_times.minute(created)} UTC"),
    ]
    return title or name, [(label, one_line(value, 200)) for label, value in rows if value]


def _source(forked_from: object) -> str:
    """Return where a fork begins, such as ``build-42, from #3 on``: its title is often that of its source."""
    if not isinstance(forked_from, dict):
        return ""
    source, position = forked_from.get("session_id"), forked_from.get("position")
    return f"{source}, from #{position} on" if isinstance(position, int) else str(source or "")


def shown_status(session: Session) -> str:
    """Return the status that readers see: that it has ended or was imported counts more than how it was left.

    A transcript of another tool may end in the middle of a turn; nobody works on it here.
    """
    status, lifecycle = str(session.get("status") or ""), session.get("lifecycle")
    if lifecycle in ("closed", "archived", "paused"):
        return str(lifecycle)
    return "imported" if session.get("imported") is True and status in ("idle", "running") else status


@dataclass(slots=True)
class ExportSummary:
    """Counts entries, tokens and times while the events pass through."""

    events: int = 0
    prompts: int = 0
    calls: int = 0
    failed_calls: int = 0
    errors: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    usage: UsageTotals = field(default_factory=UsageTotals)
    threads: Threads = field(default_factory=Threads)

    def entries(self, lines: Iterable[bytes]) -> Iterator[TranscriptEntry]:
        """Return stored events as entries, calls with their results, and count them."""
        for entry in paired(self._counted(lines)):
            if entry.role is EntryRole.TOOL:
                self.calls += 1
                self.failed_calls += entry.failed
            yield entry

    def _counted(self, lines: Iterable[bytes]) -> Iterator[TranscriptEntry]:
        for line in lines:
            event = decode(line)
            self.usage.add(event)
            entry = entry_of(event)
            self.threads.name(event, entry)
            self.events += 1
            self.prompts += as_meant(event).get("type") == "user.message"
            self.errors += entry.role is EntryRole.ERROR
            if entry.at_ms is not None:
                self.first_ms = min(entry.at_ms, self.first_ms or entry.at_ms)
                self.last_ms = max(entry.at_ms, self.last_ms or entry.at_ms)
            yield entry

    def rows(self) -> Rows:
        """Return the counts as rows."""
        usage = self.usage
        rows: Rows = [("Events", f"{self.events:,}"), ("Prompts", f"{self.prompts:,}")]
        if self.calls:
            failed = f", {self.failed_calls:,} failed" if self.failed_calls else ""
            rows.append(("Tool calls", f"{self.calls:,}{failed}"))
        if self.errors:
            rows.append(("Errors", f"{self.errors:,}"))
        if self.first_ms is not None and self.last_ms is not None and self.last_ms > self.first_ms:
            rows.append(("Time", human_times.duration(self.last_ms - self.first_ms)))
        if usage.requests:
            rows.append(("Model requests", f"{usage.requests:,}"))
            rows.append(("Tokens in", f"{usage.prompt_tokens:,}"))
            if usage.cache_read_tokens:
                rows.append(("of these cached", f"{usage.cache_read_tokens:,}"))
            rows.append(("Tokens out", f"{usage.output_tokens:,}"))
        if usage.cost_usd is not None:
            rows.append(
                ("Cost", f"${usage.cost_usd:,.2f}" if usage.cost_usd >= 1 else f"${usage.cost_usd:.4f}")
            )
        if usage.models:
            rows.append((plural(len(usage.models), "Model"), ", ".join(usage.models)))
        return rows
