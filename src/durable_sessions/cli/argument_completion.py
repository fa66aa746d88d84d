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
SESSION_ID_CHARACTERS_MAX = 200


class NewSessionId(click.ParamType[str]):
    """The id of a session that need not be there."""

    name = "session"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the id, if it can be one."""
        text = str(value)
        if not 0 < len(text) <= SESSION_ID_CHARACTERS_MAX or text.startswith("."):
            most = SESSION_ID_CHARACTERS_MAX
            self.fail(f"A session's id has 1 to {most} characters and does not begin with a dot.", param, ctx)
        return text


class SessionId(NewSessionId):
    """The id of a session, or the beginning of one."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the sessions whose ids have this prefix; none if the server does not answer quickly."""
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
NEW_SESSION = NewSessionId()
