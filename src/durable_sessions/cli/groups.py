"""Groups of commands that suggest corrections for misspelt names and list full descriptions."""

import click

from durable_sessions.cli.spelling import near

COMMANDS_NEAR_MAX = 3
_WHOLE = 1_000


class UnknownCommandError(click.UsageError):
    """There is no command of this name; ``near`` has those of similar names."""

    def __init__(self, command_name: str, near: list[str], ctx: click.Context) -> None:
        super().__init__(f"There is no command {command_name!r}.", ctx)
        self.command_name = command_name
        self.near = near


class CommandGroup(click.Group):
    """Commands under one name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command with this name; if there is none, fail and suggest similar names."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise UnknownCommandError(args[0], near(args[0], self.list_commands(ctx), COMMANDS_NEAR_MAX), ctx)
        return super().resolve_command(ctx, args)

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
