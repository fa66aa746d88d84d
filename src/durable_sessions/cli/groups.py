"""Groups of commands that suggest corrections for misspelt names and list full descriptions."""

import click

from durable_sessions.cli.examples import with_example
from durable_sessions.cli.spelling import near

COMMANDS_NEAR_MAX = 3
_WHOLE = 1_000
NAMES_ELSEWHERE = {
    "add": ("append", "create", "put"),
    "branch": ("fork",),
    "cat": ("show", "get"),
    "copy": ("fork",),
    "create": ("append",),
    "download": ("get", "export"),
    "find": ("search",),
    "follow": ("tail",),
    "grep": ("search",),
    "info": ("state",),
    "list": ("sessions", "scopes"),
    "log": ("events",),
    "logs": ("events", "log"),
    "ls": ("list", "sessions", "scopes"),
    "new": ("append", "create"),
    "read": ("show", "get"),
    "remove": ("delete", "revoke"),
    "rename": ("title",),
    "rm": ("delete", "revoke"),
    "server": ("serve",),
    "start": ("serve",),
    "status": ("state",),
    "upload": ("put", "import"),
    "view": ("show", "get"),
    "watch": ("tail",),
    "write": ("append", "put"),
}
"""Names that other programs give to commands; the first of ours that a group has is suggested."""


class UnknownCommandError(click.UsageError):
    """There is no command of this name; ``near`` has those of similar names."""

    def __init__(self, command_name: str, near: list[str], ctx: click.Context) -> None:
        super().__init__(f"There is no command {command_name!r}.", ctx)
        self.command_name = command_name
        self.near = near


class CommandGroup(click.Group):
    """Commands under one name."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name, None if there is none."""
        command = super().get_command(ctx, cmd_name)
        return None if command is None else with_example(command, f"{self.name} {cmd_name}")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command with this name; if there is none, fail and suggest similar names."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise UnknownCommandError(args[0], self._meant(ctx, args[0]), ctx)
        return super().resolve_command(ctx, args)

    def _meant(self, ctx: click.Context, given: str) -> list[str]:
        """Return the command that goes by this name elsewhere, or else those with similar names."""
        known = self.list_commands(ctx)
        same = next((name for name in NAMES_ELSEWHERE.get(given.lower(), ()) if name in known), None)
        return near(given, known, COMMANDS_NEAR_MAX) if same is None else [same]

    def sections(self, ctx: click.Context) -> dict[str, tuple[str, ...]]:
        """Return the names of the commands by section, as the help lists them."""
        return {"Commands": tuple(self.list_commands(ctx))}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands by section, each with its whole first sentence."""
        for section, names in self.sections(ctx).items():
            commands = ((name, self.get_command(ctx, name)) for name in names)
            with formatter.section(section):
                formatter.write_dl(
                    [(name, command.get_short_help_str(_WHOLE)) for name, command in commands if command]
                )
