"""``ds import``: bring the sessions of other tools into the log."""

import os
import signal
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from threading import Event as Signal

import click

from durable_sessions.cli.advice import typed_words
from durable_sessions.cli.client import Server, with_server
from durable_sessions.cli.command_errors import explained
from durable_sessions.cli.import_report import ImportSpeaker, name_empty_files
from durable_sessions.cli.import_selection import TranscriptSelection
from durable_sessions.cli.option_types import Number, OneOf, Time
from durable_sessions.client import Client
from durable_sessions.client.errors import ConnectionFailedError
from durable_sessions.importers import duplicate_sources, session_filter
from durable_sessions.importers.destination import Destination, DryRun, ServerDestination
from durable_sessions.importers.engine import ImportEngine
from durable_sessions.importers.live_capture import QUIET_SECONDS, Watcher
from durable_sessions.importers.registry import TOOLS, Tool
from durable_sessions.importers.report import Report
from durable_sessions.importers.sources import SourceError, Transcript
from durable_sessions.importers.state import ImportState, default_path
from durable_sessions.redaction import Redactor

PATIENCE_SECONDS = 5.0


@click.command("import")
@click.argument("tool", type=OneOf([*TOOLS]), metavar="TOOL")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True))
@with_server
@click.option("--watch", is_flag=True, help="Stay, and import what is written from now on.")
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
    speaker = ImportSpeaker(as_json=as_json, verbose=verbose, watches=watch, is_dry=dry_run, redacts=redact)
    selection = TranscriptSelection(chosen, roots, _since(since), _project(project), speaker.tell_trouble)
    state = ImportState(
        None if dry_run and again else state_path or default_path(os.environ, Path.home()),
        # Progress counts for one workspace of one server. Redacted copies differ, so that they count apart.
        f"{server.url} {_key_mark(server.api_key)}{' redacted' if redact else ''}",
        read_only=dry_run,
        empty=again,
    )
    redactor = Redactor() if redact else None
    try:
        with explained(server.url), Client(server.url, server.api_key or None) as client:
            known = {} if dry_run else _forget_what_is_gone(server, chosen, state, speaker, patient=watch)
            destination: Destination = DryRun() if dry_run else ServerDestination(client)
            engine = ImportEngine(
                destination,
                state,
                redactor=redactor,
                on_outcome=speaker.tell_outcome,
                redacted=[session for session, is_redacted in known.items() if is_redacted],
            )
            if watch:
                _watch(engine, selection, roots, speaker, quiet_seconds)
            else:
                _once(engine, selection, roots, speaker, paths)
    except duplicate_sources.SameSessionError as error:
        raise click.UsageError(str(error)) from error
    except SourceError as error:
        raise click.ClickException(str(error)) from error
    finally:
        state.close()


def _forget_what_is_gone(
    server: Server, tool: Tool, state: ImportState, speaker: ImportSpeaker, *, patient: bool
) -> Mapping[str, bool]:
    """Forget the progress of sessions that no longer exist; with ``--watch``, wait for the server.

    Those that exist are returned, each with whether it was imported without its secrets.
    """
    while True:
        try:
            with Client(server.url, server.api_key or None, retries=1) as client:
                known = ServerDestination(client).sessions_of(tool.name)
            state.keep_sessions(tool.name, known)
            return known
        except ConnectionFailedError as error:
            if not patient:
                raise
            speaker.tell_trouble(str(error))
            time.sleep(PATIENCE_SECONDS)


def _once(
    engine: ImportEngine,
    selection: TranscriptSelection,
    roots: list[Path],
    speaker: ImportSpeaker,
    named: tuple[Path, ...],
) -> None:
    transcripts = selection.find()
    if selection.is_empty:
        speaker.tell_nothing_found(selection.where_it_looked())
    for problem in selection.problems.values():
        speaker.tell_problem(problem)
    report = speaker.with_bar(len(transcripts), lambda: engine.run(transcripts))
    for problem in name_empty_files(report, named):
        speaker.tell_problem(problem)
    speaker.tell_unredacted(report, typed_words(click.get_current_context()))
    speaker.tell_foreign(report, roots)
    speaker.tell_report(report, selection)
    speaker.finish(report, selection, named)


def _watch(
    engine: ImportEngine,
    selection: TranscriptSelection,
    roots: list[Path],
    speaker: ImportSpeaker,
    quiet_seconds: float,
) -> None:
    stop = Signal()
    # The batch that is under way is finished, so that its progress is saved and it is not sent again.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def find() -> list[Transcript]:
        found = selection.find()
        for problem in selection.problems.values():
            speaker.tell_problem(problem)
        return found

    def on_report(report: Report) -> None:
        speaker.tell_unredacted(report, typed_words(click.get_current_context()))
        speaker.tell_foreign(report, roots)
        if report.new_events:
            speaker.tell_report(report, selection)

    Watcher(
        engine, find, roots, on_report, speaker.tell_trouble, quiet_seconds=quiet_seconds, stop=stop
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
