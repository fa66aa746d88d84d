"""``durable-sessions serve``: run the server until it is stopped."""

import os
import resource
import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import click
import structlog

from durable_sessions.bucket.machine_claim import MachineClaim
from durable_sessions.cli.command_errors import CommandError, WrongInputError, data_in_use
from durable_sessions.cli.created_files import CreatedFiles
from durable_sessions.cli.data_target import PRIVATE_UMASK
from durable_sessions.cli.log_format import configure_logs
from durable_sessions.cli.supervise import supervise
from durable_sessions.errors import LogLockedError, SettingsError
from durable_sessions.log.disk import REAL_DISK
from durable_sessions.log.generations import LOG_NAME
from durable_sessions.node.listen_policy import require_guarded, require_usable
from durable_sessions.settings import ENVIRONMENT_PREFIX, Settings, load

logger = structlog.get_logger(__name__)

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
@click.option(
    "--take-bucket",
    is_flag=True,
    help="Take the bucket from another server on this machine that is running on it.",
)
@_options
def serve(config: Path | None, take_bucket: bool, **options: str | None) -> None:
    """Serve streams over HTTP from a local data directory."""
    settings = _load(options, config)
    configure_logs(settings)
    os.umask(PRIVATE_UMASK)
    settings = _fit_file_limit(settings)
    if settings.data.exists() and not settings.data.is_dir():
        raise SettingsError(problem=f"data is {settings.data}, which is a file: name a directory instead.")
    created = CreatedFiles(settings)
    require_usable(settings.host, settings.port)
    if created.is_everything:
        require_guarded(settings.host, keys=bool(settings.api_key), bootstrap=settings.api_key)
    if settings.cluster:
        return _serve_in_cluster(settings, created)
    claim = MachineClaim(settings.bucket or str(settings.data / "bucket"))
    if not claim.take() and not take_bucket:
        raise _bucket_in_use(settings)
    if settings.workers > 1:
        _serve_with_workers(settings, created)
    else:
        _serve_alone(settings, created)
    return None


def _serve_in_cluster(settings: Settings, created: CreatedFiles) -> None:
    from durable_sessions.cli.cluster_process import run_node
    from durable_sessions.cli.server_process import RefusedStartError

    try:
        run_node(settings)
    except RefusedStartError as refused:
        created.remove()
        raise refused.error from None


def _serve_with_workers(settings: Settings, created: CreatedFiles) -> None:
    ended = supervise(settings)
    if ended.status:
        if not ended.has_served:
            created.remove()
        sys.exit(ended.status)  # the worker that failed has said why


def _serve_alone(settings: Settings, created: CreatedFiles) -> None:
    # Imported here, for it takes 80 MB that a supervisor of workers does not need.
    from durable_sessions.cli.server_process import RefusedStartError, run

    try:
        run(settings)
    except RefusedStartError as refused:
        created.remove()
        raise refused.error from None


def _bucket_in_use(settings: Settings) -> CommandError:
    """Return what to do when another server on this machine has the bucket, or all of the data."""
    if (settings.data / LOG_NAME).exists():
        try:
            REAL_DISK.claim(settings.data / LOG_NAME)()
        except LogLockedError as error:
            return data_in_use(error)
    return CommandError(
        f"The bucket {settings.bucket or settings.data / 'bucket'} is in use by another server on this "
        "machine. Use that one, or stop it first; to run a second one, give it a bucket of its own with "
        "--bucket. With --take-bucket this one takes the bucket: the other then stops, and what it has not "
        "flushed stays in its data directory."
    )


def _load(options: Mapping[str, str | None], config: Path | None) -> Settings:
    """Return the settings; a mistake in the options is a usage error."""
    try:
        return load(options, os.environ, config)
    except SettingsError as elsewhere:
        try:
            load(options, {}, None)  # fails as well if the options alone are wrong
        except SettingsError as error:
            raise click.UsageError(str(error)) from error
        raise WrongInputError(str(elsewhere), elsewhere.code) from elsewhere


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
