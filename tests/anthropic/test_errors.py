"""Each refusal is the SDK's own exception, says why, and is tried again only where that can help."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any, cast

import anthropic
import httpx2
import pytest
from anthropic import Anthropic, APIStatusError, AsyncAnthropic

from tests.anthropic.clients import Threaded
from tests.anthropic.conftest import Account
from tests.support.process import WORKERS

pytestmark = pytest.mark.anyio

Open = Callable[[str], tuple[AsyncAnthropic, list[httpx2.Request]]]


@pytest.fixture(params=["async", "sync"])
async def counted(request: pytest.FixtureRequest, account: Account) -> AsyncIterator[Open]:
    """Make clients whose requests are counted; they try again as often as the SDK does by itself."""
    async with AsyncExitStack() as stack:

        def connect(key: str) -> tuple[AsyncAnthropic, list[httpx2.Request]]:
            seen: list[httpx2.Request] = []

            async def note(sent: httpx2.Request) -> None:
                seen.append(sent)

            common: dict[str, Any] = {"base_url": account.url, "api_key": key}
            client: AsyncAnthropic
            if request.param == "async":
                http = httpx2.AsyncClient(event_hooks={"request": [note]}, verify=False)
                client = AsyncAnthropic(http_client=http, **common)
            else:
                blocking = httpx2.Client(event_hooks={"request": [seen.append]}, verify=False)
                client = cast(AsyncAnthropic, Threaded(Anthropic(http_client=blocking, **common)))
            stack.push_async_callback(client.close)
            return client, seen

        yield connect


def check(raised: APIStatusError, status: int, kind: str, code: str) -> None:
    """Check all that the SDK tells of a refusal."""
    assert raised.status_code == status
    assert raised.type == kind
    assert isinstance(raised.body, dict)
    assert raised.body["type"] == "error"
    assert raised.body["error"]["type"] == kind
    assert raised.body["error"]["details"]["error_code"] == code
    assert raised.request_id is not None
    assert raised.request_id.startswith("req_")
    assert raised.body["request_id"] == raised.request_id
    assert raised.body["error"]["message"]


async def test_bad_input_is_a_bad_request(counted: Open, account: Account) -> None:
    client, seen = counted(account.key)
    session = await client.beta.sessions.create(agent="a", environment_id="e")
    seen.clear()
    events = client.beta.sessions.events
    wrong: list[tuple[Any, str]] = [
        ([{"type": "user.message"}], "content"),
        ([{"type": "user.message", "content": "text"}], "content"),
        ([{"type": "user.unheard_of"}], "user.unheard_of"),
        ([{"type": "user.tool_confirmation", "tool_use_id": "x", "result": "maybe"}], "result"),
        ([{"type": "user.message", "content": [{"type": "redacted"}]}], "redacted"),
        ([{"type": "system.message", "content": [{"type": "text", "text": "alone"}]}], "system.message"),
        ([{"type": "user.interrupt"}, {"type": "user.define_outcome", "description": "d"}], "Event 1"),
    ]
    for given, why in wrong:
        with pytest.raises(anthropic.BadRequestError, match=why) as raised:
            await events.send(session.id, events=given)
        check(raised.value, 400, "invalid_request_error", "invalid_event")
    assert [one async for one in events.list(session.id)] == []
    assert len(seen) == len(wrong) + 1

    with pytest.raises(anthropic.BadRequestError, match="environment_id"):
        await client.beta.sessions.create(agent="a", environment_id=cast(str, None))
    with pytest.raises(anthropic.BadRequestError, match="metadata"):
        await client.beta.sessions.create(agent="a", environment_id="e", metadata={"k": cast(str, 5)})
    with pytest.raises(anthropic.BadRequestError, match="16 pairs"):
        await client.beta.sessions.update(session.id, metadata={str(number): "" for number in range(17)})
    with pytest.raises(anthropic.BadRequestError, match="vault_ids"):
        await client.beta.sessions.update(session.id, vault_ids=["vlt_1"])
    with pytest.raises(anthropic.BadRequestError, match="page"):
        await client.beta.sessions.list(page="of another server")
    with pytest.raises(anthropic.BadRequestError, match="event_deltas"):
        await events.stream(session.id, event_deltas=cast(Any, ["user.message"]))
    with pytest.raises(anthropic.BadRequestError, match="name"):
        await client.beta.agents.create(name="", model="m")
    with pytest.raises(anthropic.BadRequestError, match="metadata"):
        await client.beta.agents.create(name="a", model="m", metadata={"k": cast(str, 1)})


async def test_an_unknown_key_is_not_let_in(counted: Open) -> None:
    client, seen = counted("not-a-key")
    with pytest.raises(anthropic.AuthenticationError) as raised:
        await client.beta.sessions.list()
    check(raised.value, 401, "authentication_error", "authentication_error")
    with pytest.raises(anthropic.AuthenticationError):
        await client.beta.sessions.events.stream("any")
    assert len(seen) == 2


async def test_a_reader_may_not_write(counted: Open, account: Account) -> None:
    client, seen = counted(account.new_key("reader"))
    assert (await client.beta.sessions.list()).data == []
    for call in (
        client.beta.sessions.create(agent="a", environment_id="e"),
        client.beta.agents.create(name="a", model="m"),
        client.beta.environments.create(name="e"),
    ):
        with pytest.raises(anthropic.PermissionDeniedError) as raised:
            await call
        check(raised.value, 403, "permission_error", "permission_error")
    assert len(seen) == 4


async def test_what_is_not_there_or_of_another_workspace_is_not_found(
    counted: Open, account: Account
) -> None:
    client, seen = counted(account.key)
    session = await client.beta.sessions.create(agent="a", environment_id="e")
    stranger = Account(account.url, account.workspace + "-other", "")
    other, _ = counted(stranger.new_key("writer"))
    beta = client.beta
    for call in (
        beta.sessions.retrieve("sesn_none"),
        beta.sessions.update("sesn_none", title="t"),
        beta.sessions.archive("sesn_none"),
        beta.sessions.delete("sesn_none"),
        beta.sessions.events.send("sesn_none", events=[{"type": "user.interrupt"}]),
        beta.sessions.events.list("sesn_none"),
        beta.sessions.events.stream("sesn_none"),
        beta.sessions.threads.list("sesn_none"),
        beta.sessions.resources.list("sesn_none"),
        beta.agents.retrieve("agent_none"),
        beta.agents.update("agent_none", version=1, name="n"),
        beta.environments.retrieve("env_none"),
        beta.environments.delete("env_none"),
        other.beta.sessions.retrieve(session.id),
        other.beta.sessions.events.send(session.id, events=[{"type": "user.interrupt"}]),
    ):
        with pytest.raises(anthropic.NotFoundError) as raised:
            await call
        assert raised.value.type == "not_found_error"
        assert raised.value.request_id is not None
    assert len(seen) == 1 + 13
    with pytest.raises(anthropic.NotFoundError) as raised:
        await client.beta.sessions.retrieve("sesn_none")
    check(raised.value, 404, "not_found_error", "session_not_found")


async def test_a_final_conflict_is_not_tried_again(counted: Open, account: Account) -> None:
    client, seen = counted(account.key)
    agent = await client.beta.agents.create(name="a", model="m")
    session = await client.beta.sessions.create(agent=agent.id, environment_id="e")
    await client.beta.sessions.archive(session.id)
    seen.clear()
    with pytest.raises(anthropic.ConflictError) as raised:
        await client.beta.agents.update(agent.id, version=7, name="b")
    check(raised.value, 409, "invalid_request_error", "version_conflict")
    with pytest.raises(anthropic.ConflictError) as raised:
        await client.beta.sessions.events.send(session.id, events=[{"type": "user.interrupt"}])
    check(raised.value, 409, "invalid_request_error", "session_archived")
    with pytest.raises(anthropic.ConflictError):
        await client.beta.sessions.update(session.id, title="t")
    assert raised.value.response.headers["x-should-retry"] == "false"
    assert len(seen) == 3


async def test_a_condition_that_does_not_hold_fails_once(counted: Open, account: Account) -> None:
    client, seen = counted(account.key)
    session = await client.beta.sessions.create(agent="a", environment_id="e")
    seen.clear()
    tail = {"If-Match": '"0000000000000000_0000000000000007"'}
    with pytest.raises(APIStatusError) as raised:
        await client.beta.sessions.events.send(
            session.id, events=[{"type": "user.interrupt"}], extra_headers=tail
        )
    check(raised.value, 412, "invalid_request_error", "precondition_failed")
    assert len(seen) == 1


async def test_too_much_is_too_large(counted: Open, account: Account) -> None:
    client, seen = counted(account.key)
    session = await client.beta.sessions.create(agent="a", environment_id="e")
    seen.clear()
    for characters, code in ((1_100_000, "event_too_large"), (9_000_000, "body_too_large")):
        with pytest.raises(APIStatusError) as raised:
            await client.beta.sessions.events.send(
                session.id,
                events=[{"type": "user.message", "content": [{"type": "text", "text": "x" * characters}]}],
            )
        assert type(raised.value).__name__ in ("ContentTooLargeError", "RequestTooLargeError")
        check(raised.value, 413, "request_too_large", code)
    assert len(seen) == 2


async def test_too_many_requests_are_tried_again_when_it_is_time(counted: Open, account: Account) -> None:
    client, seen = counted(account.new_key("reader", requests_per_second=0.01))
    await client.beta.sessions.list()
    with pytest.raises(anthropic.RateLimitError) as raised:
        await client.with_options(max_retries=0).beta.sessions.list()
    check(raised.value, 429, "rate_limit_error", "rate_limited")
    # Each worker may have let one through, and then both are paid back.
    assert 1 <= int(raised.value.response.headers["retry-after"]) <= 100 * WORKERS

    client, seen = counted(account.new_key("reader", requests_per_second=1))
    calls = 0
    while len(seen) == calls < 50:
        await client.beta.sessions.list()
        calls += 1
    assert len(seen) > calls, "no request was tried again, and none failed"


async def test_what_this_server_does_not_have_is_not_found(counted: Open, account: Account) -> None:
    client, seen = counted(account.key)
    for method, given in (
        (client.beta.vaults.create, {"display_name": "v"}),
        (client.beta.models.list, {}),
    ):
        with pytest.raises(anthropic.NotFoundError) as raised:
            await cast(Any, method)(**given)
        check(raised.value, 404, "not_found_error", "route_not_found")
    assert len(seen) == 2
