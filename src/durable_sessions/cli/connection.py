"""The connection of client commands: the client, and the exit status of failures."""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property

import click

from durable_sessions.cli.advice import command_for, command_line, server_words
from durable_sessions.cli.client import DEFAULT_URL, checked, server_options
from durable_sessions.cli.command_errors import ENDED, ended, explained
from durable_sessions.cli.event_lines import EventLines
from durable_sessions.cli.refusal_advice import EPOCH_VARIABLE, PRINCIPAL_VARIABLE
from durable_sessions.cli.session_lookup import find_session
from durable_sessions.cli.terminal import Output
from durable_sessions.client import Client, Session, SessionInfo
from durable_sessions.client.call import ApiCall
from durable_sessions.client.errors import ConflictError
from durable_sessions.client.options import Options, require_principal
from durable_sessions.client.transport import Transport
from durable_sessions.settings import ENVIRONMENT_PREFIX

SESSION_VARIABLE = ENVIRONMENT_PREFIX + "SESSION"
TIMEOUT_SECONDS = 30.0
RETRIES = 2
"""Few retries: a person is waiting, and should learn soon that no server answers."""
FOLLOWING_RETRIES = 200
"""Many retries: following a session should survive a restart of the server."""


class ServerConnection:
    """A server, connected for as long as a command runs."""

    def __init__(self, url: str, api_key: str, principal: str) -> None:
        self.url = url.rstrip("/") or DEFAULT_URL
        self.api_key = api_key
        self.principal = principal or None

    @cached_property
    def client(self) -> Client:
        """A client that gives up soon."""
        return self._connected(RETRIES)

    @cached_property
    def patient(self) -> Client:
        """A client that waits for a server to come back."""
        return self._connected(FOLLOWING_RETRIES)

    def _connected(self, retries: int) -> Client:
        return Client(
            self.url, self.api_key, timeout=TIMEOUT_SECONDS, retries=retries, principal=self.principal
        )

    @cached_property
    def _transport(self) -> Transport:
        chosen = Options.chosen(self.url, self.api_key, TIMEOUT_SECONDS, RETRIES, self.principal)
        return Transport(chosen)

    def find(self, session: str) -> SessionInfo:
        """Return a session by its id, or by a unique prefix of it."""
        return find_session(self.client, session, self._looked_for)

    def as_worker(self, session: str) -> Session:
        """Return a session to which this command writes under the lease that ``ds wake`` runs it with.

        The lease is that of one session; what is written to others goes without it.
        """
        return self.client.session(session, epoch=held_epoch(session))

    @contextmanager
    def writing(self, session: str) -> Iterator[None]:
        """Say which session it is, and how to go on, if it takes no more events."""
        try:
            yield
        except ConflictError as error:
            if error.code not in ENDED:
                raise
            raise ended(session, error, self.command("fork", session)) from error

    def _looked_for(self, text: str) -> str:
        words = server_words(click.get_current_context())
        return command_line(["sessions", "--archived", "-q", text, *words])

    def command(self, name: str, session: str, *options: str) -> str:
        """Return the command line of a command for a session, with the options that name the server."""
        return command_for(name, session, *options)

    def lines(self, session: str, *parameters: tuple[str, str], limit: int | None = None) -> EventLines:
        """Return the stored events of a session as lines."""
        return EventLines(self._transport, session, parameters, limit)

    def signing_keys(self) -> bytes:
        """Return the key set with the public keys that the server signs with."""
        return self._transport.send(
            ApiCall("GET", "/v1/stream/__ds/jwks.json", lambda answer: answer.content)
        )

    def close(self) -> None:
        """Close all connections."""
        for one in ("client", "patient", "_transport"):
            if one in self.__dict__:
                self.__dict__[one].close()


def held_epoch(session: str) -> int | None:
    """Return the epoch of the lease that this process runs under, None if it has none of this session."""
    epoch = os.environ.get(EPOCH_VARIABLE, "")
    if not epoch or os.environ.get(SESSION_VARIABLE, session) != session:
        return None
    if not (epoch.isascii() and epoch.isdigit()):
        raise click.UsageError(f"{EPOCH_VARIABLE} is {epoch!r}, and no number: ds wake sets it.")
    return int(epoch)


def with_connection(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that all commands share, and pass the command the connection and the Output.

    These are ``--url``, ``--api-key``, ``--principal`` and ``--json``.
    """

    @functools.wraps(command)
    def wrapped(
        *arguments: object, url: str, api_key: str, principal: str, as_json: bool, **options: object
    ) -> None:
        connection = ServerConnection(url, api_key, principal)
        try:
            with explained(connection.url):
                command(*arguments, connection=connection, output=Output(json=as_json), **options)
        finally:
            connection.close()

    as_json = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
    return server_options(_principal_option(as_json(wrapped)))


_principal_option: Callable[[Callable[..., None]], Callable[..., None]] = click.option(
    "--principal",
    envvar=PRINCIPAL_VARIABLE,
    default="",
    callback=checked(lambda name: require_principal(name or "local")),
    metavar="NAME",
    help=f"Who you are, on a server without keys.  [{PRINCIPAL_VARIABLE}]",
)
