"""Webhooks to this machine: while there are no keys, or by a setting, and never by a writer's wish alone."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import BOOTSTRAP, bearer, code_of, proof
from tests.support.receiver import DONE, Receiver
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio
SUBSCRIPTION = "/v1/stream/__ds/subscriptions/s"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as running:
        running.respond = lambda _: DONE
        yield running


def ask(server: LocalServer, **headers: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=PATIENCE_SECONDS)


def webhook(url: str) -> dict[str, object]:
    return {"type": "webhook", "pattern": "events/*", "webhook": {"url": url}}


async def failures(client: httpx2.AsyncClient) -> float:
    lines = (await client.get("/metrics")).text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if 'webhooks_total{outcome="failed"}' in line)


@pytest.mark.parametrize("url", ["http://127.0.0.1:22/", "http://localhost:4437/", "https://10.0.0.1/"])
async def test_with_keys_a_writer_cannot_reach_inwards(tmp_path: Path, url: str) -> None:
    guarded = local_server(tmp_path / "data", api_key=BOOTSTRAP)
    async with guarded as server, ask(server, **bearer(BOOTSTRAP)) as client:
        refused = await client.put(SUBSCRIPTION, json=webhook(url))
        assert (refused.status_code, code_of(refused)) == (400, "webhook_url_rejected")
        assert "webhook_private_addresses" in refused.json()["error"]["message"]


async def test_the_setting_allows_it(tmp_path: Path, receiver: Receiver) -> None:
    allowing = local_server(tmp_path / "data", api_key=BOOTSTRAP, webhook_private_addresses=True)
    async with allowing as server, ask(server, **bearer(BOOTSTRAP)) as client:
        assert (await client.put(SUBSCRIPTION, json=webhook(receiver.url))).status_code == 201
        await client.put("/v1/stream/events/a", headers={"Content-Type": "application/json"}, content="1")
        await receiver.wait(1)


async def test_what_was_allowed_without_keys_is_not_sent_any_more_with_one(
    tmp_path: Path, receiver: Receiver
) -> None:
    async with local_server(tmp_path / "data") as server, ask(server) as client:
        assert (await client.put(SUBSCRIPTION, json=webhook(receiver.url))).status_code == 201
        await client.put("/v1/stream/events/a", headers={"Content-Type": "application/json"}, content="1")
        await receiver.wait(1)
        wanted = {"principal": "ann", "role": "admin"}
        made = (await client.post("/v1/keys", json=wanted, headers=proof(server.data))).json()
        client.headers.update(bearer(made["secret"]))
        await client.put("/v1/stream/events/b", headers={"Content-Type": "application/json"}, content="2")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await failures(client):
                await asyncio.sleep(0.05)
        assert len(receiver.received) == 1
