"""Commands of the server on a machine that has the client only."""

import click

from durable_sessions.cli.command_errors import CommandError

INSTALLATION = "python -m pip install 'durable-sessions[server]'"
SERVER_MODULES = frozenset(
    {
        "cryptography",
        "google_crc32c",
        "httptools",
        "obstore",
        "prometheus_client",
        "pyarrow",
        "structlog",
        "tantivy",
        "uvloop",
    }
)
"""What only the extra installs: without one of these a command needs the server."""


def is_missing_server(error: ModuleNotFoundError) -> bool:
    """Whether an import failed because the extra ``server`` is not installed."""
    return (error.name or "").partition(".")[0] in SERVER_MODULES


def server_missing(words: str) -> CommandError:
    """Return the refusal of a command that needs the server's packages."""
    return CommandError(f"{words} needs the server, and only the client is installed: {INSTALLATION}")


class ServerCommand(click.Command):
    """Stands for a command that cannot be loaded: it is listed, and says what to install when called."""

    def __init__(self, name: str) -> None:
        super().__init__(
            name,
            help=f"Needs the server: {INSTALLATION}",
            add_help_option=False,
            context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        )

    def invoke(self, ctx: click.Context) -> None:
        """Refuse, whatever the arguments are."""
        raise server_missing(ctx.command_path)
