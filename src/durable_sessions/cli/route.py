"""``durable-sessions route``: say who gets a session next."""

import time

import click

from durable_sessions.cli.advice import command_line
from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.client import Server
from durable_sessions.cli.command_errors import CommandError, DeniedError
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.option_types import WholeNumber
from durable_sessions.cli.terminal import Output
from durable_sessions.cli.work_output import appended
from durable_sessions.client import work_calls
from durable_sessions.client.options import require_principal
from durable_sessions.times import rfc3339

_ANYONE = "*"


@click.command()
@click.argument("session", type=SESSION)
@click.argument("to", required=False)
@click.option("--anyone", is_flag=True, help="Instead of TO: clear the route.")
@click.option("--reason", required=True, help="Why.")
@click.option("--needs", multiple=True, metavar="FEATURE", help="Only once this feature passes; repeatable.")
@click.option("--see-type", multiple=True, metavar="TYPE", help="Show only this type of events; repeatable.")
@click.option("--see-last", type=WholeNumber(min=0), help="Show only this many of the last events.")
@click.option("--see-from", type=WholeNumber(min=0), help="Show only events from this position on.")
@click.option("--see-fact", multiple=True, metavar="KEY", help="Show only this fact, or prefix*; repeatable.")
@with_connection
def route(
    connection: ServerConnection,
    output: Output,
    session: str,
    to: str | None,
    anyone: bool,
    reason: str,
    needs: tuple[str, ...],
    see_type: tuple[str, ...],
    see_last: int | None,
    see_from: int | None,
    see_fact: tuple[str, ...],
) -> None:
    """Say that the principal TO gets SESSION next: nobody else can wake it until then.

    What it is shown of the session can be narrowed; that is a recorded decision, not a secret.
    """
    if (to is None) is not anyone:
        raise click.UsageError("Name the principal that gets the session, or clear the route with --anyone.")
    target = connection.as_worker(connection.find(session).id)
    event = work_calls.route(_ANYONE if to is None else to, reason, needs)
    see = {"types": list(see_type), "last": see_last, "from": see_from, "facts": list(see_fact)}
    narrowed = {name: value for name, value in see.items() if value not in (None, [])}
    if narrowed:
        event["see"] = narrowed
    to = None if to == _ANYONE else to
    said = "anyone may wake it" if to is None else f"routed to {to}"
    with connection.writing(target.id):
        done = target.append(event)
    appended(output, target, done, said)
    if to is not None and (doubt := _doubt(Server(connection.url, connection.api_key), to)):
        output.note(doubt)


def _doubt(server: Server, to: str) -> str:
    """Return why nobody may be the principal that a session was routed to, as far as the caller may know.

    Only admins see the keys. A route to who has no key yet is no error: the key may come later.
    """
    # Imported here, so that the server's rules on keys are loaded only when a route names somebody.
    from durable_sessions.cli.keys import all_keys

    try:
        keys = all_keys(server)
    except CommandError:
        return ""
    now = rfc3339(time.time_ns() // 1_000_000)
    if any(key.principal == to and key.is_valid(now) for key in keys):
        return ""
    if keys or _needs_key(server.url):
        make = command_line(["keys", "create", "--principal", to, "--role", "writer"])
        return f"No valid key is {to}'s, so nobody can wake it until there is one: {make}"
    try:
        require_principal(to)
    except ValueError as error:
        return f"{error} Nobody can wake it under this name while the server has no keys."
    return ""


def _needs_key(url: str) -> bool:
    """Say whether a server answers nobody without a key; one from its settings is in no list."""
    from durable_sessions.cli.keys import all_keys

    try:
        all_keys(Server(url, ""))
    except DeniedError:
        return True
    return False
