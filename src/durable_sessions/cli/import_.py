"""``ds import``: bring the sessions of other tools into the log."""

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from threading import Event as Signal

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from durable_sessions.cli.client import Server, with_server
from durable_sessions.cli.command_errors import explained
from durable_sessions.cli.option_types import Number, OneOf, Time
from durable_sessions.client import Client
from durable_sessions.client.errors import ConnectionFailedError
from durable_sessions.importers import directory_walk, duplicate_sources, jsonl, session_filter
from durable_sessions.importers.destination import Destination, DryRun, ServerDestination
from durable_sessions.importers.engine import ImportEngine, ImportOutcome, Report
from durable_sessions.importers.live_capture import QUIET_SECONDS, Watcher
from durable_sessions.importers.redaction import Redactor
from durable_sessions.importers.registry import TOOLS, Tool
from durable_sessions.importers.sources import SourceError, Transcript
from durable_sessions.importers.state import ImportState, default_path
from durable_sessions.rendering.text import plural

PATIENCE_SECONDS = 5.0


@click.command("import")
@click.argument("tool", type=OneOf([*TOOLS]), metavar="TOOL")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True))
@with_server
@click.option("--watch", is_flag=True, help="Go on, and import what is written from now on.")
@click.option("--dry-run", is_flag=True, help="Read and count, but send nothing.")
@click.option("--since", metavar="TIME", help="Only sessions written to since then: 2026-11-15, 7d, 2h.")
@click.option("--project", metavar="NAME|PATH", help="Only sessions that worked in this folder or below.")
@click.option("--redact", is_flag=True, help="Replace secrets by markers before anything is sent.")
@click.option(
    "--state",
    "state_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that remembers what was sent; to lose it costs only time.",
)
@click.option("--again", is_flag=True, help="Read everything again, whatever was remembered.")
@click.option(
    "--quiet-seconds",
    type=Number(min=0.1),
    default=QUIET_SECONDS,
    show_default=True,
    help="With --watch: when a session counts as finished for now.",
)
@click.option("--verbose", "-v", is_flag=True, help="Tell of every session and every kind of record.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def import_(
    tool: str,
    paths: tuple[Path, ...],
    server: Server,
    watch: bool,
    dry_run: bool,
    since: str | None,
    project: str | None,
    redact: bool,
    state_path: Path | None,
    again: bool,
    quiet_seconds: float,
    verbose: bool,
    as_json: bool,
) -> None:
    """Import sessions of TOOL from PATHS, or from where the tool keeps them.

    TOOL is one of claude-code, codex, opencode, gemini, openhands, pi, openclaw, swe-agent, inspect,
    langgraph, openai-agents, aider, openai-chat, jsonl. A second run imports only what is new.
    """
    chosen = TOOLS[tool]
    roots = list(paths) or chosen.default_paths(os.environ, Path.home())
    if not roots:
        raise click.UsageError(f"{chosen.what} have no place of their own: name the files or folders.")
    speaker = Speaker(as_json=as_json, verbose=verbose, watches=watch, is_dry=dry_run)
    selection = TranscriptSelection(chosen, roots, _since(since), _project(project), speaker.tell_trouble)
    state = ImportState(
        None if dry_run and again else state_path or default_path(os.environ, Path.home()),
        f"{server.url} {_key_mark(server.api_key)}{' redacted' if redact else ''}",
        read_only=dry_run,
        empty=again,
    )
    redactor = Redactor() if redact else None
    try:
        with explained(server.url), Client(server.url, server.api_key or None) as client:
            if not dry_run:
                _forget_what_is_gone(server, chosen, state, speaker, patient=watch)
            destination: Destination = DryRun() if dry_run else ServerDestination(client)
            engine = ImportEngine(destination, state, redactor=redactor, on_outcome=speaker.tell_outcome)
            if watch:
                _watch(engine, selection, roots, speaker, quiet_seconds)
            else:
                _once(engine, selection, speaker, paths)
    except duplicate_sources.SameSessionError as error:
        raise click.UsageError(str(error)) from error
    except SourceError as error:
        raise click.ClickException(str(error)) from error
    finally:
        state.close()


def _forget_what_is_gone(
    server: Server, tool: Tool, state: ImportState, speaker: "Speaker", *, patient: bool
) -> None:
    """Forget the progress of sessions that no longer exist; with ``--watch``, wait for the server."""
    while True:
        try:
            with Client(server.url, server.api_key or None, retries=1) as client:
                state.keep_sessions(tool.name, ServerDestination(client).sessions_of(tool.name))
            return
        except ConnectionFailedError as error:
            if not patient:
                raise
            speaker.tell_trouble(str(error))
            time.sleep(PATIENCE_SECONDS)


LINKS_TOLD_MAX = 20
ROOTS_TOLD_MAX = 5
KINDS_TOLD_MAX = 4
LINK_REASON = "a link that leads out of the folder"


class TranscriptSelection:
    """The selected transcripts, and how many were left out for which reasons."""

    def __init__(
        self,
        tool: Tool,
        roots: list[Path],
        since: float | None,
        project: str | None,
        tell: Callable[[str], None],
    ) -> None:
        self._tell = tell
        self._reported: set[Path] = set()
        self._tool = tool
        self._roots = roots
        self._since = since
        self._project = project
        self.left_out: Counter[str] = Counter()
        self.is_empty = True

    def where_it_looked(self) -> str:
        """Return a sentence for when nothing was found."""
        roots = [f"{root}{'' if root.exists() else ' (not there)'}" for root in self._roots[:ROOTS_TOLD_MAX]]
        more = " …" if len(self._roots) > ROOTS_TOLD_MAX else ""
        return f"Nothing was found. Looked for {self._tool.what} in: {', '.join(roots)}{more}"

    def _tell_links(self, passed_over: set[Path]) -> None:
        """Report links that were not followed, each once; beyond a limit only their number."""
        if passed_over:
            self.left_out[LINK_REASON] += len(passed_over)
        for link in sorted(passed_over - self._reported)[: LINKS_TOLD_MAX - len(self._reported)]:
            self._tell(f"{link} leads out of the folder that was named, and is passed over. Name what it is.")
            self._reported.add(link)

    def find(self) -> list[Transcript]:
        """Find transcripts."""
        self.left_out.clear()
        wanted = []
        with directory_walk.noting() as passed_over:
            found = self._tool.discover(self._roots)
        self._tell_links(passed_over)
        self.is_empty = not found and not passed_over
        is_strict = self._tool.name == jsonl.TOOL
        found, reasons = duplicate_sources.without_copies(found, self._roots, is_strict=is_strict)
        self.left_out.update(reasons)
        for transcript, reason in session_filter.choose(found, since=self._since, project=self._project):
            if reason is None:
                wanted.append(transcript)
            else:
                self.left_out[reason] += 1
        return wanted


class Speaker:
    """Reports progress: a bar on a terminal, plain lines elsewhere, JSON for programs."""

    def __init__(self, *, as_json: bool, verbose: bool, watches: bool, is_dry: bool = False) -> None:
        self._json = as_json
        self._is_dry = is_dry
        self._verbose = verbose
        self._tells_sessions = verbose or watches
        self._console = Console(stderr=True)
        self._advance: Callable[[], None] = lambda: None

    def tell_outcome(self, outcome: ImportOutcome) -> None:
        """Report the outcome of one session, if anything changed."""
        self._advance()
        if self._json or (self._console.is_terminal and not outcome.problem):
            return
        if outcome.problem:
            click.echo(f"{outcome.session}: {outcome.problem}", err=True)
        elif outcome.new_events and self._tells_sessions:
            click.echo(f"{outcome.session}: {outcome.new_events} new {plural(outcome.new_events, 'event')}")

    def tell_trouble(self, text: str) -> None:
        """Report a problem while watching."""
        click.echo(f"durable-sessions: {text}", err=True)

    def with_bar(self, total: int, work: Callable[[], Report]) -> Report:
        """Run ``work`` with a progress bar, if there is a terminal."""
        if self._json or not self._console.is_terminal:
            return work()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=self._console, transient=True) as progress:
            task = progress.add_task("importing", total=total)
            self._advance = lambda: progress.advance(task)
            return work()

    def tell_report(self, report: Report, left_out: Counter[str]) -> None:
        """Report a run: in a few lines, or with ``--verbose`` in full."""
        if self._json:
            click.echo(msgspec.json.encode(report.plain() | {"left_out": dict(left_out)}))
            return
        statuses = Counter(outcome.status for outcome in report.outcomes)
        words = {"imported": "would be imported"} if self._is_dry else {}
        sessions = ", ".join(f"{number} {words.get(status, status)}" for status, number in statuses.items())
        click.echo(
            f"sessions: {sessions or 'none found'}; new events: {report.new_events}; "
            f"records read: {report.tally.records}"
        )
        if not self._verbose:
            for line in _summary(report, left_out):
                click.echo(line)
            return
        rows = list(_rows(report, left_out))
        if not rows:
            return
        table = Table("what", "reason", "number", box=None, pad_edge=False)
        table.columns[2].justify = "right"
        for what, reason, number in rows:
            table.add_row(what, Text(reason), str(number))
        Console(width=None if sys.stdout.isatty() else 120, highlight=False).print(table)


def _summary(report: Report, left_out: Counter[str]) -> Iterable[str]:
    """Yield the summary, in five lines at most."""
    tally = report.tally
    if tally.events:
        first = tally.events.most_common(KINDS_TOLD_MAX)
        others = len(tally.events) - len(first)
        more = f" and {others} more {plural(others, 'kind')}" if others else ""
        yield "events: " + ", ".join(f"{number:,} {kind}" for kind, number in first) + more
    if tally.redacted:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in tally.redacted.most_common())
        yield f"redacted: {tally.redacted.total():,} {plural(tally.redacted.total(), 'secret')} ({kinds})"
    if tally.differ:
        events = f"{tally.differ:,} {plural(tally.differ, 'event')}"
        yield f"not imported: {events} with the id of another event that is there already and stays"
    if left_out:
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in left_out.most_common(KINDS_TOLD_MAX))
        yield f"sessions left out: {reasons}"
    rest = {"kept as import.record": tally.kept, "merged": tally.merged, "skipped": tally.skipped}
    said = ", ".join(f"{counts.total():,} {what}" for what, counts in rest.items() if counts)
    if said or tally.notes or tally.artifacts:
        yield f"other records: {said or 'none'}; --verbose tells all of it"


def _rows(report: Report, left_out: Counter[str]) -> Iterable[tuple[str, str, int]]:
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
        yield "not imported", "the id of another event that is there already and stays", tally.differ
    if tally.artifacts:
        yield "moved to artifacts", f"{tally.artifact_bytes} bytes", tally.artifacts


def _once(
    engine: ImportEngine, selection: TranscriptSelection, speaker: Speaker, named: Iterable[Path]
) -> None:
    transcripts = selection.find()
    if selection.is_empty:
        click.echo(selection.where_it_looked(), err=True)
    report = speaker.with_bar(len(transcripts), lambda: engine.run(transcripts))
    speaker.tell_report(report, selection.left_out)
    named_in_vain = selection.is_empty and any(path.is_file() for path in named)
    if named_in_vain or any(outcome.problem for outcome in report.outcomes):
        sys.exit(1)


def _watch(
    engine: ImportEngine,
    selection: TranscriptSelection,
    roots: list[Path],
    speaker: Speaker,
    quiet_seconds: float,
) -> None:
    stop = Signal()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def on_report(report: Report) -> None:
        if report.new_events:
            speaker.tell_report(report, selection.left_out)

    Watcher(
        engine, selection.find, roots, on_report, speaker.tell_trouble, quiet_seconds=quiet_seconds, stop=stop
    ).run()


def _since(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return session_filter.parse_since(text)
    except ValueError:
        pass
    try:
        return session_filter.parse_since(Time().convert(text, None, None))
    except click.BadParameter as error:
        raise click.UsageError(f"--since: {error.message}") from error


def _project(text: str | None) -> str | None:
    if text is None or (text not in (".", "..") and not text.startswith(("./", "../", "~"))):
        return text
    return str(Path(text).expanduser().resolve())


def _key_mark(api_key: str) -> str:
    """Return a digest that differs between keys, and so between workspaces, without revealing the key."""
    return sha256(api_key.encode()).hexdigest()[:8] if api_key else ""
