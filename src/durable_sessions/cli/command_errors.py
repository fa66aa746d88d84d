"""Errors of client commands: their messages and exit statuses."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import click

from durable_sessions.cli.advice import PROGRAM
from durable_sessions.cli.refusal_advice import in_words_of_commands
from durable_sessions.client import errors
from durable_sessions.errors import (
    DurableSessionsError,
    LogLockedError,
    ObjectNotFoundError,
    StreamNotFoundError,
)
from durable_sessions.rendering.text import clean

INTERRUPTED = 130
KEY_ADVICE = "Give a key with --api-key, or better in DURABLE_SESSIONS_API_KEY."


class CommandError(click.ClickException):
    """A failure with a short message; each kind has its own exit status.

    ``kind`` is its name in the output with ``--json``.
    """

    exit_code = 1
    kind = "failed"

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(clean(message))
        self.code = code  # the server's error code, if it refused


class WrongInputError(CommandError):
    """What was given is not what the command takes."""

    exit_code = 2
    kind = "wrong_input"


class MissingError(CommandError):
    """There is no such session, event or artifact."""

    exit_code = 3
    kind = "not_found"


class UnreachableError(CommandError):
    """No server answers."""

    exit_code = 4
    kind = "unreachable"


class DeniedError(CommandError):
    """The key is missing, unknown, or not allowed to do this."""

    exit_code = 5
    kind = "denied"


class SessionConflictError(CommandError):
    """The session is closed, archived, longer than expected, or there is another one already."""

    exit_code = 6
    kind = "conflict"


class NotStartedError(CommandError):
    """A command that was to be run cannot be; the status is that of a shell."""

    exit_code = 127
    kind = "not_started"


class InterruptedCommandError(CommandError):
    """Somebody pressed Ctrl-C."""

    exit_code = INTERRUPTED
    kind = "interrupted"


_KINDS: tuple[tuple[type[errors.ApiError], type[CommandError]], ...] = (
    (errors.BadRequestError, WrongInputError),
    (errors.TooLargeError, WrongInputError),
    (errors.NotFoundError, MissingError),
    (errors.PermissionDeniedError, DeniedError),
    (errors.ConflictError, SessionConflictError),
    (errors.PreconditionFailedError, SessionConflictError),
)


ENDED = {"stream_closed": "is closed", "session_archived": "is archived"}
"""Why a session takes no more events, in words, by the code of the refusal."""
_OTHERS_TURN = ("lease_lost", "lease_required", "not_routed")
"""Refusals with 403 that no other key would help against: somebody else has the session."""
_NOTHING_THERE = (404, 405, 501)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_DEFAULT_PORT = 4437
_NO_ROUTE = "route_not_found"
_MISSING = (ObjectNotFoundError, StreamNotFoundError)
_BY_STATUS = {
    400: WrongInputError,
    401: DeniedError,
    403: DeniedError,
    404: MissingError,
    409: SessionConflictError,
    410: MissingError,
    412: SessionConflictError,
    413: WrongInputError,
}


def meaning(status: int) -> type[CommandError]:
    """Return the error class for an HTTP status."""
    return _BY_STATUS.get(status, CommandError)


def failed(error: DurableSessionsError) -> CommandError:
    """Return a failure of the product itself, of a command that works on a data directory, as an error."""
    kind = MissingError if isinstance(error, _MISSING) else CommandError
    return kind(str(error), error.code)


def described(error: Exception) -> click.ClickException:
    """Return an expected failure of a command as an error with a message and an exit status."""
    if isinstance(error, click.ClickException):
        return error
    if isinstance(error, DurableSessionsError):
        return failed(error)
    return CommandError(_said(error) if isinstance(error, OSError) else str(error) or repr(error))


def _said(error: OSError) -> str:
    """Return what the operating system refused, and of which file."""
    said = error.strerror or str(error)
    return f"{error.filename}: {said}" if error.filename is not None else said


@contextmanager
def explained(url: str) -> Iterator[None]:
    """Turn the client's exceptions into messages that a person can act on."""
    try:
        yield
    except errors.ConnectionFailedError as error:
        raise UnreachableError(_unreachable(url, error)) from error
    except errors.AuthenticationError as error:
        raise DeniedError(key_needed(error.message), _code(error)) from error
    except errors.ApiError as error:
        if is_elsewhere(error):
            raise UnreachableError(other_server(url, error.status)) from error
        raise kind_of(error)(_refused(error), _code(error)) from error
    except errors.UnexpectedAnswerError as error:
        raise UnreachableError(other_server(url)) from error
    except errors.ClientError as error:
        raise CommandError(str(error)) from error


def _code(error: errors.ApiError) -> str:
    """Return the server's code for a refusal; empty if something in between has refused."""
    return error.code if error.by_server else ""


def kind_of(error: errors.ApiError) -> type[CommandError]:
    """Return what a refusal by the server means for a command."""
    if error.code in _OTHERS_TURN:
        return SessionConflictError
    return next((ours for theirs, ours in _KINDS if isinstance(error, theirs)), CommandError)


def ended(session: str, error: errors.ApiError, fork: str) -> SessionConflictError:
    """Return what to say of a session that takes no more events; ``fork`` is the command that goes on."""
    return SessionConflictError(
        f"{session} {ENDED[error.code]} and takes no more events. To go on, fork it: {fork}", error.code
    )


def is_elsewhere(error: errors.ApiError) -> bool:
    """Say whether what answered is no Durable Sessions server, or one that is not at this path."""
    is_no_route = not error.by_server or error.code == _NO_ROUTE
    return is_no_route and (300 <= error.status < 400 or error.status in _NOTHING_THERE)


def other_server(url: str, status: int | None = None) -> str:
    """Return what to do about an address where something else answers."""
    parts = urlsplit(url)
    answered = "" if status is None else f": it answered {status}"
    without = f"{parts.scheme}://{parts.netloc}"
    advice = f"without a path, such as {without}" if without != url else "with its port"
    return (
        f"{url} is not the address of a Durable Sessions server{answered}.\n"
        f"Name the one you mean with --url or DURABLE_SESSIONS_URL, {advice}."
    )


def key_needed(message: str) -> str:
    """Return what is wrong with the key, as the server says, and how a command is given another one.

    Its first sentence says what is wrong; what follows is about headers.
    """
    said = message.partition(". ")[0].rstrip(".").replace("none was sent", "none was given")
    return f"{said}. {KEY_ADVICE}"


def _refused(error: errors.ApiError) -> str:
    message = in_words_of_commands(error)
    if error.outcome_unknown:
        return f"{message} An earlier attempt got no answer, so it may have been done all the same."
    return message


def unreachable(url: str, reason: str) -> str:
    """Return what to do about an address where nothing answers."""
    parts = urlsplit(url)
    serve = "serve" if parts.port == _DEFAULT_PORT else f"serve --port {parts.port}"
    start = f"Start a server with: {PROGRAM} {serve}\n" if parts.port and parts.hostname in _LOOPBACK else ""
    name = f"{'or name' if start else 'Name'} the one you mean with --url or DURABLE_SESSIONS_URL."
    return f"Nothing answers at {url} ({reason}).\n{start}{name}"


def _unreachable(url: str, error: errors.ConnectionFailedError) -> str:
    if error.is_final:
        return f"{url} cannot be used: {error.reason}."
    if error.outcome_unknown:
        return f"{url} did not answer ({error.reason}); what was asked for may have been done all the same."
    return unreachable(url, error.reason)


def data_in_use(error: LogLockedError) -> CommandError:
    """Return what to do when another process has the data directory."""
    return CommandError(
        f"{error} If that is a server, use it, or stop it first with kill {error.pid}; to run a second one, "
        "give it a directory of its own with --data, and another --port.",
        error.code,
    )
