"""``durable-sessions keys``: who may use a server."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import click
import httpcore2
import msgspec

from durable_sessions.access.caller import ROLES, Role
from durable_sessions.cli import first_key
from durable_sessions.cli.advice import command_line, server_words
from durable_sessions.cli.client import Server, T, with_server
from durable_sessions.cli.command_errors import (
    CommandError,
    DeniedError,
    MissingError,
    UnreachableError,
    WrongInputError,
    unreachable,
)
from durable_sessions.cli.confirmation import confirm, with_yes
from durable_sessions.cli.groups import CommandGroup
from durable_sessions.cli.option_types import Future, Number, OneOf
from durable_sessions.settings import ENVIRONMENT_PREFIX, Settings
from durable_sessions.times import rfc3339

ROUTE = "/v1/keys"
_WANT_PROOF = ("first_key_refused", "keys_required")


class ServerKey(msgspec.Struct):
    """A key as the server returns it; the secret only when it was just created."""

    id: str
    workspace: str
    principal: str
    role: str
    requests_per_second: float | None
    expires_at: str | None
    created_at: str
    created_by: str
    last_used_at: str | None
    revoked_at: str | None
    revoked_by: str | None
    secret: str | msgspec.UnsetType = msgspec.UNSET

    def has_expired(self, now: str) -> bool:
        """Say whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now

    def is_valid(self, now: str) -> bool:
        """Say whether it lets anybody in."""
        return self.revoked_at is None and not self.has_expired(now)


class _Page(msgspec.Struct):
    data: list[ServerKey]
    next_page: str | None


_as_json = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")


@click.group(cls=CommandGroup)
def keys() -> None:
    """Create, list and revoke the keys of a running server.

    The first is made by who can read the server's data directory; from then on it takes an admin's key.
    """


@keys.command()
@with_server
@_as_json
@click.option("--principal", required=True, metavar="NAME", help="Who it is for: a person or program.")
@click.option("--role", type=OneOf([*ROLES]), required=True, help="What it may do.")
@click.option("--workspace", metavar="NAME", help="Where it works; your own workspace if not given.")
@click.option(
    "--requests-per-second",
    type=Number(min=0, min_open=True),
    metavar="RATE",
    help="Its rate; if not given, any.",
)
@click.option("--expires", type=Future(), help="When it ends, such as 30d; if not given, never.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    envvar=ENVIRONMENT_PREFIX + "DATA",
    default=Settings.__dataclass_fields__["data"].default,
    show_default=True,
    help=f"For the first key: the server's data directory.  [{ENVIRONMENT_PREFIX}DATA]",
)
@click.option(
    "--output",
    "-o",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the secret to a new file that only you can read.",
)
def create(
    server: Server,
    as_json: bool,
    principal: str,
    role: str,
    workspace: str | None,
    requests_per_second: float | None,
    expires: str | None,
    data: Path,
    path: Path | None,
) -> None:
    """Create a key and print its secret, which cannot be shown again."""
    # The file is made first: after the key is created there is no second chance to write its secret down.
    with _new_private_file(path) as file:
        key = _create(server, principal, role, workspace, requests_per_second, expires, data)
        if file is not None and isinstance(key.secret, str):
            _write_durably(file, key.secret + "\n")
            key.secret = msgspec.UNSET
    if as_json:
        click.echo(msgspec.json.encode(key))
        return
    until = "" if key.expires_at is None else f", until {_minute(key.expires_at)} UTC"
    click.echo(f"{key.id}: {key.role} {key.principal} in the workspace {key.workspace}{until}")
    if path is not None:
        click.echo(f"The secret is in {path}: the server knows only its hash and cannot show it.", err=True)
        return
    click.echo(f"{key.secret}")
    click.echo("Keep the line above: the server knows only its hash and cannot show it again.", err=True)


@contextmanager
def _new_private_file(path: Path | None) -> Iterator[int | None]:
    """Open a new file that only its owner can read, before a key is created whose secret it is for.

    An existing file is never replaced: it may have the only copy of another secret. After a failure the new
    file is removed.
    """
    if path is None:
        yield None
        return
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise WrongInputError(
            f"{path} exists and is never overwritten: it may have the only copy of a secret. No key was made."
        ) from error
    except OSError as error:
        raise WrongInputError(f"{path} cannot be made: {error.strerror}. No key was made.") from error
    try:
        yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(file)


def _write_durably(file: int, text: str) -> None:
    os.write(file, text.encode())
    os.fsync(file)


def _create(
    server: Server,
    principal: str,
    role: str,
    workspace: str | None,
    requests_per_second: float | None,
    expires: str | None,
    data: Path,
) -> ServerKey:
    # Without a key only the first one can be made, by whoever can read the data directory.
    if not server.api_key:
        server = replace(server, proof=first_key.proof(server.url, data))
    wanted: dict[str, object] = {"principal": principal, "role": role}
    given = {"workspace": workspace, "requests_per_second": requests_per_second, "expires_at": expires}
    wanted |= {name: value for name, value in given.items() if value is not None}
    try:
        return _ask(server, "POST", ROUTE, ServerKey, wanted)
    except CommandError as error:
        # Whoever gave a proof, and was refused all the same, needs no advice on how to give one.
        if error.code not in _WANT_PROOF or server.proof is not None:
            raise
        raise DeniedError(f"{error.message} {first_key.advice(data)}") from error


@keys.command(name="list")
@with_server
@_as_json
@click.option("--all", "everything", is_flag=True, help="Also those that were revoked or have expired.")
def list_keys(server: Server, as_json: bool, everything: bool) -> None:
    """List the keys of your workspace; an operator sees those of all workspaces."""
    now = rfc3339(time.time_ns() // 1_000_000)
    all_of_them = all_keys(server)
    shown = [key for key in all_of_them if everything or key.is_valid(now)]
    if as_json:
        for key in shown:
            click.echo(msgspec.json.encode(key))
        return
    if not shown:
        click.echo(_none(all_of_them, server), err=True)
        return
    _print_table(
        ("ID", "WORKSPACE", "PRINCIPAL", "ROLE", "RATE", "CREATED", "LAST USED", "EXPIRES", "REVOKED"),
        [
            (
                key.id,
                key.workspace,
                key.principal,
                key.role,
                "-" if key.requests_per_second is None else f"{key.requests_per_second:g}/s",
                _minute(key.created_at),
                _minute(key.last_used_at),
                _minute(key.expires_at) + (" (expired)" if key.has_expired(now) else ""),
                _minute(key.revoked_at),
            )
            for key in shown
        ],
    )


@keys.command()
@with_server
@_as_json
@click.argument("key_id")
@with_yes
def revoke(server: Server, as_json: bool, key_id: str, is_sure: bool) -> None:
    """Revoke a key: it lets nobody in from this moment on.

    Before the last admin's key of a workspace is revoked you are asked.
    """
    if not is_sure:
        _confirm_last(all_keys(server), key_id)
    try:
        key = _ask(server, "DELETE", f"{ROUTE}/{quote(key_id, safe='')}", ServerKey)
    except MissingError as error:
        listed = command_line(["keys", "list", *server_words(click.get_current_context())])
        raise MissingError(
            f"There is no key {key_id}. See those that there are with: {listed}", error.code
        ) from error
    if as_json:
        click.echo(msgspec.json.encode(key))
    else:
        click.echo(f"{key.id}: revoked at {key.revoked_at}")


def _none(keys: Sequence[ServerKey], server: Server) -> str:
    """Return what to say when no key is listed."""
    if keys:
        return "No key lets anybody in any more; see those that did with --all."
    create = ["keys", "create", "--principal", "admin", "--role", "admin"]
    return (
        f"{server.url} has no keys yet, and answers everybody on its machine. To require keys, create the "
        "first where it runs; --data names its data directory if that is not ./data.\n"
        f"Try: {command_line([*create, *server_words(click.get_current_context())])}"
    )


def all_keys(server: Server) -> list[ServerKey]:
    """Return all keys that may be seen, those that let nobody in any more included."""
    found: list[ServerKey] = []
    page: str | None = ""
    while page is not None:
        answer = _ask(server, "GET", f"{ROUTE}?limit=1000" + (f"&page={page}" if page else ""), _Page)
        found += answer.data
        page = answer.next_page
    return found


def _confirm_last(keys: Sequence[ServerKey], key_id: str) -> None:
    """Ask before the last key is revoked that can make keys for its workspace."""
    now = rfc3339(time.time_ns() // 1_000_000)
    valid = {key.id: key for key in keys if ROLES.get(key.role, 0) >= Role.ADMIN and key.is_valid(now)}
    last = valid.pop(key_id, None)
    if last is None or any(key.workspace == last.workspace for key in valid.values()):
        return
    confirm(
        f"Revoke {last.id}, the last admin's key in the workspace {last.workspace}? Nobody there can make or "
        "revoke keys after it, unless the server is started with DURABLE_SESSIONS_API_KEY.",
        is_sure=False,
    )


def _ask(server: Server, method: str, path: str, shape: type[T], body: object = None) -> T:
    try:
        return server.ask(method, path, shape, body)
    except httpcore2.ConnectError as error:
        raise UnreachableError(unreachable(server.url, str(error))) from error


def _minute(at: str | None) -> str:
    return "-" if at is None else at[:16].replace("T", " ")


def _print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
