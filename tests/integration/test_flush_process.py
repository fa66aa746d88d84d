"""A server whose flush process is killed: flushes go on, and what they wrote is read."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import local_server
from tests.support.sessions import append, notes, read_all

pytestmark = pytest.mark.anyio

LIMITS = replace(DEFAULT_LIMITS, flush_process_bytes_min=0, memory_bytes_max=1, block_cache_bytes_max=1)


async def test_flushes_go_on_while_their_process_is_killed_and_what_they_wrote_is_read(
    tmp_path: Path,
) -> None:
    async with local_server(tmp_path / "data", limits=LIMITS) as server:
        flushing = server.node.process.flushing
        async with httpx2.AsyncClient(base_url=server.url + "/v1", timeout=120) as api:
            for turn in range(4):
                await append(api, "s", *notes(range(100 * turn, 100 * turn + 100)))
                if turn == 2:
                    assert flushing.pid is not None
                    os.kill(flushing.pid, signal.SIGKILL)
                assert (await api.post("/admin/flush")).status_code == 200
            assert flushing.flushes == 3, "the one whose process was killed was folded by the server"
            found = await read_all(api, "s", limit=300)
            assert [one["n"] for one in found] == list(range(400))
        pid = flushing.pid
        assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
