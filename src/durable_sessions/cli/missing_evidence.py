"""What a command says when the evidence that an event names is not there."""

import re
from typing import Any

import click

from durable_sessions.cli.advice import command_line, server_words
from durable_sessions.cli.command_errors import MissingError
from durable_sessions.cli.connection import ServerConnection
from durable_sessions.client.errors import BadRequestError

_REF = re.compile(r"refs\[(\d+)\]")
_ARTIFACT = "sha256:"


def without_evidence(
    connection: ServerConnection, session: str, event: dict[str, Any], error: BadRequestError
) -> Exception:
    """Return what to say of evidence that is not there; any other refusal as it is."""
    place = _REF.fullmatch(str(error.details.get("path")))
    if error.code != "unresolved_reference" or place is None:
        return error
    named = event["refs"][int(place[1])]
    events = connection.command("events", session, "--tail", "5")
    given = f"--{named['rel']} {named['id']}"
    if named["id"].startswith(_ARTIFACT):
        put = command_line(["artifact", "put", "FILE", *server_words(click.get_current_context())])
        return MissingError(f"{given}: there is no such artifact. Store it first with: {put}", error.code)
    return MissingError(f"{given}: {session} has no such event. See its last ones with: {events}", error.code)
