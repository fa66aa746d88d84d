"""``durable-sessions serve``: run the server until it is stopped."""

import asyncio
import os
import resource
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import click
import structlog
import uvloop

from durable_sessions import __version__
from durable_sessions.cli.command_errors import CommandError, WrongInputError
from durable_sessions.cli.log_format import configure_logs
from durable_sessions.cli.output import PRIVATE_UMASK
from durable_sessions.errors import DurableSessionsError, LogLockedError, SettingsError
from durable_sessions.log.disk import REAL_DISK
from durable_sessions.node.garbage_collector import COLLECTOR
from durable_sessions.node.listen_policy import require_guarded, require_usable
from durable_sessions.node.node import Node
from durable_sessions.settings import ENVIRONMENT_PREFIX, Settings, load
from durable_sessions.storage.allocator import reuse_large_buffers
from durable_sessions.tools.verify import LOG_NAME

logger = structlog.get_logger(__name__)

# A busy event loop keeps the GIL for this long while the log's thread, back from its sync, waits for it.
# Python's default of 5 ms would show in the latency of every append.
_SWITCH_SECONDS = 0.0005

# File descriptors for everything but client connections: log, bucket, catalog, webhooks.
_OWN_FILES = 256


def _shown(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default or "none")


def _options(command: Any) -> Any:
    """Add one option per setting to the command, from the one table of settings."""
    for item in reversed(fields(Settings)):
        assert item.default is not MISSING
        if item.metadata["file_only"] or item.metadata["secret"]:
            continue
        flag = "--" + item.name.replace("_", "-")
        variable = ENVIRONMENT_PREFIX + item.name.upper()
        text = f"{item.metadata['help']}  [{variable}; default: {_shown(item.default)}]"
        command = click.option(flag, item.name, default=None, metavar="VALUE", help=text)(command)
    return command


@click.command()
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar=ENVIRONMENT_PREFIX + "CONFIG",
    help=f"TOML file with settings.  [{ENVIRONMENT_PREFIX}CONFIG]",
)
@_options
def serve(config: Path | None, **options: str | None) -> None:
    """Serve streams over HTTP from a local data directory."""
    settings = _load(options, config)
    configure_logs(settings)
    os.umask(PRIVATE_UMASK)
    settings = _fit_file_limit(settings)
    sys.setswitchinterval(_SWITCH_SECONDS)
    COLLECTOR.bind()
    reuse_large_buffers()
    if settings.data.exists() and not settings.data.is_dir():
        raise SettingsError(problem=f"data is {settings.data}, which is a file: name a directory instead.")
    missing, bucket = _missing(settings.data), _missing_bucket(settings)
    require_usable(settings.host, settings.port)
    if missing is not None and (bucket is not None or not settings.bucket):
        # A new data directory cannot have keys yet.
        require_guarded(settings.host, keys=bool(settings.api_key), bootstrap=settings.api_key)
    try:
        uvloop.run(_serve(settings))
    except _RefusedError as refused:
        # Nothing was served, so nothing was acknowledged: the files that this start created can be removed.
        if missing is not None:
            _remove_data(settings.data, missing)
        if bucket is not None:
            _remove_empty(bucket)
        if isinstance(refused.error, LogLockedError):
            raise _in_use(refused.error) from None
        raise refused.error from None


def _load(options: Mapping[str, str | None], config: Path | None) -> Settings:
    """Return the settings; a mistake in the options is a usage error."""
    try:
        return load(options, os.environ, config)
    except SettingsError as elsewhere:
        try:
            load(options, {}, None)
        except SettingsError as error:
            raise click.UsageError(str(error)) from error
        raise WrongInputError(str(elsewhere), elsewhere.code) from elsewhere


class _RefusedError(Exception):
    """The server failed before it served a request."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _in_use(error: LogLockedError) -> CommandError:
    """Return what to do when another process has the data directory."""
    return CommandError(
        f"{error} If that is a server, use it, or stop it first with kill {error.pid}; to run a second one, "
        "give it a directory of its own with --data, and another --port.",
        error.code,
    )


def _missing(data: Path) -> Path | None:
    """Return the topmost directory that must be created for the data, None if there is data already."""
    absent = [path for path in (data.absolute(), *data.absolute().parents) if not path.exists()]
    return absent[-1] if absent else None


def _missing_bucket(settings: Settings) -> Path | None:
    """Return the topmost directory that must be created for the bucket, None if there is none."""
    if "://" in settings.bucket:
        return None
    return _missing(Path(settings.bucket) if settings.bucket else settings.data / "bucket")


def _remove_data(data: Path, highest: Path) -> None:
    """Remove a data directory that this start created, unless another server uses it by now.

    It does if another process holds the lock of the log. Parent directories are removed only if empty.
    """
    try:
        release = REAL_DISK.claim(data / LOG_NAME)
    except (LogLockedError, OSError):
        return
    try:
        shutil.rmtree(data, ignore_errors=True)
    finally:
        release()
    for parent in data.absolute().parents:
        if not parent.is_relative_to(highest):
            break
        with suppress(OSError):
            parent.rmdir()


def _remove_empty(directory: Path) -> None:
    """Remove directories that contain no file; another server may use the bucket by now."""
    found = list(os.walk(directory, topdown=False))
    for path, _, _ in found if not any(files for _, _, files in found) else ():
        with suppress(OSError):
            os.rmdir(path)


async def _serve(settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    logger.info("starting", version=__version__, pid=os.getpid())
    try:
        node = await Node.open(settings)
    except DurableSessionsError as error:
        raise _RefusedError(error) from error
    try:
        try:
            await node.listen()
        except DurableSessionsError as error:
            raise _RefusedError(error) from error
        failed, stopped = asyncio.ensure_future(node.until_failed()), asyncio.ensure_future(stop.wait())
        await asyncio.wait((failed, stopped), return_when=asyncio.FIRST_COMPLETED)
        logger.info("stopping")
        if failed.done():
            raise failed.result()
        failed.cancel()
    finally:
        await node.close()


def _fit_file_limit(settings: Settings) -> Settings:
    """Raise the limit on open files, and return settings with no more connections than it allows.

    The soft limit is raised as far as the hard one allows. Connections must never take the
    descriptors that the log needs: it would fail, and everything would stop.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    reserved = _OWN_FILES + settings.limits().refused_connections_max
    wanted = settings.connections + reserved
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return settings
    if soft <= reserved:
        raise SettingsError(
            problem=f"The process may open {soft} files; allow it more than {reserved}, or better {wanted} "
            "(ulimit -n, LimitNOFILE)."
        )
    logger.warning("connections_lowered", file_limit=soft, asked=settings.connections, now=soft - reserved)
    return replace(settings, connections=soft - reserved)
