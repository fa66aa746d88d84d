"""The help of every command shows an example, which the command takes as it is written."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from durable_sessions.cli.examples import EXAMPLES
from durable_sessions.cli.main import cli


def commands(group: click.Group = cli, before: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yield each command by its words, and no group."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*before, name))
        else:
            yield " ".join((*before, name)), command


COMMANDS = dict(commands())


def shown(words: str, help_text: str) -> list[str]:
    """Return the examples of a command in its help: lines with its name, up to what explains them."""
    lines = re.findall(rf"^ +(ds {re.escape(words)}(?: .*)?)$", help_text, re.MULTILINE)
    return [re.split(r" {3,}", line)[0] for line in lines]


def test_an_example_is_of_a_command_that_there_is() -> None:
    assert EXAMPLES.keys() <= COMMANDS.keys()


@pytest.mark.parametrize("words", COMMANDS)
def test_the_help_shows_examples_that_the_command_takes(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "data").mkdir()
    for name in ("plot.png", "issue-7.zip"):
        (tmp_path / name).write_bytes(b"a file")
    done = CliRunner().invoke(cli, [*words.split(), "--help"])
    assert done.exit_code == 0, done.output
    examples = shown(words, done.output)
    assert examples
    for example in examples:
        given = shlex.split(example)[1 + len(words.split()) :]
        # It is read and checked as a whole, and not run.
        with COMMANDS[words].make_context(words, given) as context:
            assert context.params
