"""Command lines that are suggested for a mistyped one: they can be pasted, and keep all that was typed."""

import shlex
from collections.abc import Iterator

import click
import pytest

from durable_sessions.cli.groups import NAMES_ELSEWHERE
from durable_sessions.cli.main import cli
from tests.unit.cli.conftest import Run


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("sesions --limit 3", "sessions --limit 3"),
        ("shwo nightly-7 --last 5", "show nightly-7 --last 5"),
        ("tall 'a b' --last 5", "tail 'a b' --last 5"),
        ("help kyes create", "help keys create"),
        ("keys lst --all", "keys list --all"),
        ("sessions --lmit 3", "sessions --limit 3"),
        ("sessions --lmit=3 -q x", "sessions --limit=3 -q x"),
        ("append s --tpye note --text 'two words'", "append s --type note --text 'two words'"),
        ("--json sessions", "sessions --json"),
        ("--url http://127.0.0.1:9 show s --last 5", "show --url http://127.0.0.1:9 s --last 5"),
        ("--json keys list", "keys list --json"),
        ("keys --json list --all", "keys list --json --all"),
        ("--last 3 show s", "show --last 3 s"),
        ("search -test", "search -- -test"),
        ("search -test --limit 3", "search --limit 3 -- -test"),
        ("title s -test", "title -- s -test"),
        ("title s -test --json --url http://127.0.0.1:9", "title --json --url http://127.0.0.1:9 -- s -test"),
        ("verify /tmp", "verify --data /tmp"),
        ("serve /tmp --port 9", "serve --data /tmp --port 9"),
        ("append s '-5 degrees'", "append -- s '-5 degrees'"),
        ("shwo s --api-key secret", 'show s --api-key "$DURABLE_SESSIONS_API_KEY"'),
        ("shwo s --api-key=secret", 'show s --api-key="$DURABLE_SESSIONS_API_KEY"'),
    ],
)
def test_a_mistyped_command_line_is_corrected_as_a_whole(run: Run, typed: str, meant: str) -> None:
    said = run(*shlex.split(typed))
    assert said.status == 2
    if "--json" not in typed:
        assert said.err.rstrip().endswith(f": ds {meant}")
    else:
        assert f': ds {meant}"' in said.err
    assert "secret" not in said.err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("ls --limit 3", "sessions --limit 3"),
        ("cat nightly-7", "show nightly-7"),
        ("rm nightly-7", "delete nightly-7"),
        ("start --port 9", "serve --port 9"),
        ("keys ls", "keys list"),
        ("keys rm key_1", "keys revoke key_1"),
        ("memory list", "memory scopes"),
        ("artifact cat abc", "artifact get abc"),
    ],
)
def test_a_command_by_the_name_that_it_has_elsewhere_is_recognised(run: Run, typed: str, meant: str) -> None:
    assert run(*shlex.split(typed)).err.rstrip().endswith(f"Try: ds {meant}")


def test_other_names_lead_to_commands_that_there_are() -> None:
    assert {meant for each in NAMES_ELSEWHERE.values() for meant in each} <= set(_names(cli))


def _names(group: click.Group) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        yield name
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _names(command)


def test_several_similar_words_are_all_named(run: Run) -> None:
    assert run("se").err.rstrip().endswith("Did you mean sessions or search or serve?")
    assert run("keys", "xyz").err.rstrip().endswith("See all of them with: ds keys --help")


@pytest.mark.parametrize("arguments", [(), ("help",), ("--help",)])
def test_without_a_command_all_of_them_are_listed(run: Run, arguments: tuple[str, ...]) -> None:
    said = run(*arguments)
    assert (said.status, said.err) == (0, "")
    assert "ds serve" in said.out
    assert "completion" in said.out


def test_help_is_a_command_too(run: Run) -> None:
    assert run("help", "keys", "create").out == run("keys", "create", "--help").out
    assert run("keys").out == run("help", "keys").out
    assert "ds show has no commands" in run("help", "show", "x").err


def test_a_surplus_word_that_is_no_directory_is_only_told(run: Run) -> None:
    assert run("verify", "/tmp/no-such-directory").err.rstrip().endswith("(/tmp/no-such-directory)")
    assert run("show", "s", "/tmp").err.rstrip().endswith("unexpected extra argument (/tmp)")


def test_a_verdict_is_called_so(run: Run) -> None:
    assert "Invalid value for '[VERDICT]': 'perhaps' is not known. Give one of pass" in (
        run("evaluate", "s", "-", "perhaps").err
    )
