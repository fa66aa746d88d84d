"""``durable-sessions evaluate``: judge a feature of a session."""

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.command_errors import MissingError, WrongInputError
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.missing_evidence import without_evidence
from durable_sessions.cli.option_types import Number, OneOf, Pair, WholeNumber
from durable_sessions.cli.spelling import nearest
from durable_sessions.cli.terminal import Output
from durable_sessions.cli.work_output import appended
from durable_sessions.client import work_calls
from durable_sessions.client.errors import BadRequestError
from durable_sessions.rendering.text import one_line

_WHOLE = "-"
_VERDICTS = ("pass", "fail", "inconclusive")
_ARTIFACT = "sha256:"
_SHELL = "/bin/sh"
LOG_BYTES_MAX = 16 * 1024 * 1024
"""As much of what a check printed is kept."""


@click.command()
@click.argument("session", type=SESSION)
@click.argument("feature")
@click.argument("verdict", type=OneOf(list(_VERDICTS)), required=False, metavar="[VERDICT]")
@click.option("--run", "runs", is_flag=True, help="Run the feature's check here; its status is the verdict.")
@click.option("--because", multiple=True, metavar="EVENT", help="Evidence: an event, or sha256:DIGEST.")
@click.option("--evaluates", multiple=True, metavar="EVENT", help="The event that is judged; repeatable.")
@click.option("--note", help="What to know about it.")
@click.option("--command", "ran", help="The command that was run.")
@click.option("--exit-code", type=WholeNumber(), help="Its status.")
@click.option("--score", type=Number(min=0, max=1), help="From 0 to 1.")
@click.option("--metric", "metrics", type=Pair(), multiple=True, help="A figure; repeatable.")
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file that the check rests on, with its digest; those that the feature names if not given.",
)
@click.option("--model", help="The model that judged.")
@click.option("--sandbox", help="Where it ran.")
@with_connection
def evaluate(
    connection: ServerConnection,
    output: Output,
    session: str,
    feature: str,
    verdict: str | None,
    runs: bool,
    because: tuple[str, ...],
    evaluates: tuple[str, ...],
    note: str | None,
    ran: str | None,
    exit_code: int | None,
    score: float | None,
    metrics: tuple[tuple[str, str], ...],
    files: tuple[Path, ...],
    model: str | None,
    sandbox: str | None,
) -> None:
    """Judge a FEATURE of SESSION, or - for the whole: pass, fail or inconclusive.

    \b
    ds evaluate issue-7 tests --run                          its check decides, what it prints is the evidence
    ds evaluate issue-7 design pass --because EVENT          you decide

    Needs a principal that did not work on the session, and the role evaluator. The files that a feature names
    are digested here, so run it where the work is.
    """
    target = connection.client.session(connection.find(session).id)
    found = None if feature == _WHOLE else _feature(target.id, target.state()["outcome"], feature)
    evidence = list(because)
    if runs:
        if verdict is not None:
            raise click.UsageError("Give a verdict, or let the check decide with --run, not both.")
        ran = ran or (found or {}).get("check")
        if not ran:
            raise WrongInputError(f"{feature} has no check to run; give one with --command.")
        exit_code, printed = _run(ran)
        verdict = "pass" if exit_code == 0 else "fail"
        evidence.append(f"{_ARTIFACT}{connection.client.artifacts.put(printed, 'text/plain').sha256}")
    elif verdict is None:
        raise click.UsageError("Give the verdict, pass, fail or inconclusive; or run the check with --run.")
    elif not because and not evaluates:
        events = connection.command("events", target.id, "--tail", "5")
        raise click.UsageError(
            "A verdict names its evidence: give the id of an event with --because. "
            f"See the last ones with: {events}"
        )
    named = [Path(one["path"]) for one in (found or {}).get("files") or ()]
    members: dict[str, Any] = {
        "note": note,
        "command": ran,
        "exit_code": exit_code,
        "score": score,
        "metrics": {name: _figure(name, value) for name, value in metrics} or None,
        "files": [_digest(path) for path in files or (named if verdict == "pass" else ())] or None,
        "model": model,
        "sandbox": sandbox,
    }
    event = work_calls.evaluate(None if feature == _WHOLE else feature, verdict, evidence, members)
    event["refs"] += [{"rel": "evaluates", "id": one} for one in evaluates]
    try:
        with connection.writing(target.id):
            done = target.append(event)
    except BadRequestError as error:
        raise without_evidence(connection, target.id, event, error) from error
    appended(output, target, done, _said(feature, verdict, ran, exit_code))


def _feature(session: str, outcome: dict[str, Any] | None, wanted: str) -> dict[str, Any]:
    features = {} if outcome is None else {one["id"]: one for one in outcome["features"]}
    if wanted not in features:
        known = nearest(wanted, list(features)) or (
            f"It has {', '.join(list(features)[:10])}." if features else "It has no outcome."
        )
        raise MissingError(f"{session} has no feature {wanted}. {known}")
    found: dict[str, Any] = features[wanted]
    return found


def _run(command: str) -> tuple[int, bytes]:
    """Run a check as a shell does, and return its status and what it printed."""
    done = subprocess.run(  # noqa: S603 - what the outcome says is to be run, by who judges
        [_SHELL, "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    click.echo(done.stdout.decode(errors="replace"), nl=False, err=True)
    status = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return status, done.stdout[-LOG_BYTES_MAX:] or b"(nothing was printed)\n"


def _digest(path: Path) -> dict[str, str]:
    try:
        return {"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    except OSError as error:
        raise WrongInputError(f"{path} cannot be digested: {error.strerror or error}.") from error


def _figure(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise click.UsageError(f"The metric {name} is {value!r}, and no number.") from error


def _said(feature: str, verdict: str, command: str | None, exit_code: int | None) -> str:
    what = "the whole" if feature == _WHOLE else feature
    ran = f" ({one_line(command, 60)}: status {exit_code})" if command and exit_code is not None else ""
    return f"{what}: {verdict}{ran}"
