"""The connection of client commands: the client, and the exit status of failures."""

import functools
from collections.abc import Callable, Iterator
from functools import cached_property

import click
from click.core import ParameterSource

from durable_sessions.cli.advice import command_line
from durable_sessions.cli.client import DEFAULT_URL, server_options
from durable_sessions.cli.command_errors import explained
from durable_sessions.cli.event_lines import EventLines
from durable_sessions.cli.session_lookup import find_session
from durable_sessions.cli.terminal import Output
from durable_sessions.client import Client, SessionInfo
from durable_sessions.client.options import Options
from durable_sessions.client.transport import Transport

TIMEOUT_SECONDS = 30.0
RETRIES = 2
"""Few retries: a person is waiting, and should learn soon that no server answers."""
FOLLOWING_RETRIES = 200
"""Many retries: following a session should survive a restart of the server."""


class ServerConnection:
    """A server, connected for as long as a command runs."""

    def __init__(self, url: str, api_key: str) -> None:
        self.url = url.rstrip("/") or DEFAULT_URL
        self._api_key = api_key

    @cached_property
    def client(self) -> Client:
        """A client that gives up soon."""
        return Client(self.url, self._api_key, timeout=TIMEOUT_SECONDS, retries=RETRIES)

    @cached_property
    def patient(self) -> Client:
        """A client that waits for a server to come back."""
        return Client(self.url, self._api_key, timeout=TIMEOUT_SECONDS, retries=FOLLOWING_RETRIES)

    @cached_property
    def _transport(self) -> Transport:
        return Transport(Options.chosen(self.url, self._api_key, TIMEOUT_SECONDS, RETRIES))

    def find(self, session: str) -> SessionInfo:
        """Return a session by its id, or by a unique prefix of it."""
        return find_session(self.client, session, self._looked_for)

    def _looked_for(self, text: str) -> str:
        words = server_words(click.get_current_context())
        return command_line(["sessions", "--archived", "-q", text, *words])

    def command(self, name: str, session: str, *options: str) -> str:
        """Return the command line of a command for a session, with the options that name the server."""
        words = [*options, *server_words(click.get_current_context())]
        if session.startswith("-"):  # otherwise it would be taken for an option
            return command_line([name, *words, "--", session])
        return command_line([name, session, *words])

    def lines(self, session: str, *parameters: tuple[str, str], limit: int | None = None) -> EventLines:
        """Return the stored events of a session as lines."""
        return EventLines(self._transport, session, parameters, limit)

    def close(self) -> None:
        """Close all connections."""
        for one in ("client", "patient", "_transport"):
            if one in self.__dict__:
                self.__dict__[one].close()


def server_words(context: click.Context) -> Iterator[str]:
    """Yield the options of the command line that name the server and the key."""
    for name, option in (("url", "--url"), ("api_key", "--api-key")):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            yield from (option, context.params[name])


def with_connection(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--url``, ``--api-key`` and ``--json`` to a command, and pass it the connection and the Output."""

    @functools.wraps(command)
    def wrapped(*arguments: object, url: str, api_key: str, as_json: bool, **options: object) -> None:
        connection = ServerConnection(url, api_key)
        try:
            with explained(connection.url):
                command(*arguments, connection=connection, output=Output(json=as_json), **options)
        finally:
            connection.close()

    return server_options(click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")(wrapped))
