"""Lists and searches over several partitions show what one partition would show."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.http.api.sessions.page_tokens import PageTokens
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import local_server
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

NAMES = [f"session-{number:02d}" for number in range(23)]
Clients = tuple[httpx2.AsyncClient, httpx2.AsyncClient]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Return the event loop that the tests share with the servers of ``read_only``."""
    return "asyncio"


@pytest.fixture(scope="module")
async def read_only(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Clients]:
    """The same servers for all tests that change nothing: filling them takes longer than most tests."""
    async with filled(tmp_path_factory.mktemp("read_only")) as clients:
        yield clients


@pytest.fixture
async def clients(tmp_path: Path) -> AsyncIterator[Clients]:
    async with filled(tmp_path) as clients:
        yield clients


@asynccontextmanager
async def filled(tmp_path: Path) -> AsyncIterator[Clients]:
    """Run a server with three partitions and one with one, with the same sessions."""
    clock = ManualClock()
    async with (
        local_server(tmp_path / "three", clock=clock, partitions=3) as three,
        local_server(tmp_path / "one", clock=clock) as one,
        httpx2.AsyncClient(base_url=three.url, timeout=PATIENCE_SECONDS) as to_three,
        httpx2.AsyncClient(base_url=one.url, timeout=PATIENCE_SECONDS) as to_one,
    ):
        for number, name in enumerate(NAMES):
            clock.advance(1_000)
            for client in (to_three, to_one):
                body = {"id": name, "metadata": {"parity": str(number % 2)}}
                assert (await client.post("/v1/sessions", json=body)).status_code == 201
        for number in range(len(NAMES)):
            clock.advance(1_000)
            name = NAMES[number * 7 % len(NAMES)]
            text = "needle " * (number + 1) + "hay " * 30
            event = {"type": "user.message", "content": [{"type": "text", "text": text}]}
            for client in (to_three, to_one):
                sent = await client.post(f"/v1/sessions/{name}/events", json={"events": [event]})
                assert sent.is_success, sent.text
        yield to_three, to_one


async def pages(client: httpx2.AsyncClient, path: str, key: str = "next_page", **query: Any) -> list[Any]:
    """Return all pages, following their tokens."""
    found: list[Any] = []
    while True:
        answer = await client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        found.append(answer.json())
        if found[-1][key] is None:
            return found
        query["page"] = found[-1][key]


def ids(page: Any) -> list[str]:
    return [one["id"] for one in page["data"]]


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("sort", ["created_at", "updated_at", "activity", "started_at"])
@pytest.mark.parametrize("limit", [1, 5, 23, 40])
async def test_a_list_is_the_same(read_only: Clients, order: str, sort: str, limit: int) -> None:
    merged, single = [
        [ids(page) for page in await pages(client, "/v1/sessions", order=order, sort=sort, limit=limit)]
        for client in read_only
    ]
    assert [*chain(*merged)] == [*chain(*single)]
    assert sorted(chain(*merged)) == NAMES
    assert all(len(page) == limit for page in merged[:-1])


@pytest.mark.parametrize("sort", ["created_at", "activity"])
async def test_pages_lead_back_to_the_first(read_only: Clients, sort: str) -> None:
    merged, _ = read_only
    forward = await pages(merged, "/v1/sessions", sort=sort, limit=4)
    token = forward[-1]["prev_page"]
    back = await pages(merged, "/v1/sessions", "prev_page", sort=sort, limit=4, page=token)
    assert [ids(page) for page in reversed(back)] == [ids(page) for page in forward[:-1]]
    again = await pages(merged, "/v1/sessions", sort=sort, limit=4, page=back[-1]["next_page"])
    assert [ids(page) for page in again] == [ids(page) for page in forward[1:]]


async def test_filters_hold_in_every_partition(read_only: Clients) -> None:
    for client in read_only:
        wanted: Any = {"metadata[parity]": "1", "limit": 3, "order": "asc"}
        found = await pages(client, "/v1/sessions", **wanted)
        assert [*chain(*map(ids, found))] == NAMES[1::2]


@pytest.mark.parametrize("sort", ["created_at", "activity"])
@pytest.mark.parametrize("limit", [1, 3, 40])
async def test_slots_filter_and_show_in_every_partition(clients: Clients, sort: str, limit: int) -> None:
    holders = [name for number, name in enumerate(NAMES) if number % 3 == 0]
    for client in clients:
        for name in holders:
            event = {"type": "row", "slot": ["head", name], "of": name}
            assert (await client.post(f"/v1/sessions/{name}/events", json=event)).status_code == 204
        emptied = {"type": "row", "slot": "head", "slot_empty": "keep"}
        await client.post(f"/v1/sessions/{holders[0]}/events", json=emptied)
    asked: Any = {"holding": "head", "show": ["head", "none"], "sort": sort, "limit": limit}
    merged, single = [
        [*chain(*(page["data"] for page in await pages(client, "/v1/sessions", **asked)))]
        for client in clients
    ]
    if sort == "created_at":  # the events have one time
        assert [one["id"] for one in merged] == [one["id"] for one in single]
    assert sorted(one["id"] for one in merged) == holders[1:]
    for one in merged:
        assert (one["slots"]["head"]["of"], one["slots"]["none"]) == (one["id"], None)
    both: Any = {"holding": ["head", holders[2]], "sort": sort}
    assert [*chain(*map(ids, await pages(clients[0], "/v1/sessions", **both)))] == [holders[2]]


async def test_what_is_created_meanwhile_is_on_no_later_page(clients: Clients) -> None:
    merged, _ = clients
    first = (await merged.get("/v1/sessions", params={"limit": 10})).json()
    for number in range(10):
        await merged.put(f"/v1/sessions/new-{number}", json={})
    rest = await pages(merged, "/v1/sessions", limit=10, page=first["next_page"])
    assert [*ids(first), *chain(*map(ids, rest))] == NAMES[::-1]


@pytest.mark.parametrize(
    "query",
    [
        {"page": "nonsense"},
        {"page": "asc-next-5"},
        {"page": "AAAA"},
        {"limit": "0"},
        {"limt": "3"},
        {"sort": "size"},
        {"sort": "activity", "page": "asc-next-5"},
        {"statuses": "sleeping"},
    ],
)
async def test_wrong_requests_are_refused(read_only: Clients, query: dict[str, str]) -> None:
    merged, single = read_only
    answer = await merged.get("/v1/sessions", params=query)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    if query.get("page") != "asc-next-5":
        expected = (await single.get("/v1/sessions", params=query)).json()
        assert answer.json()["error"] == expected["error"]


async def test_an_order_must_be_that_of_the_page(read_only: Clients) -> None:
    merged, _ = read_only
    token = (await merged.get("/v1/sessions", params={"limit": 3, "order": "asc"})).json()["next_page"]
    assert (await merged.get("/v1/sessions", params={"page": token, "order": "desc"})).status_code == 400
    assert (await merged.get("/v1/sessions", params={"page": token, "limit": 3})).status_code == 200


async def test_a_search_finds_every_session_once_the_best_first(read_only: Clients) -> None:
    merged, _ = read_only
    found = await pages(merged, "/v1/search", q="needle", limit=4)
    names = [group["session"]["id"] for page in found for group in page["data"]]
    assert sorted(names) == NAMES
    scores = [group["hits"][0]["search"]["score"] for page in found for group in page["data"]]
    assert scores == sorted(scores, reverse=True)
    for page in found:
        assert (page["total_hits"], page["total_sessions"]) == (23, 23)
        assert page["up_to_date"] is True
        assert "complete" not in page


async def test_a_search_in_named_sessions_asks_for_these(read_only: Clients) -> None:
    for client in read_only:
        query = {"q": "needle", "session": ",".join(NAMES[:5])}
        answer = (await client.get("/v1/search", params=query)).json()
        assert sorted(group["session"]["id"] for group in answer["data"]) == NAMES[:5]
        missing = await client.get("/v1/search", params={"q": "needle", "session": "nobody"})
        assert missing.status_code == 404


@pytest.mark.parametrize("query", [{}, {"q": ""}, {"q": "x", "page": "nonsense"}, {"q": "x", "role": "me"}])
async def test_wrong_searches_are_refused_alike(read_only: Clients, query: dict[str, str]) -> None:
    merged, single = [await client.get("/v1/search", params=query) for client in read_only]
    assert merged.status_code == single.status_code == 400
    assert merged.json()["error"] == single.json()["error"]


async def test_what_only_routers_ask_is_not_served(read_only: Clients) -> None:
    for client in read_only:
        for path in ("/internal/sessions", "/internal/search?q=needle"):
            assert (await client.get(path)).status_code == 404


@pytest.mark.parametrize(
    "places",
    [
        [["0123456789ab&session=x", 0], ["", 0], ["", 0]],
        [["", -1], ["", 0], ["", 0]],
        [["", 10**9], ["", 0], ["", 0]],
        [["", 0]],
    ],
    ids=["injected", "negative", "too deep", "too few"],
)
async def test_a_forged_page_of_a_search_is_refused(read_only: Clients, places: list[Any]) -> None:
    merged, _ = read_only
    answer = await merged.get("/v1/search", params={"q": "needle", "page": PageTokens().token(places)})
    assert answer.status_code == 400
    assert "page is not one that this search gave" in answer.json()["error"]["message"]


async def test_a_name_of_a_session_stays_one_parameter(read_only: Clients) -> None:
    merged, _ = read_only
    for name in ("x&hits=99", "x%26limt=3", "a b"):
        answer = await merged.get("/v1/search", params={"q": "needle", "session": name})
        assert answer.status_code == 400
        assert "id is 1 to 200" in answer.json()["error"]["message"]


@pytest.mark.parametrize("looked_at", [2, 10_000])
async def test_filtered_pages_go_on_where_the_slowest_partition_has_looked(
    tmp_path: Path, looked_at: int
) -> None:
    limits = replace(DEFAULT_LIMITS, listed_sessions_max=looked_at)
    clock = ManualClock()
    async with (
        local_server(tmp_path / "three", clock=clock, partitions=3, limits=limits) as three,
        httpx2.AsyncClient(base_url=three.url, timeout=PATIENCE_SECONDS) as client,
    ):
        for number, name in enumerate(NAMES):
            clock.advance(1_000)
            title = "rare" if number % 5 == 0 else "common"
            body = {"id": name, "title": title, "metadata": {"parity": number % 2}}
            assert (await client.post("/v1/sessions", json=body)).status_code == 201
        for sort, order in product(("created_at", "updated_at", "activity"), ("asc", "desc")):
            for query, expected in (
                ({"q": "rare"}, NAMES[::5]),
                ({"metadata[parity]": "1"}, NAMES[1::2]),
                ({"metadata[parity]": "0", "q": "rare"}, NAMES[::10]),
                ({"metadata[parity]": "2"}, []),
            ):
                wanted: Any = {"sort": sort, "order": order, "limit": 2, **query}
                found = await there_and_back(client, wanted)
                assert found == (expected if order == "asc" else expected[::-1]), wanted


async def there_and_back(client: httpx2.AsyncClient, wanted: Any) -> list[str]:
    """Return the sessions of all pages; assert that the pages lead back to the first, too."""
    forward = await pages(client, "/v1/sessions", **wanted)
    found = [*chain(*map(ids, forward))]
    if len(forward) > 1:
        token = forward[-1]["prev_page"]
        back = await pages(client, "/v1/sessions", "prev_page", page=token, **wanted)
        returned = [*chain(*(ids(page) for page in reversed(back))), *ids(forward[-1])]
        assert returned == found, wanted
    return found
