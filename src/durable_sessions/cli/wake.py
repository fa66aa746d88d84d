"""``durable-sessions wake``: take a session to work on it."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.command_errors import NotStartedError, SessionConflictError
from durable_sessions.cli.connection import SESSION_VARIABLE, ServerConnection, with_connection
from durable_sessions.cli.option_types import WholeNumber
from durable_sessions.cli.refusal_advice import EPOCH_VARIABLE, PRINCIPAL_VARIABLE
from durable_sessions.cli.state_text import state_lines, unfinished_lines
from durable_sessions.cli.terminal import Output
from durable_sessions.client import Work
from durable_sessions.settings import ENVIRONMENT_PREFIX

LOOK_SECONDS = 0.2
"""How often the lease is looked at while the command runs."""
END_SECONDS_MAX = 10.0
"""How long a command that has lost its lease may take to end."""


@click.command()
@click.argument("session", type=SESSION)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--worker", metavar="NAME", help="Which worker this is; your principal if not given.")
@click.option(
    "--seconds",
    type=WholeNumber(min=5, max=3_600),
    default=60,
    show_default=True,
    help="How long others leave the session to you after your last sign of life.",
)
@click.option("--shared", is_flag=True, help="Let agent events without the lease in, too.")
@click.option("--force", is_flag=True, help="Take it from whoever has it; needs an evaluator's key.")
@with_connection
def wake(
    connection: ServerConnection,
    output: Output,
    session: str,
    command: tuple[str, ...],
    worker: str | None,
    seconds: int,
    shared: bool,
    force: bool,
) -> None:
    """Take SESSION to work on it: no other worker has it from now on, and one that had it is fenced.

    \b
    ds wake issue-7                    show where it stands; it is yours for --seconds
    ds wake issue-7 -- ./agent.sh      run a command that has it for as long as it runs

    What the command writes with ds append, facts, route and handoff is written under the lease. The status is
    that of the command. If another worker takes over, the command is ended.
    """
    info = connection.find(session)
    with connection.writing(info.id):
        work = connection.client.wake(
            info.id, worker=worker, seconds=seconds, exclusive=not shared, force=force
        )
    if command:
        click.get_current_context().exit(_run(connection, output, work, command))
    if output.json:
        output.tell(work.lease.raw)
        return
    for line in (*state_lines(work.lease.state, connection.command), *unfinished_lines(work.unfinished)):
        output.show(line)
    output.note(
        f"{info.id}: epoch {work.epoch} is yours for {work.lease.seconds} seconds. To write under it: "
        f"export {SESSION_VARIABLE}={info.id} {EPOCH_VARIABLE}={work.epoch}\n"
        f"To give it back: {connection.command('release', info.id)}"
    )


def _run(connection: ServerConnection, output: Output, work: Work, command: tuple[str, ...]) -> int:
    variables = {
        **os.environ,
        ENVIRONMENT_PREFIX + "URL": connection.url,
        SESSION_VARIABLE: work.id,
        EPOCH_VARIABLE: str(work.epoch),
    }
    if connection.api_key:
        variables[ENVIRONMENT_PREFIX + "API_KEY"] = connection.api_key
    if connection.principal:
        variables[PRINCIPAL_VARIABLE] = connection.principal
    with work:
        output.note(f"{work.id}: epoch {work.epoch}, as {work.lease.worker}")
        with _forwarded_signals() as started:
            try:
                process = subprocess.Popen(command, env=variables)  # noqa: S603
            except OSError as error:
                raise NotStartedError(f"{command[0]} cannot be run: {error.strerror or error}.") from error
            started(process)
            status = _waited(process, work)
    return status if status >= 0 else 128 - status


def _waited(process: "subprocess.Popen[bytes]", work: Work) -> int:
    """Return the status of a command; end it when its lease is lost."""
    while True:
        try:
            return process.wait(LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if work.is_lost:
                break
    process.terminate()
    try:
        process.wait(END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    raise SessionConflictError(
        f"Another worker has taken {work.id} over, so the command was ended.", "lease_lost"
    )


@contextmanager
def _forwarded_signals() -> Iterator[Callable[["subprocess.Popen[bytes]"], None]]:
    """Leave it to the command what a signal means, and wait for its end: only then is the lease released.

    Yields what to call with the command once it has started; a signal that came before is not lost.
    """
    commands: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def forward(number: int, _: object) -> None:
        for process in commands:
            process.send_signal(number)
        if not commands:
            early.append(number)

    def started(process: "subprocess.Popen[bytes]") -> None:
        commands.append(process)
        for number in early:
            process.send_signal(number)

    # A terminal sends Ctrl-C to the command itself, as to all of its process group.
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, forward)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield started
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
