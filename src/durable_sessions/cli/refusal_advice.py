"""What to type after a refusal: where the server speaks of events and headers, options and commands."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from durable_sessions.cli.advice import command_for
from durable_sessions.cli.option_names import in_options
from durable_sessions.client.errors import ApiError
from durable_sessions.settings import ENVIRONMENT_PREFIX

PRINCIPAL_VARIABLE = ENVIRONMENT_PREFIX + "PRINCIPAL"
EPOCH_VARIABLE = ENVIRONMENT_PREFIX + "EPOCH"


class Advice(NamedTuple):
    """What to do about a refusal."""

    instead_of: str
    """Where the server's own advice begins in its message; empty if it gives none."""
    said: str
    command: tuple[str, ...] = ()
    """The command that does it, for the session of the refused one; words in braces are of the details."""
    by_another: bool = False
    """Whether the principal who was refused cannot do it."""


ADVICE = {
    "principal_mismatch": Advice(
        " Leave the header out.",
        f" The key says who you are: leave --principal out, and unset {PRINCIPAL_VARIABLE}.",
    ),
    "not_independent": Advice(
        " Let another principal",
        " Let another principal do it: give its name with --principal, or where keys are needed, its key.",
    ),
    "lease_lost": Advice(
        " Stop this worker", " Stop this worker, or wake the session again with:", ("wake",)
    ),
    "lease_required": Advice(
        " Wake the session", f" If that is you, set {EPOCH_VARIABLE}; else wake the session with:", ("wake",)
    ),
    "session_claimed": Advice(
        ", or take it", ", or take it, which needs the role evaluator, with:", ("wake", "--force")
    ),
    "not_routed": Advice("", " To let anybody have it:", ("route", "--anyone", "--reason", "…")),
    "gate_closed": Advice("", " See what was judged with:", ("state",)),
    "session_paused": Advice("; ds.session.resumed", ". To go on:", ("resume",)),
    "approval_pending": Advice("; ds.approval.decided", ". See what is to be decided with:", ("approve",)),
    "budget_exceeded": Advice(
        " A judge can raise it",
        " A judge can raise it with:",
        ("append", "--type", "ds.budget.set", "--field", "{limit}:=NUMBER"),
        by_another=True,
    ),
    "nothing_pending": Advice("", " See what does with:", ("approve",)),
    "context_too_small": Advice("; ask for at least", "; give at least that many with --budget-tokens."),
    "dossier_too_large": Advice(
        " Ask for an earlier place", " Ask for an earlier place with --at, or export the sessions one by one."
    ),
    "unresolved_reference": Advice(" Send what", " Append what it refers to first, or with it."),
    "event_not_found": Advice("", " See the last ones with:", ("events", "--tail", "5")),
    "session_running": Advice(
        " Send user.interrupt",
        " Interrupt it, and wait until it is idle:",
        ("append", "--type", "user.interrupt"),
    ),
}
"""By the code of the refusal."""


def in_words_of_commands(error: ApiError, message: str | None = None) -> str:
    """Return a refusal in the words of the command line; ``message`` is what is told of it, if not all."""
    message = error.message if message is None else message
    advice = ADVICE.get(error.code)
    if advice is None:
        return in_options(message)
    said = message.partition(advice.instead_of)[0] if advice.instead_of else message
    command = _command(advice, error.details) if advice.command else ""
    return " ".join(filter(None, (in_options(said) + advice.said, command)))


def _command(advice: Advice, details: Mapping[str, Any]) -> str:
    context = click.get_current_context(silent=True)
    session = context.params.get("session") if context is not None else None
    name, *options = (word.format_map(_Known(details)) for word in advice.command)
    session = session if isinstance(session, str) else "SESSION"
    return command_for(name, session, *options, as_myself=not advice.by_another)


class _Known(dict[str, Any]):
    """Members of the details; one that is not there keeps its name."""

    def __missing__(self, name: str) -> str:
        return name.upper()
