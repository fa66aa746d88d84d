"""An agent that begins with what an earlier one has learned, through ``ds mcp``.

``python examples/learned_before.py`` runs two agents, one after the other. The first meets a failing test,
finds the cause by hand, and leaves what it has learned. The second gets a similar task. It knows nothing of
Durable Sessions but the tools of ``ds mcp``, like any agent with an MCP configuration: it recalls, reads the
evidence, and is done without a single failed attempt. The model is a list of steps: every run is the same.
"""

import argparse
import asyncio
import os
import sys
from typing import Any

from mcp import Client as McpClient
from mcp.client.stdio import StdioServerParameters

from durable_sessions import Client

SCOPE = "project:calc"


def first_agent(client: Client, name: str) -> None:
    """Work without any memory: try, fail, find out, and remember."""
    session = client.session(name)
    session.append(
        [
            {"id": "task", "type": "user.message", "content": "total(1, 10) gives 45. Mend it."},
            {
                "id": "try",
                "type": "agent.tool_use",
                "name": "bash",
                "input": {"command": "pytest test_total.py"},
            },
            {
                "id": "failed",
                "type": "agent.tool_result",
                "tool_use_id": "try",
                "is_error": True,
                "content": "assert total(1, 10) == 55, got 45: range(first, last) leaves out the last number",
            },
        ]
    )
    session.remember(
        "boundaries",
        "range() leaves out its upper bound: add 1 where the last number counts.",
        scope=SCOPE,
        why="failed_attempt",
        because=["failed"],
        kind="failure_pattern",
    )


async def second_agent(url: str, name: str) -> list[str]:
    """Work with the tools of ``ds mcp`` alone; return what was learned and read on the way."""
    command = ["-m", "durable_sessions", "mcp", "--url", url, "--session", name, "--write", "--scope", SCOPE]
    server = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    async with McpClient(server) as tools:

        async def call(tool: str, **arguments: Any) -> dict[str, Any]:
            answer = await tools.call_tool(tool, arguments)
            if answer.is_error or answer.structured_content is None:
                raise RuntimeError(f"{tool}: {answer.content}")
            return dict(answer.structured_content)

        await call("append_note", text="Task: count(2, 8) must count 8, too.")
        [known] = (await call("recall", query="range upper bound"))["entries"]
        [evidence] = known["because"]
        event = await call("read_event", session_id=evidence["session"], event_id=evidence["id"])
        around = await call(
            "read_around", session_id=evidence["session"], position=event["position"], window=1
        )
        return [
            f"recalled: {known['value']}",
            f"evidence: {evidence['session']}/{evidence['id']}, {len(around['events'])} events around it",
        ]


def main() -> None:
    """Run both agents and print what the second one has from the first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", default="http://127.0.0.1:4437", help="where the server is")
    url = parser.parse_args().url
    with Client(url) as client:
        if not any(client.memory.get(SCOPE, key="boundaries")):
            first_agent(client, "calc-1")
    print("\n".join(asyncio.run(second_agent(url, "calc-2"))))


if __name__ == "__main__":
    main()
