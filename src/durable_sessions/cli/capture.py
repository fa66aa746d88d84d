"""``ds capture``: let tools write their sessions themselves."""

import shlex

import click
import msgspec

from durable_sessions.cli.client import Server, with_server
from durable_sessions.cli.groups import CommandGroup
from durable_sessions.managed_agents.claude_code_hooks import HOOKS
from durable_sessions.settings import ENVIRONMENT_PREFIX

ROUTE = "/v1/ingest/claude-code"
KEY_VARIABLE = ENVIRONMENT_PREFIX + "API_KEY"
TIMEOUT_SECONDS = 5
_WITH_MATCHER = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "PermissionDenied")


@click.group(cls=CommandGroup)
def capture() -> None:
    """Let tools write their sessions themselves, while they run."""


@capture.command("claude-code")
@with_server
@click.option("--print-config", is_flag=True, help="Print the settings to paste, as is done anyway.")
def claude_code(server: Server, print_config: bool) -> None:
    """Print the hooks for ~/.claude/settings.json, or for the settings of one project.

    The key is not printed: Claude Code takes it from the variable DURABLE_SESSIONS_API_KEY.
    """
    click.echo(msgspec.json.format(msgspec.json.encode(hook_settings(server)), indent=2))


def hook_settings(server: Server) -> dict[str, object]:
    """Return the settings that make Claude Code report everything to a server."""
    hook: dict[str, object] = {
        "type": "http",
        "url": server.url.rstrip("/") + ROUTE,
        "timeout": TIMEOUT_SECONDS,
    }
    if server.api_key:
        hook["headers"] = {"Authorization": f"Bearer ${KEY_VARIABLE}"}
        hook["allowedEnvVars"] = [KEY_VARIABLE]
    plain, matched = {"hooks": [hook]}, {"matcher": "*", "hooks": [hook]}
    hooks: dict[str, object] = {name: [matched if name in _WITH_MATCHER else plain] for name in HOOKS}
    hooks["SessionStart"] = [{"hooks": [_command(server)]}]  # not sent to URLs by older versions
    return {"hooks": hooks}


def _command(server: Server) -> dict[str, object]:
    """Return a command that does the same, for the one hook that older versions cannot send to a URL."""
    key = f' -H "Authorization: Bearer ${KEY_VARIABLE}"' if server.api_key else ""
    url = shlex.quote(server.url.rstrip("/") + ROUTE)
    sent = f"curl -sS -o /dev/null --max-time {TIMEOUT_SECONDS}{key} --data-binary @- {url}"
    return {"type": "command", "command": sent, "timeout": TIMEOUT_SECONDS}
