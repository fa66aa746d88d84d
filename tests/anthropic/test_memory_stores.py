"""Memory stores by the official SDK, and the same memories as sessions see them."""

from hashlib import sha256
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic, BadRequestError, ConflictError, NotFoundError, PermissionDeniedError

from durable_sessions.limits import DEFAULT_LIMITS as LIMITS
from tests.anthropic.conftest import Account

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(sdk: AsyncAnthropic) -> str:
    return (await sdk.beta.memory_stores.create(name="Team notes")).id


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def native(account: Account) -> httpx2.Client:
    return httpx2.Client(base_url=account.url + "/v1", headers={"x-api-key": account.key}, verify=False)


async def test_a_store_is_an_object_like_the_others(sdk: AsyncAnthropic) -> None:
    stores = sdk.beta.memory_stores
    made = await stores.create(name="Team notes", description="What we know", metadata={"team": "infra"})
    assert made.id.startswith("memstore_")
    assert (made.type, made.name, made.description, made.archived_at) == (
        "memory_store",
        "Team notes",
        "What we know",
        None,
    )
    changed = await stores.update(made.id, description="", metadata={"team": None, "tier": "gold"})
    assert (changed.name, changed.description, changed.metadata) == ("Team notes", "", {"tier": "gold"})
    other = await stores.create(name="Other")
    assert [one.id async for one in stores.list(limit=1)] == [other.id, made.id]
    assert (await stores.archive(made.id)).archived_at is not None
    assert [one.id async for one in stores.list()] == [other.id]
    assert [one.id async for one in stores.list(include_archived=True)] == [other.id, made.id]
    with pytest.raises(BadRequestError, match="archived"):
        await stores.update(made.id, name="New")
    assert (await stores.delete(other.id)).type == "memory_store_deleted"
    with pytest.raises(NotFoundError):
        await stores.retrieve(other.id)
    refused: list[Any] = [{"name": ""}, {"name": "n" * (LIMITS.memory_store_name_max + 1)}, {"name": "a\nb"}]
    for bad in [*refused, {"name": "n", "description": "d" * (LIMITS.memory_store_description_max + 1)}]:
        with pytest.raises(BadRequestError):
            await stores.create(**bad)
    name, description = "n" * LIMITS.memory_store_name_max, "d" * LIMITS.memory_store_description_max
    assert (await stores.create(name=name, description=description)).description == description


async def test_a_memory_keeps_its_id_through_changes_of_content_and_path(
    sdk: AsyncAnthropic, store: str
) -> None:
    memories = sdk.beta.memory_stores.memories
    made = await memories.create(store, path="/build/notes.md", content="One.")
    assert made.id.startswith("mem_")
    assert made.memory_version_id.startswith("memver_")
    assert (made.path, made.content, made.content_size_bytes) == ("/build/notes.md", None, 4)
    assert made.content_sha256 == digest("One.")
    changed = await memories.update(
        made.id,
        memory_store_id=store,
        content="Two, ü.",
        precondition={"type": "content_sha256", "content_sha256": digest("One.")},
        view="full",
    )
    assert (changed.id, changed.content, changed.content_size_bytes) == (made.id, "Two, ü.", 8)
    assert changed.created_at == made.created_at
    moved = await memories.update(made.id, memory_store_id=store, path="/old/notes.md")
    assert (moved.id, moved.path, moved.content_sha256) == (made.id, "/old/notes.md", digest("Two, ü."))
    assert await memories.update(made.id, memory_store_id=store) == moved  # nothing to change: no version
    found = await memories.retrieve(made.id, memory_store_id=store)
    assert (found.content, found.memory_version_id) == ("Two, ü.", moved.memory_version_id)
    # The old path is free, and another memory begins there.
    other = await memories.create(store, path="/build/notes.md", content="")
    assert other.id != made.id
    versions = [one async for one in sdk.beta.memory_stores.memory_versions.list(store, limit=1, view="full")]
    assert [(one.operation, one.path, one.content) for one in versions] == [
        ("created", "/build/notes.md", ""),
        ("modified", "/old/notes.md", "Two, ü."),
        ("modified", "/build/notes.md", "Two, ü."),
        ("created", "/build/notes.md", "One."),
    ]
    assert [one.memory_id for one in versions] == [other.id, made.id, made.id, made.id]


async def test_conflicts_name_what_is_in_the_way(sdk: AsyncAnthropic, store: str) -> None:
    memories = sdk.beta.memory_stores.memories
    made = await memories.create(store, path="/a", content="One.")
    with pytest.raises(ConflictError) as taken:
        await memories.create(store, path="/a", content="Two.")
    body: Any = taken.value.body
    assert body["error"]["type"] == "memory_path_conflict_error"
    assert body["error"]["conflicting_memory_id"] == made.id
    other = await memories.create(store, path="/b", content="Two.")
    with pytest.raises(ConflictError, match="/a is taken"):
        await memories.update(other.id, memory_store_id=store, path="/a")
    stale: Any = {"type": "content_sha256", "content_sha256": digest("Zero.")}
    with pytest.raises(ConflictError) as failed:
        await memories.update(made.id, memory_store_id=store, content="New.", precondition=stale)
    body = failed.value.body
    assert body["error"]["type"] == "memory_precondition_failed_error"
    with pytest.raises(ConflictError):
        await memories.delete(made.id, memory_store_id=store, expected_content_sha256=digest("Zero."))
    await memories.delete(made.id, memory_store_id=store, expected_content_sha256=digest("One."))
    with pytest.raises(NotFoundError):
        await memories.retrieve(made.id, memory_store_id=store)
    with pytest.raises(NotFoundError):
        await memories.delete(made.id, memory_store_id=store)
    again = await memories.create(store, path="/a", content="Three.")
    assert again.id != made.id


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        "/",
        "/a//b",
        "/a/",
        "/./a",
        "/a/..",
        "/a\n",
        "/a\u200b",
        "/e\u0301",
        "/" + "x" * LIMITS.memory_path_bytes_max,
        "/a" * (LIMITS.memory_path_segments_max + 1),
    ],
)
async def test_a_path_that_cannot_be_is_refused(sdk: AsyncAnthropic, store: str, path: str) -> None:
    with pytest.raises(BadRequestError, match="path"):
        await sdk.beta.memory_stores.memories.create(store, path=path, content="x")


async def test_what_is_as_large_as_may_be(sdk: AsyncAnthropic, store: str) -> None:
    memories = sdk.beta.memory_stores.memories
    large = "y" * LIMITS.memory_content_bytes_max
    await memories.create(store, path="/" + "x" * (LIMITS.memory_path_bytes_max - 1), content=large)
    await memories.create(store, path="/a" * LIMITS.memory_path_segments_max, content="")
    with pytest.raises(BadRequestError, match=str(len(large))):
        await memories.create(store, path="/larger", content=large + "y")


async def test_lists_by_prefix_and_depth(sdk: AsyncAnthropic, store: str) -> None:
    memories = sdk.beta.memory_stores.memories
    paths = ["/a.md", "/notes/1.md", "/notes/2.md", "/notes/deep/3.md", "/notes-archive/4.md", "/z.md"]
    for path in reversed(paths):
        await memories.create(store, path=path, content=path)
    gone = await memories.create(store, path="/gone.md", content="")
    await memories.delete(gone.id, memory_store_id=store)

    async def listed(**query: Any) -> list[str]:
        return [one.path async for one in memories.list(store, **query)]

    assert await listed(limit=2) == sorted(paths)
    assert await listed(path_prefix="/notes/") == ["/notes/1.md", "/notes/2.md", "/notes/deep/3.md"]
    assert await listed(path_prefix="/notes/", depth=1) == ["/notes/1.md", "/notes/2.md", "/notes/deep/"]
    assert await listed(depth=1, limit=1) == ["/a.md", "/notes-archive/", "/notes/", "/z.md"]
    folder = (await memories.list(store, depth=1, limit=2)).data[1]
    assert folder.type == "memory_prefix"
    full = await memories.list(store, view="full", limit=100)
    assert [getattr(one, "content", "") for one in full.data] == sorted(paths)
    with pytest.raises(BadRequestError, match="path_prefix"):
        await memories.list(store, path_prefix="notes")


async def test_an_archived_store_can_be_read_and_emptied_only(sdk: AsyncAnthropic, store: str) -> None:
    memories = sdk.beta.memory_stores.memories
    made = await memories.create(store, path="/a", content="One.")
    await sdk.beta.memory_stores.archive(store)
    with pytest.raises(BadRequestError, match="archived"):
        await memories.create(store, path="/b", content="")
    with pytest.raises(BadRequestError, match="archived"):
        await memories.update(made.id, memory_store_id=store, content="")
    assert (await memories.retrieve(made.id, memory_store_id=store)).content == "One."
    assert (await memories.delete(made.id, memory_store_id=store)).type == "memory_deleted"


async def test_versions_can_be_filtered_and_redacted(
    account: Account, sdk: AsyncAnthropic, store: str
) -> None:
    memories, versions = sdk.beta.memory_stores.memories, sdk.beta.memory_stores.memory_versions
    made = await memories.create(store, path="/secrets.md", content="hunter2")
    other = await memories.create(store, path="/b", content="")
    await memories.update(made.id, memory_store_id=store, content="clean")
    await memories.delete(made.id, memory_store_id=store)
    of_one = [one async for one in versions.list(store, memory_id=made.id)]
    assert [one.operation for one in of_one] == ["deleted", "modified", "created"]
    assert [one.memory_id async for one in versions.list(store, operation="created")] == [other.id, made.id]
    assert [one async for one in versions.list(store, session_id="nobody")] == []
    who: Any = of_one[0].created_by
    assert who.type == "api_actor"
    assert len([one async for one in versions.list(store, api_key_id=who.api_key_id)]) == 4
    assert [one async for one in versions.list(store, api_key_id="other")] == []
    first = of_one[-1]
    with pytest.raises(PermissionDeniedError):
        await versions.redact(first.id, memory_store_id=store)
    admin = sdk.with_options(api_key=account.new_key("admin"))
    for _ in range(2):
        redacted = await admin.beta.memory_stores.memory_versions.redact(first.id, memory_store_id=store)
        assert (redacted.content, redacted.path, redacted.content_sha256) == (None, None, None)
        assert redacted.redacted_at is not None
        assert redacted.redacted_by is not None
    assert await versions.retrieve(first.id, memory_store_id=store) == redacted
    assert (await versions.retrieve(of_one[1].id, memory_store_id=store)).content == "clean"
    for name in ("memver_1", first.id.replace("memver_", "mem_"), first.id[:-1] + "f"):
        with pytest.raises(NotFoundError):
            await versions.retrieve(name, memory_store_id=store)


async def test_sessions_see_the_same_memories(account: Account, sdk: AsyncAnthropic, store: str) -> None:
    memories, versions = sdk.beta.memory_stores.memories, sdk.beta.memory_stores.memory_versions
    made = await memories.create(store, path="/build.md", content="test_upload is flaky")
    scope = f"store:{store}"
    with native(account) as api:
        found = api.get("/memory", params={"scope": scope, "q": "flaky"}).json()["data"]
        assert [(one["key"], one["value"], one["why"], one["session"]) for one in found] == [
            ("/build.md", "test_upload is flaky", "api", None)
        ]
        recalled = api.put("/sessions/reader", json={})
        assert recalled.is_success
        recalled = api.post("/sessions/reader/recall", json={"scope": scope, "q": "flaky"})
        assert recalled.status_code == 200, recalled.text
        assert recalled.json()["event"]["returned"] == [{"id": found[0]["id"], "session": None}]
        write = {
            "type": "ds.memory.written",
            "scope": scope,
            "key": "/build.md",
            "value": "test_upload was mended",
            "why": "validation",
            "refs": [{"rel": "because", "id": "proof"}],
        }
        sent = api.post("/sessions/reader/events", json=[{"type": "note", "id": "proof"}, write])
        assert sent.is_success, sent.text
        log = api.get("/memory/log", params={"scope": scope}).json()["data"]
        assert [(one["type"], one["session"], one.get("why")) for one in log] == [
            ("written", None, "api"),
            ("read", "reader", None),
            ("written", "reader", None),
        ]
    now = await memories.retrieve(made.id, memory_store_id=store)
    assert (now.id, now.content) == (made.id, "test_upload was mended")
    (newest, *_) = [one async for one in versions.list(store, session_id="reader")]
    assert (newest.operation, newest.created_by.type if newest.created_by else None) == (
        "modified",
        "session_actor",
    )
    await memories.delete(made.id, memory_store_id=store)
    with native(account) as api:
        assert api.get("/memory", params={"scope": scope}).json()["data"] == []
        at = api.get("/memory", params={"scope": scope, "at": 3}).json()["data"]
        assert [one["value"] for one in at] == ["test_upload was mended"]
    await sdk.beta.memory_stores.delete(store)
    with native(account) as api:
        assert api.get("/memory", params={"scope": scope, "at": 0}).json()["data"] == []


async def test_what_a_session_wrote_is_redacted_there_too(
    account: Account, sdk: AsyncAnthropic, store: str
) -> None:
    key = account.new_key("admin", principal="privacy")
    redact = sdk.with_options(api_key=key).beta.memory_stores.memory_versions.redact
    with native(account) as api:
        for session in ("kept", "gone"):
            write = {
                "type": "ds.memory.written",
                "id": "lesson",
                "scope": f"store:{store}",
                "key": f"/{session}.md",
                "value": f"hunter2 of {session}",
                "why": "validation",
                "refs": [{"rel": "because", "id": "proof"}],
            }
            sent = api.post(f"/sessions/{session}/events", json=[{"type": "note", "id": "proof"}, write])
            assert sent.is_success, sent.text
        api.put("/sessions/branch", headers={"Stream-Forked-From": "/v1/sessions/kept"}).raise_for_status()
        api.delete("/sessions/gone").raise_for_status()
        versions = [one async for one in sdk.beta.memory_stores.memory_versions.list(store)]
        assert len(versions) == 2
        for version in versions:
            for _ in range(2):
                redacted = await redact(version.id, memory_store_id=store)
                assert (redacted.content, redacted.path) == (None, None)
                who: Any = redacted.redacted_by
                assert (who.type, who.api_key_id) == ("api_actor", "privacy")
        for session in ("kept", "branch"):
            event = api.get(f"/sessions/{session}/events/lesson").json()
            assert event["value"] is None
            assert versions[1].id in event["redacted"]["reason"]
        assert "hunter2" not in api.get("/memory", params={"scope": f"store:{store}"}).text
        assert api.get("/search", params={"q": "hunter2"}).json()["data"] == []
        acts = api.get("/audit", headers={"x-api-key": key}).json()["data"]
        assert {"session.redacted", "memory.redacted"} <= {act["type"] for act in acts}
