"""``GET /v1/admin/status``: what operators see of the server, and nobody else."""

from pathlib import Path

import httpx2
import pytest

from durable_sessions import __version__
from durable_sessions.testing.server import local_server
from tests.support.keys import BOOTSTRAP, bearer, code_of, make_key
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio
STATUS = "/v1/admin/status"


@pytest.mark.parametrize("partitions", [1, 3])
async def test_operators_see_every_partition(tmp_path: Path, partitions: int) -> None:
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP, partitions=partitions) as server:
        await make_key(server.url, "reader")
        async with httpx2.AsyncClient(
            base_url=server.url, headers=bearer(BOOTSTRAP), timeout=PATIENCE_SECONDS
        ) as client:
            for number in range(4):
                sent = await client.post(f"/v1/sessions/s{number}/events", json={"type": "note"})
                assert sent.is_success
            said = (await client.get(STATUS)).json()
            assert (await client.head(STATUS)).status_code == 200
        assert (said["version"], said["status"], said["missing"]) == (__version__, "ready", [])
        # Where there are several, the system has one of its own.
        of = partitions + (partitions > 1)
        assert len(said["partitions"]) == of
        assert len({one["partition"] for one in said["partitions"]}) == of
        assert sum(one["streams"] for one in said["partitions"]) >= 4
        assert all(one["log_bytes"] > 0 for one in said["partitions"])
        assert all(one["readiness"]["search"]["state"] for one in said["partitions"])
        (process,) = said["processes"]
        assert {one["process"] for one in said["partitions"]} == {process["name"]}
        assert process["connections"] >= 1
        assert process["uptime_seconds"] >= 0
        assert said["keys"] == {"known": 1, "browsers": 0, "required": True}


@pytest.mark.parametrize("partitions", [1, 3])
async def test_others_see_nothing(tmp_path: Path, partitions: int) -> None:
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP, partitions=partitions) as server:
        evaluator = await make_key(server.url, "evaluator")
        stranger = await make_key(server.url, "admin", "other")
        async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
            for key in (evaluator, stranger):
                refused = await client.get(STATUS, headers=bearer(key["secret"]))
                assert (refused.status_code, code_of(refused)) == (403, "permission_error"), refused.text
            assert (await client.get(STATUS)).status_code == 401
            unknown = await client.get(f"{STATUS}?x=1", headers=bearer(BOOTSTRAP))
            assert unknown.status_code == 400
