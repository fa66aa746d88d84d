"""What an import tells: a bar on a terminal, plain lines elsewhere, JSON for programs."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from durable_sessions.cli.advice import command_line
from durable_sessions.cli.command_errors import CommandError
from durable_sessions.cli.error_output import warn
from durable_sessions.cli.import_selection import LINK_REASON, TranscriptSelection
from durable_sessions.importers import format_detection, jsonl
from durable_sessions.importers.format_detection import SourceFormat
from durable_sessions.importers.lines import DAMAGES
from durable_sessions.importers.report import ImportOutcome, Report
from durable_sessions.importers.sources import empty_file
from durable_sessions.importers.tally import WAITS
from durable_sessions.rendering.text import clean, plural

PROBLEMS_TOLD_MAX = 20
REASONS_TOLD_MAX = 4
OTHER_FORM = "stored before with another path or form"
_STATUSES = ("imported", "unchanged", "empty", "refused", "failed")
_FILES = {"failed": "refused"}
"""What is told of files instead of sessions: those that are not what they should be."""
_WORDS = {
    "user.message": "prompt",
    "agent.message": "answer",
    "agent.thinking": "thought",
    "agent.tool_use": "tool call",
    "agent.mcp_tool_use": "tool call",
    "agent.custom_tool_use": "tool call",
    "agent.tool_result": "tool result",
    "agent.mcp_tool_result": "tool result",
    "user.custom_tool_result": "tool result",
    "session.error": "error",
    "session.thread_created": "subagent",
    "agent.thread_context_compacted": "compaction",
    "user.interrupt": "interrupt",
    "span.model_request_end": "model request",
}
"""The kinds of events that a reader of transcripts has a word for, in the order in which they are told."""


class ImportSpeaker:
    """Reports the progress and the result of an import."""

    def __init__(
        self, *, as_json: bool, verbose: bool, watches: bool, is_dry: bool = False, redacts: bool = False
    ) -> None:
        self._json = as_json
        self._redacts = redacts
        self._is_dry = is_dry
        self._verbose = verbose
        self._tells_sessions = verbose or watches
        self._console = Console(stderr=True)
        self._reported: set[str] = set()
        self._advance: Callable[[], None] = lambda: None

    def tell_outcome(self, outcome: ImportOutcome) -> None:
        """Report the outcome of one session, if anything changed."""
        self._advance()
        if outcome.is_unredacted or outcome.looks_like is not None:
            return  # told once for all of them
        if outcome.problem:
            self.tell_problem(_said(outcome))
        elif not self._json and outcome.new_events and self._tells_sessions and not self._console.is_terminal:
            click.echo(f"{outcome.session}: {outcome.new_events:,} new {plural(outcome.new_events, 'event')}")

    def tell_problem(self, problem: str) -> None:
        """Report why something was not imported: once, and beyond a limit only that there is more."""
        if self._json or problem in self._reported or len(self._reported) > PROBLEMS_TOLD_MAX:
            return
        is_last = len(self._reported) == PROBLEMS_TOLD_MAX
        warn(clean("there are more of these; --json tells all of them" if is_last else problem))
        self._reported.add(problem)

    def tell_unredacted(self, report: Report, command: Sequence[str]) -> None:
        """Report the sessions that are stored with their secrets, and how to replace them."""
        refused = [outcome for outcome in report.outcomes if outcome.is_unredacted]
        if len(refused) == 1:
            self.tell_problem(_said(refused[0]))
        elif refused:
            names = [outcome.session for outcome in refused]
            self.tell_problem(
                f"{len(names):,} sessions were imported without --redact: what is stored still has its "
                "secrets, and importing them again does not change that. Replace them with: "
                f"{command_line(['delete', *names, '--yes'])} && {command_line(command)}"
            )

    def tell_foreign(self, report: Report, roots: Sequence[Path]) -> None:
        """Report files of other tools, those of one tool together, and how to import them."""
        by_format: dict[SourceFormat, list[ImportOutcome]] = {}
        for outcome in report.outcomes:
            if outcome.looks_like is not None:
                by_format.setdefault(outcome.looks_like, []).append(outcome)
        for found, outcomes in by_format.items():
            paths = [outcome.path for outcome in outcomes if outcome.path is not None]
            if len(outcomes) == 1:
                self.tell_problem(_said(outcomes[0]))
                continue
            holding = [root for root in roots if any(path.is_relative_to(root) for path in paths)]
            self.tell_problem(
                f"{len(outcomes):,} files look like {found.what} each, such as {paths[0]}; "
                f"use: {format_detection.commands(found, holding)}"
            )

    def tell_nothing_found(self, text: str) -> None:
        """Report where nothing was found, which is no failure."""
        if not self._json:
            click.echo(clean(text), err=True)

    def tell_trouble(self, text: str) -> None:
        """Report a problem while watching."""
        warn(text)

    def with_bar(self, total: int, work: Callable[[], Report]) -> Report:
        """Run ``work`` with a progress bar, if there is a terminal."""
        if self._json or not self._console.is_terminal:
            return work()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=self._console, transient=True) as progress:
            task = progress.add_task("importing", total=total)
            self._advance = lambda: progress.advance(task)
            return work()

    def tell_report(self, report: Report, selection: TranscriptSelection) -> None:
        """Report a run: in five lines at most, or with ``--verbose`` in full."""
        left_out = selection.left_out
        if self._json:
            problems = [{"file": str(path), "problem": said} for path, said in selection.problems.items()]
            told = report.plain() | {"left_out": dict(left_out), "refused_files": problems}
            click.echo(msgspec.json.encode(told))
            return
        click.echo(self._first_line(report))
        if not self._verbose:
            for line in _summary(report, left_out, redacts=self._redacts):
                click.echo(line)
            return
        rows = list(_rows(report, left_out))
        if not rows:
            return
        table = Table("what", "reason", "number", box=None, pad_edge=False)
        table.columns[2].justify = "right"
        for what, reason, number in rows:
            table.add_row(what, Text(reason), f"{number:,}")
        Console(width=None if sys.stdout.isatty() else 120, highlight=False).print(table)

    def _first_line(self, report: Report) -> str:
        counts = Counter(outcome.status for outcome in report.outcomes)
        said = {"imported": "would be imported"} if self._is_dry else {}
        parts = [
            _number(counts[one], "session" if not at else "", said.get(one, one))
            for at, one in enumerate(
                status for status in _STATUSES if counts[status] and status not in _FILES
            )
        ]
        parts += [_number(counts[one], "file", told) for one, told in _FILES.items() if counts[one]]
        if not parts:
            return "no session was imported"
        if not report.new_events and not self._is_dry:
            is_all_there = counts.keys() <= {"imported", "unchanged"}
            return f"{', '.join(parts)}: {'nothing new' if is_all_there else 'nothing was imported'}"
        if len(report.outcomes) == 1 and not report.outcomes[0].problem:
            parts[0] += f" as {clean(report.outcomes[0].session)}"
        events = _number(report.new_events, "event" if self._is_dry else "new event")
        records = f" from {_number(report.tally.records, 'record')}" if report.tally.records else ""
        return f"{', '.join(parts)}: {events}{records}"

    def finish(self, report: Report, selection: TranscriptSelection, named: Iterable[Path]) -> None:
        """Fail if anything was not imported that was asked for; with ``--json``, in an error object."""
        troubled = [_said(outcome) for outcome in report.outcomes if outcome.problem]
        problems = [*selection.problems.values(), *troubled]
        if not problems and selection.is_empty and any(path.is_file() for path in named):
            problems = [selection.where_it_looked()]
        if not problems:
            return
        if self._json:
            more = len(problems) - 1
            others = f" And {_number(more, 'more problem')}: see sessions and refused_files." if more else ""
            raise CommandError(problems[0] + others)
        sys.exit(1)


def name_empty_files(report: Report, named: Iterable[Path]) -> Iterator[str]:
    """Give the outcomes of empty files a problem if they were named; those in a folder are only counted."""
    given = {path.absolute() for path in named}
    for outcome in report.outcomes:
        if outcome.status == "empty" and outcome.path is not None and outcome.path.absolute() in given:
            outcome.problem = empty_file(outcome.path)
            yield outcome.problem


def _said(outcome: ImportOutcome) -> str:
    problem = outcome.problem or ""
    is_named = problem.startswith((str(outcome.path), outcome.session))
    return problem if is_named else f"{outcome.session}: {problem}"


def _number(count: int, noun: str, after: str = "") -> str:
    return " ".join(filter(None, (f"{count:,}", plural(count, noun) if noun else "", after)))


def _summary(report: Report, left_out: Mapping[str, int], *, redacts: bool) -> Iterable[str]:
    """Yield what follows the first line: four lines at most."""
    tally = report.tally
    if tally.events and report.new_events:
        yield _kinds(tally.events)
    if tally.redacted:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in tally.redacted.most_common())
        yield f"redacted: {_number(tally.redacted.total(), 'secret')} ({kinds})"
    elif redacts and report.new_events:
        yield "redacted: nothing, for nothing looks like a secret"
    reasons = Counter(left_out).most_common(REASONS_TOLD_MAX)
    missing = [f"{_left_out(number, reason)} ({reason})" for reason, number in reasons]
    if tally.differ and _names_its_events(report):
        missing.append(f"{_number(tally.differ, 'event')} (the id is that of another stored event)")
    if missing:
        yield f"not imported: {', '.join(missing)}"
    damaged = Counter({reason: tally.kept[reason] for reason in DAMAGES if tally.kept[reason]})
    rest = {
        "kept whole as import.record": tally.kept - damaged,
        f"damaged ({', '.join(damaged)}) and kept as text": damaged,
        "merged": tally.merged,
        "skipped": tally.skipped,
    }
    said = []
    if report.new_events:  # otherwise they are those of an earlier import
        said = [f"{counts.total():,} {what}" for what, counts in rest.items() if counts]
        if tally.differ and not _names_its_events(report):
            said.append(f"{tally.differ:,} {OTHER_FORM}")
    said += [f"{number:,} {note}" for note, number in tally.notes.items() if note.endswith(WAITS)]
    if said:
        yield f"other records: {', '.join(said)}; --verbose tells all of it"


def _names_its_events(report: Report) -> bool:
    """Say whether the ids of the events are those of the file; otherwise the same id is the same record."""
    return any(outcome.tool == jsonl.TOOL for outcome in report.outcomes)


def _left_out(number: int, reason: str) -> str:
    return _number(number, "link" if reason == LINK_REASON else "session")


def _kinds(events: Mapping[str, int]) -> str:
    """Return how much of what people know there is: prompts, answers, tool calls."""
    told: Counter[str] = Counter()
    for kind, number in events.items():
        told[_WORDS.get(kind, "other event")] += number
    words = [word for word in dict.fromkeys((*_WORDS.values(), "other event")) if told[word]]
    *first, last = [_number(told[word], word) for word in words]
    return f"{', '.join(first)} and {last}" if first else last


def _rows(report: Report, left_out: Mapping[str, int]) -> Iterable[tuple[str, str, int]]:
    tally = report.tally
    for what, counts in (
        ("session left out", left_out),
        ("event", tally.events),
        ("merged", tally.merged),
        ("kept as import.record", tally.kept),
        ("skipped", tally.skipped),
        ("note", tally.notes),
        ("redacted", tally.redacted),
    ):
        for reason, number in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
            yield what, reason, number
    if tally.differ:
        what = "the id is that of another stored event"
        yield "not imported", what if _names_its_events(report) else OTHER_FORM, tally.differ
    if tally.artifacts:
        yield "moved to artifacts", f"{tally.artifact_bytes:,} bytes", tally.artifacts
