"""The table of keys: looked up, changed, replaced as a whole, and divided among processes."""

from collections.abc import Callable

import msgspec
import pytest

from durable_sessions.access.caller import Caller, Role
from durable_sessions.access.key_table import KeyTable
from durable_sessions.clock import ManualClock

from .documents import document

LOCAL = Caller("default", "local", Role.ADMIN, None)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def table(clock: ManualClock) -> KeyTable:
    return KeyTable(clock, "default")


def caller_of(table: KeyTable, secret: str) -> Caller:
    key = table.find(secret.encode())
    assert key is not None
    return key.caller


def watched(table: KeyTable, caller: Caller) -> tuple[list[str], Callable[[], None]]:
    ended: list[str] = []
    return ended, table.watch(caller, lambda: ended.append(caller.principal))


def test_a_key_is_found_by_its_secret_until_it_is_revoked(table: KeyTable) -> None:
    table.apply(document("one"))
    one = caller_of(table, "one")
    assert table.valid(one)
    assert table.find(b"two") is None
    table.apply(document("one", revoked_at_ms=5))
    assert table.find(b"one") is None
    revoked = table.revoked(b"one")
    assert revoked is not None
    assert revoked.id == "one"
    assert not table.valid(one)


def test_the_first_key_ends_callers_without_one_for_good(table: KeyTable) -> None:
    ended, _ = watched(table, LOCAL)
    assert table.valid(LOCAL)
    table.apply(document("one"))
    assert ended == ["local"]
    assert not table.valid(LOCAL)
    table.replace([])
    assert table.required, "no keys at all are no reason to let in everybody again"


def test_every_change_has_a_version(table: KeyTable) -> None:
    versions = [table.version]
    for change in (
        lambda: table.apply(document("one")),
        lambda: table.apply(document("two")),
        lambda: table.apply(document("two", revoked_at_ms=5)),
        lambda: table.forget("two"),
        lambda: table.replace([document("three")]),
    ):
        change()
        versions.append(table.version)
    assert versions == sorted(set(versions))
    table.forget("two")
    assert table.version == versions[-1], "what changes nothing has none"


def test_a_replacement_ends_those_whose_keys_are_gone_or_revoked_and_no_others(table: KeyTable) -> None:
    for name in ("kept", "revoked", "gone"):
        table.apply(document(name))
    table.bootstrap("boot")
    watches = {
        name: watched(table, caller_of(table, name))[0] for name in ("kept", "revoked", "gone", "boot")
    }
    replacement = table.replacement()
    replacement.add(document("kept"))
    replacement.add(document("revoked", revoked_at_ms=5))
    assert table.find(b"gone") is not None, "nothing changes before it is finished"
    replacement.finish()
    assert {name: bool(ended) for name, ended in watches.items()} == {
        "kept": False,
        "revoked": True,
        "gone": True,
        "boot": False,
    }
    assert table.find(b"gone") is None
    assert table.find(b"boot") is not None
    assert len(table) == 2


def test_a_replacement_keeps_rates_and_last_uses(table: KeyTable, clock: ManualClock) -> None:
    table.apply(document("slow", rate=1))
    key = table.find(b"slow")
    assert key is not None
    assert key.rate is not None
    assert key.rate.take(clock.now_ms()) == 0
    key.last_used_ms = 7
    table.replace([document("slow", rate=1)])
    again = table.find(b"slow")
    assert again is not None
    assert again.rate is not None
    assert again.rate.take(clock.now_ms()) > 0, "whoever opens the log again gives no fresh burst"
    assert again.last_used_ms == 7


def test_a_lost_key_still_counts_as_one(table: KeyTable) -> None:
    replacement = table.replacement()
    replacement.require_keys()
    replacement.finish()
    assert table.required
    assert len(table) == 0


def test_forgetting_a_key_ends_its_callers(table: KeyTable) -> None:
    table.apply(document("one"))
    ended, _ = watched(table, caller_of(table, "one"))
    assert table.forget("one")
    assert ended
    assert not table.forget("one")


def test_an_expired_key_is_not_found(table: KeyTable, clock: ManualClock) -> None:
    table.apply(document("one", expires_at_ms=clock.now_ms() + 1000))
    one = caller_of(table, "one")
    clock.advance(1)
    assert table.find(b"one") is None
    assert not table.valid(one)


def _taken(table: KeyTable, clock: ManualClock, secret: bytes) -> int:
    key = table.find(secret)
    assert key is not None
    assert key.rate is not None
    taken = 0
    while not key.rate.take(clock.now_ms()):
        taken += 1
    return taken


def test_rates_are_divided_among_the_processes(table: KeyTable, clock: ManualClock) -> None:
    table.apply(document("old", rate=10))
    table.divide_rates(5)
    table.apply(document("new", rate=10))
    table.apply(document("slow", rate=1))
    assert [_taken(table, clock, name) for name in (b"old", b"new", b"slow")] == [2, 2, 1]
    clock.advance(1)
    assert [_taken(table, clock, name) for name in (b"old", b"new", b"slow")] == [2, 2, 0]
    table.divide_rates(1)
    clock.advance(1)
    assert [_taken(table, clock, name) for name in (b"old", b"new", b"slow")] == [10, 10, 1]


def test_an_operator_sees_all_keys_and_others_see_their_own(table: KeyTable) -> None:
    table.apply(document("one", role="admin"))
    table.apply(document("two", workspace="other", role="admin"))
    seen = {
        name: [key.document.id for key in table.visible(caller_of(table, name))] for name in ("one", "two")
    }
    assert seen == {"one": ["one", "two"], "two": ["two"]}


def test_a_changed_key_is_the_same_key(table: KeyTable) -> None:
    first = table.apply(document("one"))
    changed = table.apply(msgspec.structs.replace(document("one"), revoked_at_ms=5))
    assert changed is first
