"""Positions beside opaque offsets: of pages, events, hits and live frames; and long events clipped."""

import json

import httpx2
import pytest

from durable_sessions import Client
from tests.support.searching import found, said
from tests.support.sessions import append, code, frames, notes, numbers

pytestmark = pytest.mark.anyio
EVENTS = "/sessions/s/events"


@pytest.fixture
async def filled(api: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """A session of thirty events, every third of them an agent's."""
    await append(
        api, "s", *[{"type": "note" if n % 3 else "agent.step", "n": n, "id": f"e-{n}"} for n in range(30)]
    )
    return api


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ({}, 0),
        ({"from": "7"}, 7),
        ({"tail": "3"}, 27),
        ({"order": "desc", "limit": "2"}, 29),
        ({"around": "9", "window": "2"}, 7),
        ({"from": "30"}, None),
    ],
)
async def test_a_page_says_where_it_begins(
    filled: httpx2.AsyncClient, query: dict[str, str], first: int | None
) -> None:
    page = (await filled.get(EVENTS, params=query)).json()
    assert (page["first"], "positions" in page) == (first, False)


@pytest.mark.parametrize(
    "query", [{"type": "agent.*"}, {"type": "agent.*", "order": "desc"}, {"pairs": "keep"}]
)
async def test_a_filtered_page_says_where_its_events_are(
    filled: httpx2.AsyncClient, query: dict[str, str]
) -> None:
    page = (await filled.get(EVENTS, params={"limit": 5, **query})).json()
    assert page["positions"] == numbers(page["data"])
    assert page["first"] == page["positions"][0]
    nothing = (await filled.get(EVENTS, params={"type": "none"})).json()
    assert (nothing["first"], nothing["positions"]) == (None, [])


async def test_events_around_one_that_is_named(filled: httpx2.AsyncClient) -> None:
    page = (await filled.get(EVENTS, params={"around": "e-14", "window": 2})).json()
    assert numbers(page["data"]) == [12, 13, 14, 15, 16]
    of_type = (await filled.get(EVENTS, params={"around": "e-14", "type": "agent.*"})).json()
    assert of_type["positions"] == [6, 9, 12, 15, 18, 21, 24]
    missing = await filled.get(EVENTS, params={"around": "e-99"})
    assert (missing.status_code, code(missing)) == (404, "event_not_found")
    for wrong in ("-1", "1.5", ""):
        refused = await filled.get(EVENTS, params={"around": wrong})
        assert (refused.status_code, code(refused)) == (400, "invalid_request"), wrong


async def test_one_event_has_its_position(filled: httpx2.AsyncClient) -> None:
    answer = await filled.get(f"{EVENTS}/e-14")
    assert answer.headers["event-position"] == "14"


async def test_hits_and_their_positions(api: httpx2.AsyncClient) -> None:
    await append(api, "s", *[said("green" if n % 2 else "red") for n in range(9)])
    hits = await found(api, "s", "green", order="asc")
    assert [hit["search"]["position"] for hit in hits["data"]] == [1, 3, 5, 7]
    answer = await found(api, "s", "green", fields="positions")
    assert answer == {
        "total_hits": 4,
        "positions": [1, 3, 5, 7],
        "truncated": False,
        "indexed_through": hits["indexed_through"],
        "up_to_date": True,
    }
    part = await found(api, "s", "green", fields="positions", around=3, window=2)
    assert part["positions"] == [1, 3, 5]


async def test_positions_of_a_fork_are_its_own(api: httpx2.AsyncClient) -> None:
    await append(api, "s", said("green"), said("red"), said("green"))
    await api.put("/sessions/fork", headers={"Stream-Forked-From": "/v1/sessions/s"})
    await append(api, "fork", said("green"))
    assert (await found(api, "fork", "green", fields="positions"))["positions"] == [0, 2, 3]


async def test_more_hits_than_there_can_be_positions(api: httpx2.AsyncClient) -> None:
    for begin in range(0, 10_001, 1_000):
        await append(api, "s", *[said("green") for _ in range(min(1_000, 10_001 - begin))])
    answer = await found(api, "s", "green", fields="positions")
    assert (answer["total_hits"], answer["truncated"]) == (10_001, True)
    assert answer["positions"] == list(range(10_000))


@pytest.mark.parametrize(
    "query",
    [
        "fields=positions",
        "q=green&fields=all",
        "q=green&fields=positions&order=desc",
        "q=green&fields=positions&limit=5",
        "clip=1023",
        "clip=1048577",
        "clip=1024&live=sse&offset=-1",
        "lens=true&live=sse&offset=-1",
        "lens=true&q=green",
        "lens=maybe",
    ],
)
async def test_what_does_not_fit_is_refused(filled: httpx2.AsyncClient, query: str) -> None:
    answer = await filled.get(f"{EVENTS}?{query}")
    assert (answer.status_code, code(answer)) == (400, "invalid_request")


async def test_live_frames_of_sessions_say_positions_and_those_of_streams_do_not(
    filled: httpx2.AsyncClient, client: httpx2.AsyncClient
) -> None:
    await filled.post("/sessions/s/close")
    params = {"live": "sse", "offset": "-1"}
    async with filled.stream("GET", EVENTS, params=params) as answer:
        controls = [frame.json() async for frame in frames(answer) if frame.event == "control"]
    assert controls[-1]["nextPosition"] == 30
    async with client.stream("GET", "/sessions/s", params=params) as answer:
        controls = [frame.json() async for frame in frames(answer) if frame.event == "control"]
    assert controls
    assert all("nextPosition" not in one for one in controls)


async def test_long_events_are_clipped_wherever_they_are_read(api: httpx2.AsyncClient) -> None:
    long = said("green " + "y" * 20_000, id="long")
    await append(api, "s", *notes(range(2)), long, *notes(range(3, 5)))
    whole = (await api.get(EVENTS)).json()["data"]
    for query in (
        {},
        {"order": "desc"},
        {"pairs": "keep"},
        {"type": "user.*"},
        {"around": "long", "window": "0"},
        {"q": "green"},
    ):
        page = (await api.get(EVENTS, params={"clip": 1_024, **query})).json()["data"]
        (cut,) = [event for event in page if event["id"] == "long"]
        assert cut["clipped"]["members"] == ["/content/0/text"], query
        assert len(json.dumps(cut)) < 2_000
        others = [event for event in page if event["id"] != "long"]
        assert all(event in whole for event in others)
    lines = await api.get(EVENTS, params={"clip": 1_024}, headers={"Accept": "application/x-ndjson"})
    assert sum("clipped" in line for line in lines.text.splitlines()) == 1
    one = await api.get(f"{EVENTS}/long", params={"clip": 1_024})
    assert one.json()["clipped"]["bytes"] == len(json.dumps(whole[2], separators=(",", ":")))
    assert (await api.get(f"{EVENTS}/long", params={"clip": 65_536})).json() == whole[2]


async def test_events_of_adapters_say_what_they_mean(api: httpx2.AsyncClient) -> None:
    item = {"type": "openai.item", "id": "item", "raw_format": "openai.item/1"}
    asked = {**item, "raw": {"role": "user", "content": "green?"}, "session_thread_id": "side"}
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at":"half \\ud83d"}'}
    strange = [
        {**item, "id": "own", "raw": {"role": "user", "content": "x"}, "lens": "mine"},
        {**item, "id": "odd", "raw_format": "openai.item/9", "raw": {"role": "user"}},
        {**item, "id": "call", "raw": call},
        {
            "type": "langgraph.write",
            "id": "w",
            "raw_format": "langgraph.write/1",
            "raw": {},
            "text": "written",
        },
    ]
    await append(api, "s", said("plain", id="plain"), asked, *strange)
    stored = {event["id"]: event for event in (await api.get(EVENTS)).json()["data"]}
    meant = {"type": "user.message", "content": "green?"}
    for query in ({}, {"order": "desc"}, {"pairs": "keep"}, {"around": "item", "window": "9"}):
        page = (await api.get(EVENTS, params={"lens": "true", **query})).json()["data"]
        seen = {event["id"]: event for event in page}
        assert seen["item"].pop("lens") == meant
        assert seen["w"].pop("lens") == {"type": "agent.message", "content": "written"}
        called = seen["call"].pop("lens")
        assert (called["type"], called["name"], called["call_id"]) == ("agent.tool_use", "look", "c1")
        assert seen == stored
    one = await api.get(f"{EVENTS}/item", params={"lens": "true"})
    assert one.json() == {**stored["item"], "lens": meant}
    thread = await api.get("/sessions/s/threads/side/events", params={"lens": "1"})
    assert [event["lens"] for event in thread.json()["data"]] == [meant]
    await append(api, "s", {**item, "id": "long", "raw": {"role": "user", "content": "y" * 20_000}})
    cut = (await api.get(f"{EVENTS}/long", params={"lens": "true", "clip": "2048"})).json()
    assert cut["clipped"]["members"] == ["/raw/content", "/lens/content"]


def test_the_client_reads_around_ids_clipped_and_positions(sdk: Client) -> None:
    session = sdk.session("s")
    session.append([{"type": "note", "id": f"e-{n}", "text": "green" * (n * 1_000)} for n in range(5)])
    read = list(session.events(around="e-2", window=1, clip=1_024))
    assert [event.id for event in read] == ["e-1", "e-2", "e-3"]
    assert all("clipped" in event for event in read)
    raw = {"role": "user", "content": "green?"}
    sdk.session("o").append({"type": "openai.item", "raw_format": "openai.item/1", "raw": raw})
    [item] = sdk.session("o").events(lens=True)
    assert item["lens"] == {"type": "user.message", "content": "green?"}
    session.append([{"type": "user.message", "content": "red"}, {"type": "user.message", "content": "blue"}])
    assert session.search_positions("blue").positions == [6]
