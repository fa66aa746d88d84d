"""Every operation, asked of one worker and of two: status, error code and shape of answers are the same."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from durable_sessions.limits import KIB
from durable_sessions.testing.server import local_server
from tests.hostile.herd import ARTIFACT_DIGEST
from tests.hostile.trials import TRIALS, Trial
from tests.support.keys import BOOTSTRAP, bearer
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

BODY_BYTES_MAX = 64 * KIB
"""Larger bodies hold the event loop, which is another test; here they would only take time."""
ARTIFACT = b"an artifact"
DIGEST = hashlib.sha256(ARTIFACT).hexdigest()
SESSIONS = (
    *("s-000777", "s-000778", "s-000779", "s-000780", "s-000781"),
    *("large-0001", "large-0002", "large-0003", "appended", "resourceful"),
)
SUBSCRIPTIONS = "/v1/stream/__ds/subscriptions"
UPLOAD = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nA note.\r\n--x--'
MULTIPART = {"Content-Type": "multipart/form-data; boundary=x"}
SMALL = {
    "uploadFile": UPLOAD,
    "ingestClaudeCode": b'{"session_id":"cc","hook_event_name":"UserPromptSubmit","prompt":"p"}',
    "linkStreams": b'{"streams":["plain/000002"]}',
    "createStream": b'[{"n":1}]',
}
"""What is sent where all bodies of the trials are large."""
OF_SEVERAL = frozenset(("partitions", "everywhere", "processes"))
"""Members that only a server with several partitions has."""
FREE = frozenset(("metadata", "stats", "usage"))
"""Members whose own members depend on what was sent, or on the time."""


class Answered(NamedTuple):
    """What of an answer must not depend on the number of workers."""

    status: int
    content_type: str | None
    headers: tuple[str, ...]
    code: str | None
    shape: Any


class Asked:
    """A server, and the names that it gave."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client
        self.names: dict[str, str] = {}

    async def send(self, trial: Trial) -> Answered:
        target, body = trial.target.replace(ARTIFACT_DIGEST, DIGEST), trial.body
        for name, value in self.names.items():
            target = target.replace("{" + name + "}", value)
            body = body.replace(b"{%b}" % name.encode(), value.encode())
        request = self.client.build_request(trial.method, target, content=body, headers=trial.headers)
        answer = await self.client.send(request, stream=True)
        try:
            # A live tail does not end: its first frame is enough.
            live = trial.take_bytes is not None and answer.status_code == 200
            content = await anext(answer.aiter_bytes(), b"") if live else await answer.aread()
        finally:
            await answer.aclose()
        return _answered(answer, content)


def _answered(answer: httpx2.Response, content: bytes) -> Answered:
    kind = answer.headers.get("content-type")
    said = json.loads(content) if kind == "application/json" and content else None
    error = said.get("error") if isinstance(said, dict) and answer.status_code >= 400 else None
    code = None if error is None else error.get("code") or error.get("details", {}).get("error_code")
    names = sorted(name for name in answer.headers if name not in ("content-length", "transfer-encoding"))
    return Answered(answer.status_code, kind, tuple(names), code, shape(said))


def shape(said: Any) -> Any:
    """Return a JSON value with its members and types, but not what it says."""
    if isinstance(said, dict):
        members = {name: value for name, value in said.items() if name not in OF_SEVERAL}
        return {name: None if name in FREE else shape(value) for name, value in members.items()}
    if isinstance(said, list):  # of equal hits of a search nobody promises which one is first
        return sorted((shape(value) for value in said), key=repr)
    return type(said).__name__


def _without_entries(audit: Answered) -> Answered:
    """Return the audit record without entries: those of other workers come later, refusals counted apart."""
    return audit._replace(shape={**audit.shape, "data": []}) if audit.status == 200 else audit


async def made(asked: Asked) -> None:
    """Make what the trials are about."""
    client = asked.client

    async def must(method: str, path: str, **given: Any) -> Any:
        answer = await client.request(method, path, **given)
        assert answer.is_success, (path, answer.text)
        return answer.json() if answer.content else None

    async def named(path: str, body: dict[str, Any]) -> str:
        return str((await must("POST", path, json=body))["id"])

    call = {"type": "agent.tool_use", "id": "call-3", "name": "grep", "input": {}}
    thread = {"type": "agent.message", "session_thread_id": "sthr_7", "text": "a word"}
    other = {**thread, "session_thread_id": "sthr_8"}
    said = {"type": "user.message", "content": [{"type": "text", "text": "a ticket"}]}
    await must("POST", "/v1/sessions/long/events", json={"events": [said, call, thread, other]})
    for name in SESSIONS:
        await must("POST", f"/v1/sessions/{name}/events", json={"events": [said]})
    fork = {"Stream-Forked-From": "/v1/sessions/long"}
    await must("PUT", "/v1/sessions/fork-00007", headers=fork, json={})
    for number in (1, 2, 7):
        await must("PUT", f"/v1/stream/plain/{number:06d}", headers={"Content-Type": "application/json"})
    for name in ("linked", "long-0"):
        body = {"type": "pull-wake", "streams": ["plain/000001", "plain/000007"], "wake_stream": "wakes"}
        await must("PUT", f"{SUBSCRIPTIONS}/{name}", json=body)
    await must("POST", "/v1/stream/plain/000001", json=[1])
    asked.names = {
        "agent": await named("/v1/agents", {"name": "a", "model": "m"}),
        "large_agent": await named("/v1/agents", {"name": "large", "model": "m"}),
        "large_environment": await named("/v1/environments", {"name": "e"}),
        "resource": await named("/v1/sessions/resourceful/resources", {"type": "file", "file_id": "f"}),
        "key": await named("/v1/keys", {"principal": "p", "role": "reader"}),
        "file": str((await must("POST", "/v1/files", content=UPLOAD, headers=MULTIPART))["id"]),
    }

    queue = await named("/v1/environments", {"name": "q", "config": {"type": "self_hosted"}})
    routed = {"type": "ds.routed", "to": queue, "reason": "its tools are there"}
    await must("POST", "/v1/sessions/routed/events", json={"events": [said, routed]})
    worker = await must("POST", "/v1/keys", json={"principal": queue, "role": "writer"})
    work = await must("GET", f"/v1/environments/{queue}/work/poll", headers=bearer(worker["secret"]))
    asked.names |= {"queue": queue, "work": work["id"]}

    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (await client.get("/v1/search", params={"q": "ticket"})).json()["up_to_date"]:
            await asyncio.sleep(0.01)


def requests() -> Iterator[tuple[str, Trial]]:
    """Yield a few requests for every operation: good ones, and the same with a flaw."""
    for operation, trials in TRIALS.items():
        first = True
        for trial in trials:
            if trial.target.endswith(ARTIFACT_DIGEST) and trial.body:
                trial = replace(trial, body=ARTIFACT)
            if len(trial.body) > BODY_BYTES_MAX:
                continue
            if first:
                separator = "&" if "?" in trial.target else "?"
                yield operation, replace(trial, target=f"{trial.target}{separator}nonsense=1")
                if trial.body:
                    yield operation, replace(trial, body=b"{no json")
                yield operation, replace(trial, headers={**trial.headers, "Authorization": "Bearer nobody"})
                first = False
            yield operation, trial
        if first:  # all of its bodies are large
            yield operation, replace(trials[0], body=SMALL.get(operation, b"{}"))


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Sequence[Asked]]:
    async with AsyncExitStack() as stack:
        found = []
        for workers in (1, 2):
            directory = tmp_path / str(workers)
            server = await stack.enter_async_context(
                local_server(directory, workers=workers, api_key=BOOTSTRAP)
            )
            client = httpx2.AsyncClient(
                base_url=server.url, headers=bearer(BOOTSTRAP), timeout=PATIENCE_SECONDS
            )
            found.append(Asked(await stack.enter_async_context(client)))
        yield found


async def test_every_operation_answers_alike(servers: Sequence[Asked]) -> None:
    for server in servers:
        await made(server)
    differences = []
    statuses: dict[str, set[int]] = {}
    for operation, trial in requests():
        one, two = [await server.send(trial) for server in servers]
        if operation == "readAudit":
            one, two = _without_entries(one), _without_entries(two)
        statuses.setdefault(operation, set()).add(one.status)
        if one != two:
            differences.append(
                f"{operation}: {trial.method} {trial.target} {trial.body[:60]!r}\n  {one}\n  {two}"
            )
    assert not differences, "\n".join(differences)
    assert set(statuses) == set(TRIALS)
    refused = [operation for operation, seen in statuses.items() if min(seen) >= 400]
    assert len(refused) < len(statuses) / 5, f"too little is tried of {refused}"
