"""Sessions: made, changed, listed, put away."""

import asyncio
from datetime import timedelta

import pytest
from anthropic import AsyncAnthropic, BadRequestError, NotFoundError, PermissionDeniedError
from anthropic.types.beta import BetaManagedAgentsSession

from tests.anthropic.clients import taken
from tests.anthropic.conftest import Account
from tests.anthropic.harness import END_TURN, RUNNING, Harness

pytestmark = pytest.mark.anyio


async def _new(sdk: AsyncAnthropic, agent: str = "a", title: str | None = None) -> BetaManagedAgentsSession:
    return await sdk.beta.sessions.create(agent=agent, environment_id="e", title=title)


async def test_an_agent_is_named_by_id_by_version_or_with_overrides(sdk: AsyncAnthropic) -> None:
    agent = await sdk.beta.agents.create(name="A", model="m1", system="one")
    await sdk.beta.agents.update(agent.id, version=1, system="two")

    newest = await _new(sdk, agent.id)
    assert (newest.agent.version, newest.agent.system) == (2, "two")

    pinned = await sdk.beta.sessions.create(
        agent={"type": "agent", "id": agent.id, "version": 1}, environment_id="e"
    )
    assert (pinned.agent.version, pinned.agent.system) == (1, "one")

    changed = await sdk.beta.sessions.create(
        agent={
            "type": "agent_with_overrides",
            "id": agent.id,
            "version": 1,
            "model": {"id": "m2", "effort": "high"},
            "system": "three",
            "tools": [
                {"type": "agent_toolset_20260401", "configs": [{"name": "bash", "enabled": False}]},
                {
                    "type": "custom",
                    "name": "crm",
                    "description": "Looks up customers",
                    "input_schema": {"type": "object", "properties": {}},
                },
            ],
        },
        environment_id="e",
    )
    assert (changed.agent.id, changed.agent.version, changed.agent.system) == (agent.id, 1, "three")
    assert changed.agent.model.id == "m2"
    assert changed.agent.model.effort is not None
    assert changed.agent.model.effort.type == "high"
    toolset, custom = changed.agent.tools
    assert toolset.type == "agent_toolset_20260401"
    assert [(one.name, one.type, one.enabled) for one in toolset.configs] == [("bash", "bash", False)]
    assert toolset.default_config.enabled is True
    assert toolset.default_config.permission_policy.type == "always_allow"
    assert custom.type == "custom"
    assert custom.name == "crm"
    assert (await sdk.beta.agents.retrieve(agent.id)).system == "two"


async def test_a_version_that_an_agent_does_not_have_is_refused(sdk: AsyncAnthropic) -> None:
    agent = await sdk.beta.agents.create(name="A", model="m")
    with pytest.raises(NotFoundError, match="version 9"):
        await sdk.beta.sessions.create(
            agent={"type": "agent", "id": agent.id, "version": 9}, environment_id="e"
        )


async def test_a_session_of_the_native_dialect_is_served_as_well(
    sdk: AsyncAnthropic, harness: Harness
) -> None:
    session = "team:42@eu.west"
    await harness.append(session, RUNNING, END_TURN)
    found = await sdk.beta.sessions.retrieve(session)
    assert (found.id, found.status, found.title) == (session, "idle", None)
    async with await sdk.beta.sessions.events.stream(session) as stream:
        sent = await sdk.beta.sessions.events.send(session, events=[{"type": "user.interrupt"}])
        assert await taken(stream) == sent.data
    assert len([event async for event in sdk.beta.sessions.events.list(session)]) == 3


async def test_an_update_changes_what_it_names_and_is_told_in_the_log(sdk: AsyncAnthropic) -> None:
    session = await sdk.beta.sessions.create(
        agent="a", environment_id="e", title="Old", metadata={"keep": "1", "drop": "2"}
    )
    renamed = await sdk.beta.sessions.update(session.id, title="New")
    assert (renamed.title, renamed.metadata) == ("New", {"keep": "1", "drop": "2"})
    patched = await sdk.beta.sessions.update(session.id, metadata={"drop": None, "add": "3"})
    assert (patched.title, patched.metadata) == ("New", {"keep": "1", "add": "3"})
    armed = await sdk.beta.sessions.update(
        session.id, agent={"tools": [{"type": "agent_toolset_20260401"}], "mcp_servers": []}
    )
    [toolset] = armed.agent.tools
    assert toolset.type == "agent_toolset_20260401"
    assert toolset.configs == []
    cleared = await sdk.beta.sessions.update(session.id, title=None)
    assert cleared.title is None

    events = [event async for event in sdk.beta.sessions.events.list(session.id, types=["session.updated"])]
    told = [event.to_dict(mode="json") for event in events]
    assert [sorted(one.keys() & {"title", "metadata", "agent"}) for one in told] == [
        ["title"],
        ["metadata"],
        ["agent"],
        ["title"],
    ]
    assert told[1]["metadata"] == {"keep": "1", "add": "3"}
    assert (await sdk.beta.sessions.retrieve(session.id)).title is None


async def test_a_budget_is_replaced_and_removed_but_not_added(sdk: AsyncAnthropic, account: Account) -> None:
    """To raise or to remove it takes the key of a judge; anybody who may write may lower it."""

    def dollars(amount: int) -> dict[str, object]:
        return {"type": "limit", "max_list_cost": {"amount": f"{amount}00", "currency": "USD"}}

    session = await sdk.beta.sessions.create(agent="a", environment_id="e", budget=dollars(5))  # type: ignore[arg-type]
    lowered = await sdk.beta.sessions.update(session.id, budget=dollars(3))  # type: ignore[arg-type]
    assert lowered.budget is not None
    assert lowered.budget.max_list_cost.amount == "300"
    for more in (dollars(9), None):
        with pytest.raises(PermissionDeniedError, match="evaluator"):
            await sdk.beta.sessions.update(session.id, budget=more)  # type: ignore[arg-type]
    judge = sdk.with_options(api_key=account.new_key("evaluator"))
    raised = await judge.beta.sessions.update(session.id, budget=dollars(9))  # type: ignore[arg-type]
    assert raised.budget is not None
    assert raised.budget.max_list_cost.amount == "900"
    assert (await sdk.beta.sessions.update(session.id, title="x")).budget == raised.budget
    assert (await judge.beta.sessions.update(session.id, budget=None)).budget is None
    with pytest.raises(BadRequestError, match="budget_create_only"):
        await sdk.beta.sessions.update(session.id, budget=dollars(5))  # type: ignore[arg-type]


async def test_the_list_is_paged_forth_and_back(sdk: AsyncAnthropic) -> None:
    made = [(await _new(sdk, title=str(number))).id for number in range(7)]
    newest_first = made[::-1]
    assert [one.id async for one in sdk.beta.sessions.list(limit=3)] == newest_first
    assert [one.id async for one in sdk.beta.sessions.list(limit=3, order="asc")] == made

    first = await sdk.beta.sessions.list(limit=3)
    assert (first.prev_page, first.has_next_page()) == (None, True)
    second = await first.get_next_page()
    third = await second.get_next_page()
    assert [one.id for page in (first, second, third) for one in page.data] == newest_first
    assert not third.has_next_page()
    assert third.next_page is None

    assert third.prev_page is not None
    back = await sdk.beta.sessions.list(limit=3, page=third.prev_page)
    assert [one.id for one in back.data] == newest_first[3:6]
    assert back.prev_page is not None
    assert back.next_page is not None
    begin = await sdk.beta.sessions.list(limit=3, page=back.prev_page)
    assert [one.id for one in begin.data] == newest_first[:3]
    assert begin.prev_page is None
    again = await sdk.beta.sessions.list(limit=3, page=begin.next_page or "")
    assert [one.id for one in again.data] == newest_first[3:6]


async def test_pages_stay_right_while_sessions_arrive(sdk: AsyncAnthropic) -> None:
    made = [(await _new(sdk)).id for _ in range(4)]
    page = await sdk.beta.sessions.list(limit=2)
    await _new(sdk)
    await sdk.beta.sessions.delete(made[2])
    rest = await page.get_next_page()
    assert [one.id for one in page.data + rest.data] == made[::-1]


async def test_the_list_is_filtered(sdk: AsyncAnthropic, harness: Harness) -> None:
    agent = await sdk.beta.agents.create(name="A", model="m")
    first = await _new(sdk, agent.id)
    await asyncio.sleep(0.005)
    await sdk.beta.agents.update(agent.id, version=1, name="B")
    second = await _new(sdk, agent.id)
    await asyncio.sleep(0.005)
    third = await _new(sdk, "another")
    await harness.append(second.id, RUNNING)
    await sdk.beta.sessions.archive(third.id)

    async def ids(**filters: object) -> list[str]:
        return [one.id async for one in sdk.beta.sessions.list(order="asc", **filters)]  # type: ignore[arg-type]

    assert await ids() == [first.id, second.id]
    assert await ids(include_archived=True) == [first.id, second.id, third.id]
    assert await ids(agent_id=agent.id) == [first.id, second.id]
    assert await ids(agent_id=agent.id, agent_version=2) == [second.id]
    assert await ids(statuses=["running"]) == [second.id]
    assert await ids(statuses=["running", "idle"]) == [first.id, second.id]
    assert await ids(statuses=["terminated"], include_archived=True) == [third.id]
    assert await ids(created_at_gt=first.created_at) == [second.id]
    assert await ids(created_at_gte=second.created_at) == [second.id]
    assert await ids(created_at_lt=second.created_at) == [first.id]
    assert await ids(created_at_lte=first.created_at) == [first.id]
    assert await ids(created_at_gte=first.created_at + timedelta(days=1)) == []


async def test_a_running_session_is_neither_archived_nor_deleted(
    sdk: AsyncAnthropic, harness: Harness
) -> None:
    session = await _new(sdk)
    await harness.append(session.id, RUNNING)
    assert (await sdk.beta.sessions.retrieve(session.id)).status == "running"
    with pytest.raises(BadRequestError, match="running"):
        await sdk.beta.sessions.archive(session.id)
    with pytest.raises(BadRequestError, match="running"):
        await sdk.beta.sessions.delete(session.id)
    await harness.append(session.id, END_TURN)
    await sdk.beta.sessions.archive(session.id)
    await sdk.beta.sessions.archive(session.id)
    await sdk.beta.sessions.delete(session.id)
    with pytest.raises(NotFoundError):
        await sdk.beta.sessions.retrieve(session.id)


async def test_resources_are_attached_shown_and_taken_away(sdk: AsyncAnthropic) -> None:
    session = await sdk.beta.sessions.create(
        agent="a",
        environment_id="e",
        resources=[
            {"type": "file", "file_id": "file_1"},
            {
                "type": "github_repository",
                "url": "https://github.com/acme/widgets",
                "authorization_token": "a secret",
                "checkout": {"type": "branch", "name": "main"},
            },
            {"type": "memory_store", "memory_store_id": "memstore_1", "access": "read_only"},
        ],
    )
    file, repository, memory = session.resources
    assert file.type == "file"
    assert (file.file_id, file.mount_path) == ("file_1", "/mnt/session/uploads/file_1")
    assert repository.type == "github_repository"
    assert repository.mount_path == "/workspace/widgets"
    assert "authorization_token" not in repository.to_dict()
    assert memory.type == "memory_store"
    assert memory.memory_store_id == "memstore_1"
    assert [one.id async for one in sdk.beta.sessions.list(memory_store_id="memstore_1")] == [session.id]
    assert [one.id async for one in sdk.beta.sessions.list(memory_store_id="memstore_2")] == []

    added = await sdk.beta.sessions.resources.add(
        session.id, type="file", file_id="file_2", mount_path="/data/two"
    )
    assert added.mount_path == "/data/two"
    listed = [one async for one in sdk.beta.sessions.resources.list(session.id)]
    assert [one.type for one in listed] == ["file", "github_repository", "memory_store", "file"]
    found = await sdk.beta.sessions.resources.retrieve(added.id, session_id=session.id)
    assert found == added
    updated = await sdk.beta.sessions.resources.update(
        repository.id, session_id=session.id, authorization_token="another"
    )
    assert updated.type == "github_repository"
    assert updated.updated_at >= repository.updated_at
    gone = await sdk.beta.sessions.resources.delete(added.id, session_id=session.id)
    assert (gone.id, gone.type) == (added.id, "session_resource_deleted")
    with pytest.raises(NotFoundError):
        await sdk.beta.sessions.resources.retrieve(added.id, session_id=session.id)
    assert len((await sdk.beta.sessions.retrieve(session.id)).resources) == 3
    told = [event.type async for event in sdk.beta.sessions.events.list(session.id)]
    assert "authorization_token" not in str(told)
