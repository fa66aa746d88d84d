"""The command line of Claude Code with a scripted model: a run goes on where nothing of it is left."""

import json
import shutil
from pathlib import Path
from typing import Any

import anyio

from durable_sessions import Client
from durable_sessions.adapters.claude import DurableSessionStore
from durable_sessions.client.errors import NotFoundError
from durable_sessions.testing import BackgroundServer
from tests.adapters import upstream
from tests.support.commands import Commands
from tests.support.scripted_model import ScriptedModel, scripted_model
from tests.support.waiting import wait_until

upstream.needed("claude-agent-sdk")

QUIET = dict.fromkeys(("DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING", "DISABLE_BUG_COMMAND"), "1")
TELEMETRY = {
    "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
    "OTEL_LOGS_EXPORTER": "otlp",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
    "OTEL_LOGS_EXPORT_INTERVAL": "200",
    "CLAUDE_CODE_OTEL_SHUTDOWN_TIMEOUT_MS": "20000",
    "OTEL_LOG_USER_PROMPTS": "1",
    "OTEL_LOG_TOOL_DETAILS": "1",
}
LOOK = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "echo 17 degrees"}}
SCRIPT: list[list[dict[str, Any]]] = [
    [{"type": "text", "text": "I look."}, LOOK],
    [{"type": "text", "text": "It is 17 degrees."}],
    [{"type": "text", "text": "I said that it is 17 degrees."}],
]


class Machine:
    """A container with a home of its own, in which Claude Code reports to a server by all its ways."""

    def __init__(self, folder: Path, server: str, model: ScriptedModel) -> None:
        self.home = folder
        self._project = folder.parent / "project"
        self._server = server
        self._model = model
        self.home.mkdir()
        self._project.mkdir(exist_ok=True)

    def run(self, prompt: str, resume: str | None = None) -> tuple[str, str]:
        """Return the id of the session, and the answer."""
        return anyio.run(self._run, prompt, resume)

    async def _run(self, prompt: str, resume: str | None) -> tuple[str, str]:
        from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

        store = DurableSessionStore(url=self._server)
        hooks = Commands(self._server).run("capture", "claude-code").stdout
        options = ClaudeAgentOptions(
            session_store=store,
            cwd=self._project,
            env={
                **QUIET,
                **TELEMETRY,
                "OTEL_EXPORTER_OTLP_ENDPOINT": self._server,
                "HOME": str(self.home),
                "CLAUDE_CONFIG_DIR": str(self.home / ".claude"),
                "ANTHROPIC_BASE_URL": self._model.url,
                "ANTHROPIC_API_KEY": "sk-scripted",
            },
            settings=hooks,
            allowed_tools=["Bash"],
            model="claude-sonnet-4-5",
            max_turns=5,
            resume=resume,
        )
        results: list[Any] = [
            message
            async for message in query(prompt=prompt, options=options)
            if isinstance(message, ResultMessage)
        ]
        await store.aclose()
        return results[-1].session_id, results[-1].result


def test_a_run_goes_on_in_another_home_and_its_traces_name_it(
    shared: BackgroundServer, sdk: Client, tmp_path: Path
) -> None:
    with scripted_model(SCRIPT) as model:
        first = Machine(tmp_path / "first", shared.url, model)
        run, answer = first.run("How warm is it?")
        assert answer == "It is 17 degrees."
        transcripts = first.home / ".claude" / "projects"
        Commands(shared.url).run("import", "claude-code", str(transcripts))
        shutil.rmtree(first.home)

        second = Machine(tmp_path / "second", shared.url, model)
        assert second.run("What did you say?", resume=run) == (run, "I said that it is 17 degrees.")
        told = json.dumps(model.requests[-1]["messages"])
        assert all(words in told for words in ("How warm is it?", "17 degrees", "What did you say?"))

    # Once as the store of the SDK keeps it, once as the transcript tells it; what hooks and OpenTelemetry say
    # of the run names the session of the transcript.
    [kept] = sdk.sessions.list(metadata={"adapter": "claude", "session_id": run})
    entries = [event["raw"] for event in sdk.session(kept.id).events(types="claude.entry")]
    assert {entry["sessionId"] for entry in entries if "sessionId" in entry} == {run}
    transcript = sdk.sessions.get(f"claude-code:{run}")
    assert "agent.tool_use" in {event.type for event in sdk.session(transcript.id).events()}
    traced = wait_until(lambda: _prompts(sdk, f"otel:claude-code:{run}"))
    assert traced[0] == "How warm is it?"
    told_by = {info.id for info in sdk.sessions.list(metadata={"same_run": transcript.id})}
    assert told_by == {f"claude-code-hooks:{run}", f"otel:claude-code:{run}"}

    hooks = [event.type for event in sdk.session(f"claude-code-hooks:{run}").events()]
    counted = {kind: hooks.count(kind) for kind in ("user.message", "agent.tool_use", "agent.tool_result")}
    assert counted == {"user.message": 2, "agent.tool_use": 1, "agent.tool_result": 1}


def _prompts(sdk: Client, session: str) -> list[str]:
    """Return the prompts that were exported so far: exports come when they come."""
    try:
        said = list(sdk.session(session).events(types="user.message"))
    except NotFoundError:
        return []
    return [event["content"][0]["text"] for event in said]
