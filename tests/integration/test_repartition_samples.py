"""Real transcripts, divided and joined again by the commands: every stream has the same bytes and ids."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.testing.background import server
from tests.support.commands import Commands
from tests.support.samples import FOLDER, missing
from tests.support.waiting import PATIENCE_SECONDS

TOOLS = ("claude-code", "codex")


@contextmanager
def served(data: Path) -> Iterator[tuple[Commands, httpx2.Client]]:
    with (
        server(data) as running,
        httpx2.Client(base_url=running.url, timeout=PATIENCE_SECONDS) as client,
    ):
        yield Commands(running.url), client


def digests(client: httpx2.Client) -> dict[str, tuple[Any, ...]]:
    """Return, for each session, a digest of its stream, where it ends, its ETag and the ids of its events."""
    found: dict[str, tuple[Any, ...]] = {}
    given = {"limit": "100"}
    while True:
        page = client.get("/v1/sessions", params=given).json()
        for name in (one["id"] for one in page["data"]):
            stream, content, offset = None, sha256(), "-1"
            while stream is None or "stream-up-to-date" not in stream.headers:
                stream = client.get(f"/v1/stream/sessions/{name}", params={"offset": offset})
                assert stream.status_code == 200, stream.text
                content.update(stream.content)
                offset = stream.headers["stream-next-offset"]
            events = client.get(f"/v1/sessions/{name}/events", params={"limit": "1000"}).json()["data"]
            found[name] = content.hexdigest(), offset, [event["id"] for event in events]
        if page["next_page"] is None:
            return found
        given["page"] = page["next_page"]


@pytest.mark.parametrize("counts", [(2, 1), (3, 2)], ids=str)
def test_transcripts_are_the_same_after_each_repartitioning(tmp_path: Path, counts: tuple[int, ...]) -> None:
    if not FOLDER.is_dir():
        pytest.skip(missing(FOLDER))
    data = tmp_path / "data"
    with served(data) as (commands, client):
        for tool in TOOLS:
            commands.run("import", tool, str(FOLDER / tool))
        before = digests(client)
    assert len(before) > 20
    commands = Commands("http://127.0.0.1:1")
    for count in counts:
        done = commands.json("repartition", "--data", str(data), "--partitions", str(count))
        assert done["changed"]
        assert commands.json("verify", "--data", str(data))["ok"]
        assert commands.json("verify", "--data", str(data), "--generation", str(done["generation"] - 1))["ok"]
        with served(data) as (_, client):
            assert digests(client) == before
