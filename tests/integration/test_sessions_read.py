"""Reading events: where to begin, what to select, pages, and pairs."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.limits import DEFAULT_LIMITS, MIB
from durable_sessions.testing.server import local_server
from tests.support.sessions import START, append, at, notes, numbers, read, read_all

pytestmark = pytest.mark.anyio

EVENTS = "/sessions/s/events"


@pytest.fixture
async def filled(api: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """A session of thirty events, every third of them an agent's."""
    await append(api, "s", *[{"type": "note" if n % 3 else "agent.step", "n": n} for n in range(30)])
    return api


async def test_a_page_says_what_it_is(filled: httpx2.AsyncClient) -> None:
    answer = await filled.get(EVENTS, params={"limit": 20})
    body = answer.json()
    assert body.keys() == {"data", "next_page", "next_offset", "up_to_date", "incarnation", "first"}
    assert (body["next_offset"], body["up_to_date"]) == (at(20), False)
    assert answer.headers["stream-next-offset"] == at(20)
    assert "stream-up-to-date" not in answer.headers
    rest = await filled.get(EVENTS, params={"offset": body["next_offset"]})
    assert (rest.json()["next_page"], rest.json()["up_to_date"]) == (None, True)
    assert rest.headers["stream-up-to-date"] == "true"
    assert numbers(body["data"] + rest.json()["data"]) == list(range(30))
    nothing = (await filled.get(EVENTS, params={"offset": at(30)})).json()
    life = answer.headers["session-incarnation"]
    assert nothing == {
        "data": [],
        "next_page": None,
        "next_offset": at(30),
        "up_to_date": True,
        "incarnation": life,
        "first": None,
    }


BEGINNINGS: list[tuple[dict[str, str], Sequence[int]]] = [
    ({}, range(30)),
    ({"offset": "-1"}, range(30)),
    ({"offset": START}, range(30)),
    ({"offset": at(28)}, range(28, 30)),
    ({"offset": "now"}, []),
    ({"from": "0"}, range(30)),
    ({"from": "28"}, range(28, 30)),
    ({"from": "30"}, []),
    ({"tail": "3"}, range(27, 30)),
    ({"tail": "0"}, []),
    ({"tail": "99"}, range(30)),
    ({"around": "14", "window": "2"}, range(12, 17)),
    ({"around": "15"}, range(5, 26)),
    ({"around": "1", "window": "2"}, range(4)),
    ({"around": "29", "window": "2"}, range(27, 30)),
    ({"order": "desc"}, range(29, -1, -1)),
    ({"order": "desc", "limit": "3"}, range(29, 26, -1)),
    ({"order": "desc", "from": "28"}, range(29, 27, -1)),
    ({"order": "desc", "tail": "2"}, range(29, 27, -1)),
    ({"type": "agent.step"}, range(0, 30, 3)),
    ({"type": "agent.*", "limit": "2"}, [0, 3]),
    ({"types[]": "agent.step", "order": "desc", "limit": "2"}, [27, 24]),
    ({"type": "agent"}, []),
    ({"type": "agent.step,note"}, range(30)),
    ({"type": "nothing"}, []),
]


async def test_where_a_read_begins_and_what_it_selects(filled: httpx2.AsyncClient) -> None:
    for parameters, expected in BEGINNINGS:
        assert numbers(await read(filled, "s", **parameters)) == list(expected), parameters


async def test_types_can_be_repeated_in_each_spelling(filled: httpx2.AsyncClient) -> None:
    for query in ("type=note&type=agent.*", "types[]=note&types[]=agent.step", "types=note&type=agent.step"):
        answer = await filled.get(f"{EVENTS}?{query}")
        assert len(answer.json()["data"]) == 30


UNUSABLE = [
    "offset=5",
    "offset=" + at(31),
    "offset=0000000000000001_0000000000000000",
    "from=-1",
    "from=x",
    "tail=1e3",
    "limit=0",
    "limit=10001",
    "order=up",
    "from=1&tail=2",
    "offset=now&around=3",
    "page=next",
    "page=asc-",
    "page=desc-5&order=asc",
    "created_at[gte]=yesterday",
    "pairs=drop",
    "live=always",
    "limit=1&limit=2",
]


async def test_parameters_that_cannot_be_used(filled: httpx2.AsyncClient) -> None:
    for query in UNUSABLE:
        answer = await filled.get(f"{EVENTS}?{query}")
        assert answer.status_code == 400, query
        assert answer.json()["error"]["type"] == "invalid_request_error"


WHOLES: list[dict[str, str]] = [
    {},
    {"order": "desc"},
    {"order": "desc", "from": "11"},
    {"order": "desc", "offset": at(11)},
    {"from": "11"},
    {"type": "agent.*"},
    {"type": "agent.*", "order": "desc", "from": "11"},
]


async def test_pages_together_are_the_whole(filled: httpx2.AsyncClient) -> None:
    for parameters in WHOLES:
        whole = numbers(await read(filled, "s", **parameters))
        for limit in (1, 7, 30, 1000):
            assert numbers(await read_all(filled, "s", **parameters, limit=limit)) == whole, parameters


async def test_a_page_holds_its_place_while_events_arrive(filled: httpx2.AsyncClient) -> None:
    up = (await filled.get(EVENTS, params={"limit": 10})).json()
    down = (await filled.get(EVENTS, params={"limit": 10, "order": "desc"})).json()
    await append(filled, "s", *notes([30, 31]))
    assert numbers(await read_all(filled, "s", page=up["next_page"])) == list(range(10, 32))
    assert numbers(await read_all(filled, "s", page=down["next_page"])) == list(range(19, -1, -1))


async def test_events_are_selected_by_time(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)
    async with (
        local_server(tmp_path / "data", clock=clock) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1") as api,
    ):
        for n in range(4):
            await append(api, "s", {"type": "a", "n": n, "created_at": "1999-01-01T00:00:00Z"})
            clock.advance(1)
        times = [event["created_at"] for event in await read(api, "s")]
        for name, expected in (
            ("gt", [2, 3]),
            ("gte", [1, 2, 3]),
            ("lt", [0]),
            ("lte", [0, 1]),
        ):
            assert numbers(await read(api, "s", **{f"created_at[{name}]": times[1]})) == expected
        between = {"created_at[gte]": times[1], "created_at[lt]": times[3], "order": "desc"}
        assert numbers(await read(api, "s", **between)) == [2, 1]
        assert numbers(await read(api, "s", before="2000-01-01T00:00:00Z")) == [0, 1, 2, 3]
        assert numbers(await read(api, "s", after="2000-01-01T00:00:00Z")) == []
        both = {"after": "1998-12-31T00:00:00Z", "created_at[lt]": times[1]}
        assert numbers(await read(api, "s", **both)) == [0]


async def test_ndjson_is_one_event_per_line(filled: httpx2.AsyncClient) -> None:
    await filled.post(EVENTS, content=b'{\n"type":"odd",\r\n"text":"a\\nb"\n}')
    answer = await filled.get(EVENTS, params={"tail": 3}, headers={"Accept": "application/x-ndjson"})
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["stream-next-offset"] == at(31)
    lines = answer.text.splitlines()
    assert [json.loads(line) for line in lines] == await read(filled, "s", tail=3)
    empty = await filled.get(EVENTS, params={"tail": 0}, headers={"Accept": "application/x-ndjson"})
    assert (empty.status_code, empty.content) == (200, b"")


async def test_a_page_ends_at_8_mib_in_either_order(api: httpx2.AsyncClient) -> None:
    text = "x" * (MIB - 1000)
    for n in range(20):
        await append(api, "s", {"type": "large", "n": n, "text": text})
    for parameters in ({}, {"order": "desc"}, {"type": "large"}, {"tail": "20"}):
        answer = await api.get(EVENTS, params=parameters)
        assert 7 * MIB < len(answer.content) < 8 * MIB + 1000
        assert answer.json()["next_page"] is not None
        expected = range(19, -1, -1) if "order" in parameters else range(20)
        assert numbers(await read_all(api, "s", **parameters)) == list(expected)
    around = await read_all(api, "s", around=10, window=8)
    assert numbers(around) == list(range(2, 19)), "the pages of a window end where it does"


async def test_a_filtered_read_is_bounded_and_goes_on(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, scanned_events_max=10)
    async with (
        local_server(tmp_path / "data", limits=limits) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1") as api,
    ):
        await append(api, "s", *notes(range(35)), {"type": "rare", "n": 35}, *notes(range(36, 45)))
        for order in ("asc", "desc"):
            first = (await api.get(EVENTS, params={"type": "rare", "order": order})).json()
            assert first["next_page"] is not None
            assert numbers(await read_all(api, "s", type="rare", order=order)) == [35]


# Odd text --------------------------------------------------------------------------------------


async def test_events_with_lone_surrogates_are_selected_as_all_others(api: httpx2.AsyncClient) -> None:
    await api.post(EVENTS, content=b'{"type":"odd","n":1,"text":"\\ud800"}')
    await append(api, "s", {"type": "even", "n": 2})
    for parameters in ({"type": "odd"}, {"type": "odd", "order": "desc"}):
        assert numbers(await read(api, "s", **parameters)) == [1]
    assert numbers(await read(api, "s", **{"created_at[gte]": "2001-01-01T00:00:00Z"})) == [1, 2]


# Pairs -----------------------------------------------------------------------------------------


async def calls_and_results(api: httpx2.AsyncClient) -> None:
    """0 call a, 1 note, 2 call b, 3 result of a, 4 … 7 notes, 8 result of b, 9 call c without a result."""
    await append(
        api,
        "s",
        {"type": "agent.tool_use", "id": "a", "n": 0},
        {"type": "note", "n": 1},
        {"type": "agent.mcp_tool_use", "id": "b", "n": 2},
        {"type": "agent.tool_result", "tool_use_id": "a", "n": 3},
        *notes(range(4, 8)),
        {"type": "agent.mcp_tool_result", "mcp_tool_use_id": "b", "n": 8},
        {"type": "agent.custom_tool_use", "id": "c", "n": 9},
    )


SLICES: list[tuple[dict[str, str], Sequence[int], list[int]]] = [
    ({"from": "0"}, range(10), []),
    ({"from": "3", "limit": "2"}, [0, 3, 4], [0]),
    ({"tail": "3"}, [2, 7, 8, 9], [2]),
    ({"around": "2", "window": "0"}, [2, 8], [8]),
    ({"limit": "1"}, [0, 3], [3]),
    ({"tail": "3", "order": "desc"}, [9, 8, 7, 2], [2]),
    ({"type": "agent.tool_use"}, [0, 3], [3]),
    ({"type": "agent.*_use", "from": "9"}, [], []),
    ({"type": "agent.custom_tool_use"}, [9], []),
    ({"type": "note", "limit": "2"}, [1, 4], []),
]


async def test_a_slice_never_parts_a_call_from_its_result(api: httpx2.AsyncClient) -> None:
    await calls_and_results(api)
    plain = {event["n"]: event for event in await read(api, "s")}
    for parameters, expected, added in SLICES:
        events = await read(api, "s", **parameters, pairs="keep")
        assert numbers(events) == list(expected), parameters
        assert numbers(event for event in events if event.get("added_for_pair")) == added, parameters
        for event in events:
            event.pop("added_for_pair", None)
            assert event == plain[event["n"]]


async def test_a_result_is_found_however_far_it_is(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "agent.tool_use", "id": "far", "n": -1})
    for start in range(0, 3000, 1000):
        await append(api, "s", *notes(range(start, start + 1000)))
    await append(api, "s", {"type": "user.tool_result", "tool_use_id": "far", "n": -2})
    assert numbers(await read(api, "s", limit=2, pairs="keep")) == [-1, 0, -2]
    assert numbers(await read(api, "s", tail=1, pairs="keep")) == [-1, -2]


async def test_results_name_the_ids_that_the_server_gave(api: httpx2.AsyncClient) -> None:
    stored = await api.post(
        EVENTS, json={"type": "agent.tool_use"}, headers={"Prefer": "return=representation"}
    )
    call = stored.json()["data"][0]["id"]
    await append(api, "s", *notes(range(3)), {"type": "user.tool_result", "tool_use_id": call})
    events = await read(api, "s", tail=1, pairs="keep")
    assert [event["type"] for event in events] == ["agent.tool_use", "user.tool_result"]
