"""The example in which a harness is killed and another one goes on runs, and does what it says."""

import asyncio
import re
import sys
from pathlib import Path

import httpx2
import pytest

from durable_sessions.testing.server import LocalServer
from tests.support.sessions import read_all

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[2] / "examples" / "resume_after_crash.py"


async def test_a_second_harness_goes_on_where_the_first_was_killed(
    server: LocalServer, api: httpx2.AsyncClient
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), "--url", server.url, stdout=asyncio.subprocess.PIPE
    )
    output = (await process.communicate())[0].decode()
    assert process.returncode == 0, output
    assert "killed by signal 9" in output
    assert "event 144 is the last one, agent.tool_use call-72; goes on with event 145" in output
    assert len(set(re.findall(r"process (\d+):", output))) == 3, "two harnesses and who started them"
    (session,) = re.findall(r"/v1/sessions/([^/]+)/events", output)
    events = await read_all(api, session)
    calls = [f"{kind}-{step}" for step in range(1, 101) for kind in ("call", "result")]
    assert [event["id"] for event in events] == ["task", "start", *calls, "answer", "end"]
    assert events[-2]["text"] == "The sum is 5050."
    shown = (await api.get(f"/sessions/{session}")).json()
    assert (shown["status"], shown["event_count"]) == ("idle", 204)
