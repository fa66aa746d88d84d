"""What a command says of values that it cannot use: what to give instead, in the words of a command line."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from durable_sessions.cli.main import cli
from tests.unit.cli.conftest import Run

_LIBRARYS_OWN = (click.Choice, click.IntRange, click.FloatRange)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("serve", "--port", "abc"), "write a whole number from 0 to 65535"),
        (("serve", "--flush-seconds", "soon"), "write a number from 0.1 to 86400 seconds"),
        (("serve", "--log-format", "jsn"), "did you mean json?"),
        (("search", "x", "--limit", "abc"), "'--limit': 'abc' is not accepted; give a whole number from 1."),
        (("search", "x", "--limit", "0"), "'0' is not accepted; give a whole number from 1."),
        (("search", "x", "--role", "usr"), "'usr' is not known. Did you mean user? Give one of user, agent,"),
        (("events", "s", "--tail", "-3"), "give a whole number from 0."),
        (
            ("events", "s", "--offset", "x"),
            "'x' is not a place in a session; give an offset as it was printed",
        ),
        (("append", "s", "--if-match", "x"), "or a position, such as 5."),
        (("append", "", "--type", "note"), "A session's id has 1 to 200 characters"),
        (("show", ".."), "does not begin with a dot"),
        (("fork", "s", "x" * 201), "A session's id has 1 to 200 characters"),
        (("import", "cluade-code"), "Did you mean claude-code? Give one of claude-code, codex,"),
        (("import", "jsonl", ".", "--quiet-seconds", "nan"), "give a number from 0.1, such as 2.5."),
        (("export", "s", "-f", "mardown"), "Did you mean markdown?"),
        (("sessions", "--status", "runing"), "Did you mean running?"),
        (("sessions", "--lifecycle", "colsed"), "Did you mean closed?"),
        (("keys", "create", "--principal", "a", "--role", "wirter"), "Did you mean writer?"),
        (("repartition", "--workers", "2"), "Did you mean --partitions? Try: ds repartition --partitions 2"),
        (("keys", "create", "--principal", "a", "--role", "reader", "--requests-per-second", "0"), "above 0"),
        (
            ("keys", "create", "--principal", "a", "--role", "reader", "--expires", "999999w"),
            "'999999w' is too far away",
        ),
        (("sessions", "--after", "999999w"), "'999999w' is too long ago."),
        (("import", "codex", ".", "--since", "999999w"), "'999999w' is too long ago."),
        (("append", "s", "--type", "note", "--field", "n:=" + "[" * 100_000), "is not JSON"),
        (("completion", "bsh"), "Did you mean bash?"),
        (("completion",), "Missing argument 'SHELL'. Give one of bash, zsh, fish."),
        (("artifact", "putt"), "There is no command 'putt'. Did you mean put?"),
        (("keys", "lst"), "There is no command 'lst'. Did you mean list?"),
    ],
)
def test_a_wrong_value_is_told_what_to_give(run: Run, arguments: tuple[str, ...], said: str) -> None:
    done = run(*arguments)
    assert done.status == 2
    assert said in done.err
    assert "invalid literal" not in done.err
    assert "valid integer range" not in done.err


def _commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from _commands(f"{name} {each}", found)


def test_no_option_answers_in_the_words_of_the_argument_library() -> None:
    plain = [
        f"{name} {each.name}"
        for name, command in _commands("ds", cli)
        for each in command.params
        if type(each.type) in _LIBRARYS_OWN or each.type in (click.INT, click.FLOAT)
    ]
    assert not plain


def test_an_option_that_there_is_not_is_only_that_where_nothing_else_is_taken(run: Run) -> None:
    done = run("flush", "-test")
    assert done.status == 2
    assert done.err.splitlines()[-1] == "ds: No such option '-t'."


def test_every_command_is_described_whole_in_eighty_columns(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name, command in _commands("ds", cli):
        if isinstance(command, click.Group):
            said = run(*name.split()[1:], "--help").out
            assert "..." not in said.partition("\n\n")[2], (name, said)
            assert all(len(line) <= 80 for line in said.splitlines())
