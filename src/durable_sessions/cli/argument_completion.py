"""Arguments that a shell completes by asking the server."""

import os

import click
from click.shell_completion import CompletionItem

from durable_sessions.cli.client import DEFAULT_URL
from durable_sessions.client import Client
from durable_sessions.client.errors import ClientError
from durable_sessions.rendering.text import one_line
from durable_sessions.settings import ENVIRONMENT_PREFIX

SECONDS_MAX = 1.0
COMPLETIONS_MAX = 50


class SessionId(click.ParamType[str]):
    """The id of a session."""

    name = "session"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the sessions whose ids begin like this; none if the server does not answer at once."""
        url = ctx.params.get("url") or os.environ.get(ENVIRONMENT_PREFIX + "URL") or DEFAULT_URL
        key = ctx.params.get("api_key") or None
        try:
            with Client(url, key, timeout=SECONDS_MAX, retries=0) as client:
                found = [
                    CompletionItem(info.id, help=one_line(info.title or info.status, 60))
                    for info in client.sessions.list(q=incomplete or None, limit=COMPLETIONS_MAX)
                    if info.id.startswith(incomplete)
                ]
        except (ClientError, ValueError):
            return []
        return found


SESSION = SessionId()
