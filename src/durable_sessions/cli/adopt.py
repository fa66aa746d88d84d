"""``durable-sessions adopt``: take over what a branch found."""

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.empty_result import require_place
from durable_sessions.cli.option_types import Offset, OneOf
from durable_sessions.cli.terminal import Output
from durable_sessions.rendering.text import plural


@click.command()
@click.argument("session", type=SESSION)
@click.argument("branch", type=SESSION)
@click.option("--at", type=Offset(), help="BRANCH as it was there; its end if not given.")
@click.option(
    "--on-conflict",
    type=OneOf(["refuse", "theirs", "ours"]),
    default="refuse",
    show_default=True,
    help="Whose fact counts if both have changed it; theirs is the branch's.",
)
@with_connection
def adopt(
    connection: ServerConnection, output: Output, session: str, branch: str, at: str | None, on_conflict: str
) -> None:
    """Take over into SESSION the facts, verdicts and artifacts of BRANCH, a fork of it.

    What was said in the branch stays there: transcripts are never merged.
    """
    target = connection.as_worker(connection.find(session).id)
    theirs = connection.find(branch)
    require_place(connection, theirs, "--at", at)
    with connection.writing(target.id):
        taken = target.adopt(theirs.id, at=at, on_conflict=on_conflict)
    if output.json:
        output.tell({"event": taken})
        return
    if not any(taken[name] for name in ("facts", "verdicts", "artifacts")):
        output.note(f"{target.id}: there is nothing new to adopt from {theirs.id}")
        return
    counts = ((len(taken[name]), name.removesuffix("s")) for name in ("facts", "verdicts", "artifacts"))
    said = ", ".join(f"{count:,} {plural(count, noun)}" for count, noun in counts)
    output.note(f"{target.id}: {said} adopted")
