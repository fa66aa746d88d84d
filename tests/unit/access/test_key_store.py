"""The store of keys: who may make which, how many there may be, and what is left of them after a restart."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec
import pytest

from durable_sessions.access.audit import Audit
from durable_sessions.access.caller import Caller, Role
from durable_sessions.access.key import LiveKey
from durable_sessions.access.key_store import FOLDER, KeyStore, NewKey
from durable_sessions.access.key_table import KeyTable
from durable_sessions.clock import ManualClock
from durable_sessions.errors import (
    ForbiddenError,
    KeyNotFoundError,
    KeysTooFastError,
    TooManyKeysError,
)
from durable_sessions.ids import RandomIds
from durable_sessions.limits import DEFAULT_LIMITS, Limits
from durable_sessions.storage.partition import Partition
from durable_sessions.streams.create import Create
from durable_sessions.streams.stream import SYSTEM_WORKSPACE, Key
from durable_sessions.testing.memory_log import MemoryLog

pytestmark = pytest.mark.anyio

ANYBODY = Caller("default", "anonymous", Role.ADMIN, None)
"""Whoever asks a server that has no keys yet."""


class Opened:
    """A partition, and the store and the table of its keys."""

    def __init__(self, partition: Partition, clock: ManualClock, limits: Limits) -> None:
        self.partition = partition
        self.clock = clock
        self.table = KeyTable(clock, "default")
        self.audit = Audit(partition, clock, limits)
        self.store = KeyStore(partition, self.table, self.audit, clock, RandomIds(), limits)

    async def make(self, caller: Caller, wanted: NewKey) -> LiveKey:
        """Create a key, and return it as the table has it."""
        key, secret = await self.store.create(caller, wanted, "req_1")
        found = self.table.find(secret.encode())
        assert found is not None
        assert found.document == key.document
        return found

    async def operator(self) -> Caller:
        """Create the first key."""
        return (await self.make(ANYBODY, NewKey("default", "operator", Role.ADMIN))).caller

    async def tenant(self, workspace: str = "acme") -> Caller:
        """Create the first key and one of an admin of another workspace."""
        return (await self.make(await self.operator(), NewKey(workspace, "ann", Role.ADMIN))).caller

    async def acts(self, workspace: str) -> list[str]:
        """Return the types of the recorded acts of a workspace."""
        page = await self.audit.page(workspace, None, 100, newest_first=False)
        return [msgspec.json.decode(one)["type"] for one in page.acts]


@asynccontextmanager
async def opened(log: MemoryLog | None = None, **bounds: int) -> AsyncIterator[Opened]:
    limits = replace(DEFAULT_LIMITS, **bounds)
    clock = ManualClock()
    partition = await Partition.open(log or MemoryLog(), clock, limits)
    one = Opened(partition, clock, limits)
    await one.store.load()
    yield one
    await partition.close()


def reader(workspace: str = "acme") -> NewKey:
    return NewKey(workspace, "bob", Role.READER)


# Who may make which ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "wanted", [NewKey("default", "a", Role.WRITER), NewKey("acme", "a", Role.ADMIN), reader()]
)
async def test_the_first_key_must_be_able_to_make_others(wanted: NewKey) -> None:
    async with opened() as one:
        with pytest.raises(ForbiddenError, match="create it with the role admin in the workspace default"):
            await one.store.create(ANYBODY, wanted, "")
        assert not one.table.required, "nobody is locked out"


async def test_only_a_digest_of_the_secret_is_kept() -> None:
    log = MemoryLog()
    async with opened(log) as one:
        key, secret = await one.store.create(ANYBODY, NewKey("default", "operator", Role.ADMIN), "")
        kept = one.partition.peek(Key(SYSTEM_WORKSPACE, f"{FOLDER}/{key.document.id}"))
        assert kept is not None
        stored = b"".join(kept.attributes.values())
    assert key.document.digest.encode() in stored
    assert secret.encode() not in stored


async def test_an_admin_manages_the_keys_of_its_own_workspace_only() -> None:
    async with opened() as one:
        tenant = await one.tenant()
        own = await one.make(tenant, reader())
        for workspace in ("default", "other"):
            with pytest.raises(ForbiddenError, match="of its own workspace only"):
                await one.store.create(tenant, reader(workspace), "")
        with pytest.raises(ForbiddenError, match="role admin"):
            await one.store.create(own.caller, reader(), "")
        stranger = Caller("other", "eve", Role.ADMIN, "key_x")
        with pytest.raises(KeyNotFoundError):
            await one.store.revoke(stranger, own.document.id, "")
        with pytest.raises(KeyNotFoundError):
            await one.store.revoke(tenant, "key_none", "")
        assert one.table.valid(own.caller)


async def test_a_key_has_at_most_the_rate_and_the_time_of_its_maker() -> None:
    async with opened() as one:
        end_ms = one.clock.now_ms() + 1_000
        wanted = NewKey("acme", "ann", Role.ADMIN, requests_per_second=5.0, expires_at_ms=end_ms)
        maker = (await one.make(await one.operator(), wanted)).caller
        inherited = (await one.make(maker, reader())).document
        assert (inherited.requests_per_second, inherited.expires_at_ms) == (5.0, end_ms)
        same = reader()._replace(requests_per_second=5.0, expires_at_ms=end_ms)
        assert (await one.make(maker, same)).document.expires_at_ms == end_ms
        less = reader()._replace(requests_per_second=2.0, expires_at_ms=end_ms - 1)
        lower = (await one.make(maker, less)).document
        assert (lower.requests_per_second, lower.expires_at_ms) == (2.0, end_ms - 1)
        with pytest.raises(ForbiddenError, match="send requests_per_second up to 5"):
            await one.store.create(maker, reader()._replace(requests_per_second=5.1), "")
        with pytest.raises(ForbiddenError, match="No key outlives its maker"):
            await one.store.create(maker, reader()._replace(expires_at_ms=end_ms + 1), "")


# How many -------------------------------------------------------------------------------


async def test_a_workspace_has_so_many_keys_however_many_are_asked_for_at_once() -> None:
    async with opened(workspace_keys_max=3) as one:
        tenant = await one.tenant()
        asked = [one.store.create(tenant, reader(), "") for _ in range(6)]
        done = await asyncio.gather(*asked, return_exceptions=True)
        refused = [each for each in done if isinstance(each, TooManyKeysError)]
        assert len(refused) == 4, "the admin's own key is one of the three"
        assert len(one.table) == 1 + 3


async def test_the_oldest_key_that_is_over_makes_room() -> None:
    log = MemoryLog()
    async with opened(log, workspace_keys_max=3) as one:
        tenant = await one.tenant()
        first, second = [await one.make(tenant, reader()) for _ in range(2)]
        for key in (second, first):
            await one.store.revoke(tenant, key.document.id, "")
        third = await one.make(tenant, reader())
        assert one.table.get(first.document.id) is None, "the older one, although it was revoked later"
        assert one.table.get(second.document.id) is not None
    async with opened(log) as one:
        ids = {key.document.id for key in one.table.all()}
        assert first.document.id not in ids
        assert {second.document.id, third.document.id} <= ids


async def test_an_expired_key_makes_room_too() -> None:
    async with opened(workspace_keys_max=2) as one:
        tenant = await one.tenant()
        soon = reader()._replace(expires_at_ms=one.clock.now_ms() + 1_000)
        expiring = await one.make(tenant, soon)
        with pytest.raises(TooManyKeysError, match="The workspace acme"):
            await one.store.create(tenant, reader(), "")
        one.clock.advance(1_000)
        await one.make(tenant, reader())
        assert one.table.get(expiring.document.id) is None


async def test_the_last_keys_of_the_server_are_for_the_operators() -> None:
    async with opened(keys_max=4, keys_reserved=1) as one:
        tenant = await one.tenant()
        await one.make(tenant, reader())
        with pytest.raises(TooManyKeysError, match="The server"):
            await one.store.create(tenant, reader(), "")
        operator = next(key.caller for key in one.table.all() if key.document.workspace == "default")
        await one.make(operator, reader("other"))
        with pytest.raises(TooManyKeysError, match="The server"):
            await one.store.create(operator, reader("other"), "")


async def test_on_a_full_server_a_workspace_gives_up_its_own_keys_first() -> None:
    async with opened(keys_max=4, keys_reserved=0) as one:
        tenant = await one.tenant()
        operator = next(key.caller for key in one.table.all() if key.document.workspace == "default")
        others = await one.make(operator, reader("other"))
        own = await one.make(tenant, reader())
        for key in (others, own):
            await one.store.revoke(operator, key.document.id, "")
        await one.make(tenant, reader())
        assert one.table.get(own.document.id) is None
        assert one.table.get(others.document.id) is not None, "although it is older"
        await one.make(tenant, reader())
        assert one.table.get(others.document.id) is None, "nothing of its own was left to give up"


async def test_a_workspace_makes_keys_only_so_fast() -> None:
    async with opened(workspace_keys_per_minute_max=2) as one:
        tenant = await one.tenant()
        for _ in range(2):
            await one.make(tenant, reader())
        with pytest.raises(KeysTooFastError) as refused:
            await one.store.create(tenant, reader(), "")
        assert refused.value.retry_after_seconds == 30
        one.clock.advance(30_000)
        await one.make(tenant, reader())
        operator = next(key.caller for key in one.table.all() if key.document.workspace == "default")
        for _ in range(5):
            await one.make(operator, reader())


# Revoking and loading -------------------------------------------------------------------


async def test_a_revoked_key_admits_nobody_and_is_recorded_once() -> None:
    async with opened() as one:
        tenant = await one.tenant()
        key, secret = await one.store.create(tenant, reader(), "")
        revoked = await one.store.revoke(tenant, key.document.id, "req_2")
        again = await one.store.revoke(tenant, key.document.id, "req_3")
        assert revoked.document == again.document
        assert one.table.find(secret.encode()) is None
        assert one.table.revoked(secret.encode()) == revoked.document
        assert await one.acts("acme") == ["key.created", "key.created", "key.revoked"]


async def test_after_a_restart_keys_are_what_they_were() -> None:
    log = MemoryLog()
    async with opened(log) as one:
        tenant = await one.tenant()
        _, secret = await one.store.create(tenant, reader(), "")
        gone, gone_secret = await one.store.create(tenant, reader(), "")
        await one.store.revoke(tenant, gone.document.id, "")
    async with opened(log, workspace_keys_max=3) as one:
        assert one.table.required
        found = one.table.find(secret.encode())
        assert found is not None
        assert found.caller.role is Role.READER
        assert one.table.find(gone_secret.encode()) is None
        await one.make(tenant, reader())
        assert one.table.get(gone.document.id) is None, "keys that were loaded are counted"


async def test_a_key_that_a_repair_has_lost_still_locks_the_server() -> None:
    log = MemoryLog()
    async with opened(log) as one:
        created = Create(content_type="application/json")
        await one.partition.create(Key(SYSTEM_WORKSPACE, f"{FOLDER}/key_lost"), created)
    async with opened(log) as one:
        assert one.table.required, "whoever made it wanted keys to be needed"
        assert not one.table.valid(ANYBODY)
        assert not len(one.table)
