"""``durable-sessions completion``: the script for completion in a shell."""

import click
from click.shell_completion import get_completion_class

from durable_sessions.cli.option_types import OneOf

NAMES = ("durable-sessions", "ds")


@click.command()
@click.argument("shell", type=OneOf(["bash", "zsh", "fish"]), metavar="SHELL")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that lets SHELL complete commands, options and session ids.

    \b
    bash: eval "$(durable-sessions completion bash)"    in ~/.bashrc
    zsh:  eval "$(durable-sessions completion zsh)"     in ~/.zshrc
    fish: durable-sessions completion fish | source     in ~/.config/fish/config.fish
    """
    made = get_completion_class(shell)
    assert made is not None
    for name in NAMES:
        variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
        click.echo(made(context.find_root().command, {}, name, variable).source())
