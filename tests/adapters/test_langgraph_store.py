"""The store for LangGraph: what its own tests do not see."""

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from durable_sessions import Client
from durable_sessions.client.errors import ConnectionFailedError
from durable_sessions.testing import BackgroundServer
from tests.adapters import upstream
from tests.support.process import ServerProcess
from tests.support.waiting import wait_until

upstream.needed("langgraph-checkpoint")

from langgraph.store.base import GetOp, InvalidNamespaceError, PutOp  # noqa: E402

from durable_sessions.adapters.langgraph_store import DurableStore  # noqa: E402

NUMBERS = itertools.count()


@pytest.fixture
def store(shared: BackgroundServer) -> Iterator[DurableStore]:
    made = DurableStore(url=shared.url, namespace=f"store-{next(NUMBERS)}")
    yield made
    made.close()


def session_of(store: DurableStore, root: str) -> str:
    return store._session(root)


def test_items_are_found_by_their_words_and_only_the_live_ones(store: DurableStore) -> None:
    store.put(("users", "ada"), "drink", {"text": "Ada drinks green tea"})
    store.put(("users", "ada"), "city", {"text": "Ada lives in Turin"})
    store.put(("users", "bob"), "drink", {"text": "Bob drinks no tea at all"})
    found = store.search(("users",), query="green tea: which?")
    assert [(item.namespace, item.key) for item in found] == [
        (("users", "ada"), "drink"),
        (("users", "bob"), "drink"),
    ]
    assert found[0].score is not None
    assert found[0].score > (found[1].score or 0.0)
    store.put(("users", "ada"), "drink", {"text": "Ada drinks coffee"})
    store.delete(("users", "bob"), "drink")
    assert store.search(("users",), query="tea") == []
    assert [item.key for item in store.search((), query="coffee")] == ["drink"]
    assert store.search(("users",), query="?!") == []


def test_an_item_that_is_not_indexed_is_found_by_its_key_only(store: DurableStore) -> None:
    store.put(("secret",), "one", {"text": "xylophone"}, index=False)
    assert store.search(("secret",), query="xylophone") == []
    item = store.get(("secret",), "one")
    assert item is not None
    assert item.value == {"text": "xylophone"}


def test_earlier_values_stay_in_the_session(store: DurableStore, sdk: Client) -> None:
    for number in range(3):
        store.put(("plan",), "step", {"number": number})
    store.delete(("plan",), "step")
    assert store.get(("plan",), "step") is None
    events = list(sdk.session(session_of(store, "plan")).events())
    assert [event["raw"]["number"] for event in events if event.type == "langgraph.item"] == [0, 1, 2]
    assert sdk.sessions.get(session_of(store, "plan")).metadata["root"] == "plan"


def test_the_puts_of_a_batch_are_one_request_and_reads_see_what_was_before(
    store: DurableStore, sdk: Client
) -> None:
    store.put(("a",), "k", {"v": 1})
    before = len(list(sdk.session(session_of(store, "a")).events()))
    results = store.batch(
        [
            PutOp(("a",), "k", {"v": 2}),
            GetOp(("a",), "k"),
            PutOp(("a", "b"), "k", {"v": 3}),
            PutOp(("a",), "k", {"v": 4}),
        ]
    )
    assert results[1] is not None
    assert results[1].value == {"v": 1}  # type: ignore[union-attr]
    events = list(sdk.session(session_of(store, "a")).events())[before:]
    assert [event["raw"]["v"] for event in events] == [4, 3], "of two puts of a key the last one counts"
    assert len({event.created_at for event in events}) == 1


def test_values_of_three_megabytes_are_kept(store: DurableStore) -> None:
    large = {"text": "x" * 3_000_000, "kind": "large"}
    store.put(("files",), "large", large)
    item = store.get(("files",), "large")
    assert item is not None
    assert item.value == large
    assert [one.key for one in store.search(("files",), filter={"kind": "large"})] == ["large"]


def test_names_of_any_characters_and_lengths_stay_apart(store: DurableStore) -> None:
    long = "l" * 300
    places = [
        (("a", "b/c"), "d"),
        (("a", "b"), "c/d"),
        (("a", "b", "c"), "d"),
        (("a", long), "☃"),
        (("a",), long),
    ]
    for number, (namespace, key) in enumerate(places):
        store.put(namespace, key, {"number": number})
    for number, (namespace, key) in enumerate(places):
        item = store.get(namespace, key)
        assert item is not None
        assert (item.value, item.namespace, item.key) == ({"number": number}, namespace, key)
    assert set(store.list_namespaces()) == {namespace for namespace, _ in places}
    assert [item.key for item in store.search(("a", long))] == ["☃"]
    with pytest.raises(ValueError, match="at most 512 bytes"):
        store.put(("a", *("m" * 100 for _ in range(6))), "k", {})
    with pytest.raises(InvalidNamespaceError):
        store.batch([GetOp((), "k")])


def test_deleting_what_never_was_makes_no_session(store: DurableStore, sdk: Client) -> None:
    store.delete(("nothing",), "here")
    assert [info.id for info in sdk.sessions.list() if info.id == session_of(store, "nothing")] == []


def test_two_processes_write_and_both_faces_read(shared: BackgroundServer, store: DurableStore) -> None:
    other = DurableStore(url=shared.url, namespace=store._namespace)

    async def both() -> list[str]:
        await asyncio.gather(
            *(
                one.aput(("shared",), f"{name}-{number}", {"by": name})
                for name, one in (("first", store), ("second", other))
                for number in range(20)
            )
        )
        found = await other.asearch(("shared",), limit=100)
        await other.aclose()
        await store.aclose()
        return [item.key for item in found]

    keys = asyncio.run(both())
    assert sorted(keys) == sorted(f"{name}-{number}" for name in ("first", "second") for number in range(20))
    assert len(store.search(("shared",), filter={"by": "first"}, limit=100)) == 20


def test_a_cancelled_put_is_stored_or_not_and_the_next_one_is_right(store: DurableStore) -> None:
    async def cancelled() -> int:
        for number in range(10):
            task = asyncio.create_task(store.aput(("c",), "k", {"number": number}))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await store.aput(("c",), "k", {"number": 99})
        item = await store.aget(("c",), "k")
        await store.aclose()
        assert item is not None
        return int(item.value["number"])

    assert asyncio.run(cancelled()) == 99


def test_a_server_that_is_killed_in_mid_request_has_whole_batches(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as running:
        store = DurableStore(url=running.url)
        acknowledged: list[int] = []

        def work() -> None:
            for number in range(60):
                puts = [PutOp(("k",), key, {"number": number, "text": "x" * 20_000}) for key in "abc"]
                with suppress(ConnectionFailedError):
                    store.batch(puts)
                    acknowledged.append(number)

        working = Thread(target=work)
        working.start()
        wait_until(lambda: len(acknowledged) >= 10)
        running.kill()
        running.start()
        working.join()
        reader = DurableStore(url=running.url)
        items = reader.search(("k",))
        assert sorted(item.key for item in items) == ["a", "b", "c"]
        [number] = {item.value["number"] for item in items}
        assert number >= max(acknowledged)
        for one in (store, reader):
            one.close()
