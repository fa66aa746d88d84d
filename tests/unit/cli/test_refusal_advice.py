"""The advice of commands on refusals: it stands in place of what the server really says."""

import pytest

from durable_sessions import errors
from durable_sessions.cli.main import cli
from durable_sessions.cli.refusal_advice import ADVICE, in_words_of_commands
from durable_sessions.client.errors import ApiError

TEMPLATES = {
    kind.code: kind.template()
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.DurableSessionsError)
}


@pytest.mark.parametrize("code", ADVICE)
def test_advice_takes_the_place_of_the_servers(code: str) -> None:
    assert ADVICE[code].instead_of in TEMPLATES[code]


@pytest.mark.parametrize("code", ADVICE)
def test_advised_commands_exist_and_take_the_options(code: str) -> None:
    if not ADVICE[code].command:
        return
    name, *words = ADVICE[code].command
    with cli.make_context("ds", ["help"]) as context:
        command = cli.get_command(context, name)
    assert command is not None
    options = {option for each in command.params for option in each.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_advice_on_an_unknown_session_names_none() -> None:
    refused = ApiError(
        409,
        "invalid_request_error",
        TEMPLATES["session_paused"].format(kind="worker"),
        details={"error_code": "session_paused"},
    )
    assert (
        in_words_of_commands(refused)
        == "The session is paused and takes no worker now. To go on: ds resume SESSION"
    )
