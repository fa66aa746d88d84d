"""Forks live with their parent, whatever their name; nothing of that shows outside."""

from pathlib import Path

import pytest

from tests.support.differential import rivals

pytestmark = pytest.mark.anyio

NAMES = [f"fork-{number}" for number in range(6)]
EVENT = {"events": [{"type": "user.message", "content": [{"type": "text", "text": "hello"}]}]}


async def test_forks_of_sessions_answer_as_with_one_partition(tmp_path: Path) -> None:
    async with rivals(tmp_path) as all_of_them:
        ask = all_of_them.ask
        assert (await ask("POST", "/v1/sessions/root/events", json=EVENT))[0] == 204
        source = {"Stream-Forked-From": "/v1/sessions/root"}
        for name in NAMES:
            assert (await ask("PUT", f"/v1/sessions/{name}", headers=source, json={}))[0] == 201
            assert (await ask("PUT", f"/v1/sessions/{name}", headers=source, json={}))[0] == 200
            assert (await ask("PUT", f"/v1/sessions/{name}", json={}))[0] == 200
            assert (await ask("POST", f"/v1/sessions/{name}/events", json=EVENT))[0] == 204
            _, _, read = await ask("GET", f"/v1/sessions/{name}/events")
            assert len(read["data"]) == 2
            await ask("GET", f"/v1/stream/sessions/{name}", params={"offset": "-1"})
            await ask("HEAD", f"/v1/stream/sessions/{name}")
            await ask("POST", "/v1/sessions", json={"id": name})
            # A fork of a fork lives with both.
            fork = {"Stream-Forked-From": f"/v1/stream/sessions/{name}"}
            assert (await ask("PUT", f"/v1/stream/sessions/{name}-again", headers=fork))[0] == 201
        _, _, listed = await ask("GET", "/v1/sessions", params={"limit": 20})
        assert len(listed["data"]) == 1 + 2 * len(NAMES)
        await all_of_them.flush()
        await all_of_them.restart()
        for name in NAMES:
            await ask("GET", f"/v1/sessions/{name}")
            await ask("DELETE", f"/v1/sessions/{name}-again")
            await ask("DELETE", f"/v1/sessions/{name}")
            await ask("GET", f"/v1/sessions/{name}")
            await ask("DELETE", f"/v1/sessions/{name}")
            await ask("POST", f"/v1/sessions/{name}/events", json=EVENT)
            await ask("GET", f"/v1/sessions/{name}/events")
        await ask("GET", "/v1/sessions", params={"order": "asc", "limit": 100})


async def test_forks_of_streams_answer_as_with_one_partition(tmp_path: Path) -> None:
    async with rivals(tmp_path) as all_of_them:
        ask = all_of_them.ask
        text = {"Content-Type": "text/plain"}
        for source in ("one", "two"):
            assert (await ask("PUT", f"/v1/stream/{source}", headers=text, content=b"abcdef"))[0] == 201
        for name in NAMES:
            for source in ("one", "two", "missing"):
                fork = {**text, "Stream-Forked-From": f"/v1/stream/{source}"}
                await ask("PUT", f"/v1/stream/{name}", headers=fork, content=b"-more")
                await ask("PUT", f"/v1/stream/{name}", headers=fork)
            await ask("GET", f"/v1/stream/{name}", params={"offset": "-1"})
            await ask("DELETE", f"/v1/stream/{name}")
            # The name is free: its next life may be a fork of another stream, or of none.
            fork = {"Stream-Forked-From": "/v1/stream/two"}
            assert (await ask("PUT", f"/v1/stream/{name}", headers=fork))[0] == 201
            await ask("POST", f"/v1/stream/{name}", headers=text, content=b"!")
            await ask("GET", f"/v1/stream/{name}", params={"offset": "-1"})
            assert (await ask("DELETE", f"/v1/stream/{name}"))[0] == 204
            assert (await ask("PUT", f"/v1/stream/{name}", headers=text, content=b"plain"))[0] == 201
            await ask("GET", f"/v1/stream/{name}", params={"offset": "-1"})
            await ask("DELETE", f"/v1/stream/{name}")
            assert (await ask("PUT", f"/v1/stream/{name}", headers={"Stream-TTL": "5", **fork}))[0] == 201
        all_of_them.clock.advance(20)
        for name in NAMES:
            await ask("GET", f"/v1/stream/{name}")
            fork = {"Stream-Forked-From": "/v1/stream/one"}
            assert (await ask("PUT", f"/v1/stream/{name}", headers=fork))[0] == 201
        for wrong in ("/v1/stream/__x", "one", "/v1/stream/", "/v1/sessions/one"):
            await ask("PUT", "/v1/stream/other", headers={"Stream-Forked-From": wrong})
            await ask("PUT", "/v1/sessions/other", headers={"Stream-Forked-From": wrong}, json={})
        await all_of_them.restart()
        for name in NAMES:
            await ask("GET", f"/v1/stream/{name}", params={"offset": "-1"})
