"""Requests to the server by operator commands: its address, the key, and one call."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import click
import httpcore2
import msgspec

from durable_sessions.cli.command_errors import UnreachableError, key_needed, meaning, other_server
from durable_sessions.cli.option_names import in_options
from durable_sessions.client import connection_problems
from durable_sessions.client.options import require_address, require_key
from durable_sessions.settings import ENVIRONMENT_PREFIX

DEFAULT_URL = "http://127.0.0.1:4437"
CONNECT_SECONDS_MAX = 5.0
ANSWER_SECONDS_MAX = 60.0
_WANT_KEY = (401, 403, 407)

T = TypeVar("T")


class _Details(msgspec.Struct):
    error_code: str = ""


class _Refusal(msgspec.Struct):
    message: str
    code: str = ""
    details: _Details = msgspec.field(default_factory=_Details)


class _Answer(msgspec.Struct):
    error: _Refusal


@dataclass(frozen=True, slots=True)
class Server:
    """A server and the key for it."""

    url: str
    api_key: str
    proof: tuple[str, str] | None = None
    """A header that proves access to the server's data directory."""

    def ask(
        self,
        method: str,
        path: str,
        shape: type[T],
        body: object = None,
        *,
        seconds_max: float = ANSWER_SECONDS_MAX,
    ) -> T:
        """Return the decoded answer; fail with the server's message if it refused. May raise ConnectError."""
        content = b"" if body is None else msgspec.json.encode(body)
        headers: dict[bytes | str, bytes | str] = {
            "Content-Length": str(len(content)),
            "Content-Type": "application/json",
        }
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        elif self.proof is not None:
            headers[self.proof[0]] = self.proof[1]
        timeouts = {"connect": CONNECT_SECONDS_MAX, "read": seconds_max, "write": CONNECT_SECONDS_MAX}
        try:
            answer = httpcore2.request(
                method,
                self.url.rstrip("/") + path,
                headers=headers,
                content=content,
                extensions={"timeout": timeouts},
            )
        except httpcore2.ConnectError as error:
            # Nothing was sent, so callers may go on without a server; unless nobody could ever connect like
            # this.
            reason = connection_problems.reason_of(error, self.url)
            if connection_problems.is_final(error):
                raise UnreachableError(f"{self.url} cannot be used: {reason}.") from error
            raise httpcore2.ConnectError(reason) from error
        except (httpcore2.UnsupportedProtocol, httpcore2.LocalProtocolError, ValueError) as error:
            raise click.UsageError(f"{self.url} is not the address of a server: {error}") from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
            why = connection_problems.reason_of(error, self.url)
            raise UnreachableError(f"{self.url} did not answer ({why}).") from error
        if not 200 <= answer.status < 300:
            said = _said(self.url, answer.status, answer.content)
            text = key_needed(said.message) if answer.status == 401 else in_options(said.message)
            raise meaning(answer.status)(text, said.details.error_code)
        try:
            return msgspec.json.decode(answer.content, type=shape)
        except (msgspec.MsgspecError, ValueError) as error:
            raise UnreachableError(other_server(self.url)) from error


def _said(url: str, status: int, content: bytes) -> _Refusal:
    try:
        said = msgspec.json.decode(content, type=_Answer).error
        if said.code == "route_not_found":
            raise UnreachableError(other_server(url, status))
        return said
    except (msgspec.MsgspecError, ValueError):
        if status < 500 and status not in _WANT_KEY:
            raise UnreachableError(other_server(url, status)) from None
        text = content[:1_000].decode(errors="replace")
        return _Refusal(f"{url} answered {status}, not as a Durable Sessions server would: {text}")


def with_server(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--url`` and ``--api-key`` to a command, and pass it the Server."""

    @functools.wraps(command)
    def wrapped(*arguments: object, url: str, api_key: str, **options: object) -> None:
        command(*arguments, server=Server(url, api_key), **options)

    return server_options(wrapped)


def checked(require: Callable[[str], None]) -> Callable[[click.Context, click.Parameter, str], str]:
    """Return a callback that refuses a value with the message of the client."""

    def check(_: click.Context, __: click.Parameter, value: str) -> str:
        try:
            require(value)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        return value

    return check


def server_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--url`` and ``--api-key`` to a command."""
    for option in (
        click.option(
            "--api-key",
            envvar=ENVIRONMENT_PREFIX + "API_KEY",
            default="",
            callback=checked(require_key),
            metavar="KEY",
            help=f"The key to show; the variable keeps it from other eyes.  [{ENVIRONMENT_PREFIX}API_KEY]",
        ),
        click.option(
            "--url",
            envvar=ENVIRONMENT_PREFIX + "URL",
            default=DEFAULT_URL,
            callback=checked(require_address),
            show_default=True,
            help=f"Where the server is.  [{ENVIRONMENT_PREFIX}URL]",
        ),
    ):
        command = option(command)
    return command
