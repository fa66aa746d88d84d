"""The target of operator commands: data directory and bucket, how to open them, and the output."""

import asyncio
import functools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec
from click.core import ParameterSource

from durable_sessions.bucket.local import LocalStore
from durable_sessions.bucket.partition_layout import PartitionLayout
from durable_sessions.bucket.store import SCHEMES, Bucket
from durable_sessions.cli.command_errors import CommandError, UnreachableError
from durable_sessions.errors import LogLockedError, SettingsError
from durable_sessions.ids import RandomIds
from durable_sessions.log.disk import REAL_DISK
from durable_sessions.settings import ENVIRONMENT_PREFIX, Settings, load
from durable_sessions.tools.likely_layout import likely_layout
from durable_sessions.tools.verify import LOG_NAME

PRIVATE_UMASK = 0o077
"""Files that a command creates in a data directory are private."""
IN_USE_ADVICE = "If that is its server, give the address of that with --url; otherwise wait, or stop it."


@dataclass(frozen=True, slots=True)
class DataTarget:
    """The data of a command, and whether its output is JSON."""

    settings: Settings
    json: bool

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.settings.data

    @property
    def location(self) -> str:
        """Where the bucket is."""
        return self.settings.bucket or str(self.data / "bucket")

    async def open_bucket(self, *, writable: bool = False) -> Bucket:
        """Open the bucket; unless ``writable``, not even its directory is created."""
        if writable or self.location.startswith(SCHEMES) or "://" in self.location:
            return await Bucket.open(self.location)
        return Bucket(LocalStore(Path(self.location), RandomIds()), self.location)

    def require_data(self) -> None:
        """Refuse a data directory that does not exist."""
        if not self.data.is_dir():
            raise click.UsageError(f"The data directory {self.data} does not exist. Name it with --data.")

    def require_instead_of(self, url: str, why: Exception) -> None:
        """Refuse to open the data directory instead of a server that does not answer, unless it was given."""
        source = click.get_current_context().get_parameter_source
        # Whoever names a server means that one; a directory that merely is at the default place may be
        # another's.
        names_data = any(source(name) is not ParameterSource.DEFAULT for name in ("data", "config"))
        if source("url") is ParameterSource.COMMANDLINE and not names_data:
            raise UnreachableError(
                f"Nothing answers at {url} ({why}).\n"
                "To open the data directory of a stopped server, name it with --data."
            )
        if not self.data.is_dir():
            raise click.UsageError(
                f"Nothing answers at {url} ({why}), and the data directory {self.data} does not exist. "
                "Name the server with --url, or the directory with --data."
            )

    def require_bucket(self) -> None:
        """Refuse a bucket in a data directory that does not exist."""
        if not self.settings.bucket:
            self.require_data()

    async def layout(self) -> PartitionLayout:
        """Return how the bucket is divided; as far as can be told, if that is damaged."""
        return await likely_layout(await self.open_bucket())

    @contextmanager
    def locked(self, otherwise: str) -> Iterator[PartitionLayout]:
        """Hold the locks of all logs, so that no server can run; ``otherwise`` says what to do if one is."""
        self.require_data()
        layout = asyncio.run(self.layout())
        with ExitStack() as locks:
            for one in layout.all:
                try:
                    locks.callback(REAL_DISK.claim(one.directory(self.data) / LOG_NAME))
                except LogLockedError as error:
                    raise CommandError(f"{error} {otherwise}", error.code) from error
            yield layout

    def say(self, text: str = "") -> None:
        """Print a line for people; nothing with ``--json``."""
        if not self.json:
            click.echo(text)

    def tell(self, answer: object) -> None:
        """Print a line of JSON; nothing without ``--json``."""
        if self.json:
            click.echo(msgspec.json.encode(answer))


def with_target(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--data``, ``--bucket``, ``--config`` and ``--json`` to a command, and pass it the DataTarget."""

    @functools.wraps(command)
    def wrapped(
        data: str | None, bucket: str | None, config: Path | None, as_json: bool, **options: object
    ) -> None:
        try:
            settings = load({"data": data, "bucket": bucket}, os.environ, config)
        except SettingsError as error:
            raise click.UsageError(str(error)) from error
        # For all that the command creates, temporary files and those of SQLite included.
        before = os.umask(PRIVATE_UMASK)
        try:
            command(DataTarget(settings, as_json), **options)
        finally:
            os.umask(before)

    answered: Callable[..., None] = wrapped
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Answer in JSON."),
        click.option(
            "--config",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar=ENVIRONMENT_PREFIX + "CONFIG",
            help=f"TOML file with settings, as for serve.  [{ENVIRONMENT_PREFIX}CONFIG]",
        ),
        _setting("bucket", "Where flushed data is; bucket in the data directory if not given."),
        _setting("data", "Directory that holds the log; ./data if not given."),
    ):
        answered = option(answered)
    return answered


def _setting(name: str, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    variable = ENVIRONMENT_PREFIX + name.upper()
    return click.option(f"--{name}", default=None, metavar="VALUE", help=f"{text}  [{variable}]")


def shortened(data: bytes, most: int = 72) -> str:
    """Return bytes as one line of printable text, cut off at the end if it is longer than ``most``."""
    text = data.decode(errors="backslashreplace")
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= most else f"{text[: most - 1]}…"
