"""``durable-sessions mcp``: an agent's own past, as tools of the Model Context Protocol."""

import asyncio
import os

import click
from click.core import ParameterSource

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.command_errors import CommandError
from durable_sessions.cli.connection import SESSION_VARIABLE, ServerConnection, held_epoch, with_connection
from durable_sessions.cli.option_types import Pair, WholeNumber
from durable_sessions.cli.terminal import Output
from durable_sessions.mcp.options import ANSWER_BYTES, ANSWER_BYTES_MAX, ANSWER_BYTES_MIN, PastOptions
from durable_sessions.settings import ENVIRONMENT_PREFIX

_PORT_MAX = 65_535
_KEY_VARIABLE = ENVIRONMENT_PREFIX + "API_KEY"
_MISSING = (
    "ds mcp needs the library of the Model Context Protocol. Install it with: "
    "python -m pip install 'durable-sessions[mcp]'"
)


@click.command()
@with_connection
@click.option("--http", "address", metavar="[HOST:]PORT", help="Serve HTTP, at /mcp, and not standard input.")
@click.option(
    "--session",
    type=SESSION,
    envvar=SESSION_VARIABLE,
    help=f"The session that the agent works in: left out of searches, and written to.  [{SESSION_VARIABLE}]",
)
@click.option("--write", is_flag=True, help="Offer tools that append notes, facts and memory.")
@click.option("--only", type=Pair(), multiple=True, help="Only sessions with this metadata; repeatable.")
@click.option("--scope", metavar="SCOPE", help="Only this scope of memory, such as project:calc.")
@click.option(
    "--bytes",
    "bytes_max",
    type=WholeNumber(min=ANSWER_BYTES_MIN, max=ANSWER_BYTES_MAX),
    default=ANSWER_BYTES,
    show_default=True,
    help="The most bytes of one answer.",
)
@click.option("--no-redact", is_flag=True, help="Show secrets that can be recognised by their format.")
@click.option("--allowed-host", "hosts", multiple=True, help="With --http: a name it has; repeatable.")
@click.option("--allowed-origin", "origins", multiple=True, help="With --http: pages that may; repeatable.")
def mcp(
    connection: ServerConnection,
    output: Output,
    address: str | None,
    session: str | None,
    write: bool,
    only: tuple[tuple[str, str], ...],
    scope: str | None,
    bytes_max: int,
    no_redact: bool,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
) -> None:
    """Let an agent search and read earlier sessions, by the Model Context Protocol.

    \b
    claude mcp add past -- ds mcp                     for an agent on this machine
    ds mcp --only team=infra --scope project:calc     less than everything
    ds mcp --http 8642                                at http://127.0.0.1:8642/mcp

    What the agent may see is what the key may, and of that only what --only and --scope leave. Over HTTP
    each caller sends a key of its own; the one of this command is not used.
    """
    try:
        from durable_sessions.mcp import serving, web
    except ImportError as error:
        raise CommandError(_MISSING) from error
    epoch = None if session is None else held_epoch(session)
    options = PastOptions(write, session, epoch, dict(only), scope, bytes_max, not no_redact)
    if address is None:
        if hosts or origins:
            raise click.UsageError("--allowed-host and --allowed-origin go with --http.")
        serving.serve_stdio(connection.url, connection.api_key or None, connection.principal, options)
        return
    host, port = _host_and_port(address)
    _forget_own_key()
    if host not in web.LOOPBACK and not asyncio.run(web.demands_key(connection.url)):
        raise CommandError(
            f"{connection.url} wants no key: everybody who reaches {host} could read all sessions. "
            "Make keys (ds keys create), or listen on 127.0.0.1."
        )

    def ready(port: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        output.note(f"MCP at http://{shown}:{port}{web.PATH}, for the sessions of {connection.url}")

    serving.serve_http(
        connection.url, connection.principal, options, host, port, hosts=hosts, origins=origins, ready=ready
    )


def _forget_own_key() -> None:
    """Drop the key of this command: a caller without one must not act with it."""
    context = click.get_current_context()
    if context.get_parameter_source("api_key") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--api-key goes without --http: each caller sends a key of its own.")
    os.environ.pop(_KEY_VARIABLE, None)


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= _PORT_MAX):
        raise click.UsageError("--http takes a port, or a host and a port: 8642, 127.0.0.1:8642, [::1]:8642.")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)
