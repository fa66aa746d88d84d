"""Search over HTTP, line by line of its contract; every test that writes has a workspace of its own."""

import itertools
import json
import operator
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import BOOTSTRAP, bearer, make_secret
from tests.support.refusals import error_code
from tests.support.searching import found, found_everywhere, grouped, positions, said, scores
from tests.support.sessions import append, at
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

_NUMBERS = itertools.count()

CONVERSATION = [
    said("please fix the login timeout in checkAuthToken"),
    said("I will look at src/auth/token.py first", "agent.message"),
    {"type": "agent.tool_use", "name": "Bash", "input": {"command": "grep -rn timeout src"}},
    said("grep: permission denied", "agent.tool_result", tool_use_id="toolu_1", is_error=True),
    {"type": "note", "text": "the timeout is in the gateway, not in the token"},
    said("The gateway's login timeout was 5 seconds", "agent.message"),
]


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalServer]:
    data: Path = tmp_path_factory.mktemp("search") / "data"
    async with local_server(data, api_key=BOOTSTRAP) as running:
        yield running


@pytest.fixture
async def api(server: LocalServer) -> AsyncIterator[httpx2.AsyncClient]:
    """A client in a workspace where nobody else is."""
    secret = await make_secret(server.url, "writer", f"w{next(_NUMBERS)}")
    async with httpx2.AsyncClient(
        base_url=server.url + "/v1", headers=bearer(secret), timeout=PATIENCE_SECONDS
    ) as client:
        yield client


@pytest.fixture(scope="module")
async def talk(server: LocalServer) -> AsyncIterator[httpx2.AsyncClient]:
    """A client in a workspace with a session ``talk``; those who only search share it."""
    secret = await make_secret(server.url, "writer", "talk")
    async with httpx2.AsyncClient(
        base_url=server.url + "/v1", headers=bearer(secret), timeout=PATIENCE_SECONDS
    ) as client:
        await append(client, "talk", *CONVERSATION)
        yield client


async def fork(api: httpx2.AsyncClient, session: str, source: str, position: int | None = None) -> None:
    headers = {"Stream-Forked-From": f"/v1/sessions/{source}"}
    if position is not None:
        headers["Stream-Fork-Offset"] = at(position)
    answer = await api.put(f"/sessions/{session}", headers=headers)
    assert answer.status_code == 201, answer.text


# What an answer says --------------------------------------------------------------------


async def test_a_hit_is_the_event_with_its_score_and_a_snippet(talk: httpx2.AsyncClient) -> None:
    answer = await found(talk, "talk", "timeout")
    assert set(answer) == {"data", "next_page", "total_hits", "indexed_through", "up_to_date"}
    assert sorted(positions(answer)) == [0, 2, 4, 5]
    assert answer["total_hits"] == 4
    assert answer["next_page"] is None
    assert answer["indexed_through"] == at(6)
    assert answer["up_to_date"] is True
    ranks = scores(answer)
    assert ranks == sorted(ranks, reverse=True)
    assert min(ranks) > 0
    for hit in answer["data"]:
        search = hit.pop("search")
        assert set(search) == {"score", "snippet", "highlights", "position"}
        event = (await talk.get(f"/sessions/talk/events/{hit['id']}")).json()
        assert hit == event
        shown = [search["snippet"][start:end] for start, end in search["highlights"]]
        assert [piece.lower() for piece in shown] == ["timeout"]


async def test_a_hit_has_one_member_of_each_name(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "note", "search": {"text": "needle"}, "deep": {"search": 1}})
    answer = await api.get("/sessions/s/events", params={"q": "needle"})
    assert answer.text.count('"search":') == 2
    (hit,) = answer.json()["data"]
    assert set(hit["search"]) == {"score", "snippet", "highlights", "position"}
    assert hit["deep"] == {"search": 1}


async def test_highlights_count_characters_not_bytes(api: httpx2.AsyncClient) -> None:
    await append(api, "s", said("wörter 🦊 in Übergröße, dann TIMEOUT 🦊 und nochmal timeout"))
    hit = (await found(api, "s", "timeout"))["data"][0]["search"]
    assert [hit["snippet"][a:b] for a, b in hit["highlights"]] == ["TIMEOUT", "timeout"]


async def test_a_long_event_is_shown_where_it_matches(api: httpx2.AsyncClient) -> None:
    await append(api, "s", said("filler " * 5000 + "needle " + "filler " * 5000))
    hit = (await found(api, "s", "needle"))["data"][0]["search"]
    assert len(hit["snippet"]) < 2_000
    assert [hit["snippet"][a:b] for a, b in hit["highlights"]] == ["needle"]


async def test_all_sessions_are_searched_and_grouped(api: httpx2.AsyncClient) -> None:
    await append(api, "talk", *CONVERSATION)
    await append(api, "other", said("nothing here"), said("timeout timeout timeout"))
    await append(api, "third", said("neither here"))
    answer = await found_everywhere(api, "timeout")
    assert set(answer) == {
        "data",
        "next_page",
        "total_hits",
        "total_sessions",
        "indexed_through",
        "up_to_date",
    }
    assert (answer["total_hits"], answer["total_sessions"]) == (5, 2)
    assert answer["up_to_date"] is True
    assert answer["indexed_through"].endswith("Z")
    assert answer["next_page"] is None
    groups = grouped(answer)
    assert groups["other"] == [1]
    assert len(groups["talk"]) == 3
    session = (await api.get("/sessions/other")).json()
    shown = next(group["session"] for group in answer["data"] if group["session"]["id"] == "other")
    assert set(shown) == set(session)
    best = [group["hits"][0]["search"]["score"] for group in answer["data"]]
    assert best == sorted(best, reverse=True)
    for group in answer["data"]:
        ranks = [hit["search"]["score"] for hit in group["hits"]]
        assert ranks == sorted(ranks, reverse=True)
    assert len(grouped(await found_everywhere(api, "timeout", hits=20))["talk"]) == 4
    assert len(grouped(await found_everywhere(api, "timeout", hits=1))["talk"]) == 1


async def test_an_empty_workspace_has_nothing(api: httpx2.AsyncClient) -> None:
    answer = await found_everywhere(api, "timeout")
    assert (answer["data"], answer["total_hits"], answer["total_sessions"]) == ([], 0, 0)
    assert answer["up_to_date"] is True


async def test_an_empty_session_has_nothing(api: httpx2.AsyncClient) -> None:
    assert (await api.put("/sessions/empty")).status_code == 201
    answer = await found(api, "empty", "timeout")
    assert (answer["data"], answer["total_hits"], answer["indexed_through"]) == ([], 0, at(0))
    assert answer["up_to_date"] is True


# The query language ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ("timeout", {0, 2, 4, 5}),
        ("TIMEOUT", {0, 2, 4, 5}),
        ("login gateway", {0, 4, 5}),
        ('"login timeout"', {0, 5}),
        ('"timeout login"', set()),
        ("+login +gateway", {5}),
        ("timeout -login", {2, 4}),
        ('timeout -"login timeout"', {2, 4}),
        ("+timeout gateway", {0, 2, 4, 5}),
        ("gate*", {4, 5}),
        ("perm*", {3}),
        ("auth", {0, 1}),
        ("token", {0, 1, 4}),
        ("checkAuthToken", {0}),
        ("check_auth_token", {0}),
        ("src/auth/token.py", {1}),
        ("type:note", {4}),
        ("type:agent.*", {1, 2, 3, 5}),
        ("timeout type:agent.*", {2, 5}),
        ("timeout -type:agent.*", {0, 4}),
        ("type:note type:user.message", {0, 4}),
        ("name:bash", {2}),
        ("name:BASH timeout", {2}),
        ("name:ba* timeout", {2}),
        ("-name:bash timeout", {0, 4, 5}),
        ("is:error", {3}),
        ("timeout -is:error", {0, 2, 4, 5}),
        ("permission is:error", {3}),
        ("timeout is:error", set()),
        ("nowhere", set()),
    ],
)
async def test_the_query_language(talk: httpx2.AsyncClient, q: str, expected: set[int]) -> None:
    answer = await found(talk, "talk", q)
    assert set(positions(answer)) == expected
    assert answer["total_hits"] == len(expected)
    everywhere = await found_everywhere(talk, q, hits=20)
    assert set(grouped(everywhere).get("talk", [])) == expected
    assert everywhere["total_hits"] == len(expected)


MALFORMED = [
    '"timeout',
    'timeout"',
    '"""timeout',
    "+ - timeout",
    "timeout AND OR NOT",
    "(timeout",
    "timeout)))((",
    "type: timeout",
    "std::nothing timeout",
    "error: timeout",
    "http://x timeout",
    "[timeout TO zzz]",
    "/timeout/",
    "\\timeout\\",
    "timeout \x00 \x1f",
    "timeout \U0001f98a \u202e",
    "name:*** timeout",
    "*timeout",
    "timeout'; drop table streams;--",
]


@pytest.mark.parametrize("q", MALFORMED)
async def test_what_is_malformed_is_searched_as_words(talk: httpx2.AsyncClient, q: str) -> None:
    assert {0, 2, 4, 5} <= set(positions(await found(talk, "talk", q)))
    assert (await found_everywhere(talk, q))["total_hits"] >= 4


@pytest.mark.parametrize("q", ["-timeout -login", "type:", "+ timeout", '"" timeout', "-is:error"])
async def test_a_query_with_little_in_it_is_no_error(talk: httpx2.AsyncClient, q: str) -> None:
    answer = await found(talk, "talk", q)
    assert answer["total_hits"] == len(answer["data"])
    assert answer["up_to_date"] is True
    await found_everywhere(talk, q)


@pytest.mark.parametrize("q", ["", " ", "\t"])
async def test_an_empty_query_says_so(talk: httpx2.AsyncClient, q: str) -> None:
    for path in ("/search", "/sessions/talk/events"):
        refused = await talk.get(path, params={"q": q})
        assert refused.status_code == 400
        assert "q is empty" in refused.json()["error"]["message"]
    assert (await talk.get("/search")).status_code == 400


@pytest.mark.parametrize("q", ['""', "+", "-", "*", '"', "- - -", '+"" *', "\U0001f98a", "?!" * 500])
async def test_a_query_of_signs_alone_says_what_to_send(talk: httpx2.AsyncClient, q: str) -> None:
    for path in ("/search", "/sessions/talk/events"):
        refused = await talk.get(path, params={"q": q})
        assert (refused.status_code, error_code(refused)) == (400, "invalid_query")
        told = refused.json()["error"]["message"]
        assert f"There is no word in the query {q[:40]}: signs alone find nothing." in told
        assert "Send words to look for, such as timeout" in told


async def test_a_query_of_a_word_that_no_index_has_says_so(talk: httpx2.AsyncClient) -> None:
    refused = await talk.get("/search", params={"q": "a" * 3_000})
    assert (refused.status_code, error_code(refused)) == (400, "invalid_query")
    assert "are in no index. Send shorter ones." in refused.json()["error"]["message"]


async def test_common_words_find_nothing_by_themselves_beside_others(api: httpx2.AsyncClient) -> None:
    said = ("Fix the build.", "Look at the auth module.", "The build is of the old kind.", "Done.")
    for text in said:
        event = {"type": "user.message", "content": text}
        assert (await api.post("/sessions/common/events", json=event)).status_code == 204

    async def texts(q: str) -> list[str]:
        return [hit["content"] for hit in (await found(api, "common", q))["data"]]

    assert await texts("fix the build") == [said[0], said[2]]
    assert sorted(await texts("the build")) == sorted((said[0], said[2]))
    assert sorted(await texts("the")) == sorted(said[:3])
    assert await texts("+the -build") == [said[1]]
    assert await texts('"of the"') == [said[2]]
    assert sorted(await texts("the*")) == sorted(said[:3])


async def test_snippets_have_no_markup_of_tools(api: httpx2.AsyncClient) -> None:
    command = "<command-name>/review</command-name>\n<command-args>the gazelle</command-args>"
    failed = "<tool_use_error>No gazelle here</tool_use_error>"
    written = "<system-reminder>gazelle</system-reminder>"
    await append(
        api,
        "marked",
        said(f"<command-message>review</command-message>\n{command}"),
        said(failed, "agent.tool_result", tool_use_id="toolu_1", is_error=True),
        {"type": "agent.tool_use", "name": "write", "input": {"content": written}},
        said("a <b>gazelle</b> in HTML"),
    )
    hits = (await found(api, "marked", "gazelle", order="asc"))["data"]
    assert [hit["search"]["snippet"] for hit in hits] == [
        "/review\nthe gazelle",
        "No gazelle here",
        f"write\n{written}",
        "a <b>gazelle</b> in HTML",
    ]
    for hit in hits:
        ((begin, end),) = hit["search"]["highlights"]
        assert hit["search"]["snippet"][begin:end] == "gazelle"
    assert (await found(api, "marked", "command-name"))["data"] == []  # what nobody is shown is not found
    (group,) = (await found_everywhere(api, "review"))["data"]
    assert group["hits"][0]["search"]["snippet"] == "/review\nthe gazelle"


async def test_a_huge_query_is_cut_or_refused_but_hurts_nobody(talk: httpx2.AsyncClient) -> None:
    for q in (
        "timeout " + "x " * 5_000,
        "timeout " + '"a b c" ' * 1_000,
        "timeout " + "".join(f"p{n}* " for n in range(1_500)),
        "timeout " + "-type:a* -name:b* " * 400,
        "timeout " + "y" * 10_000,
    ):
        assert 0 in positions(await found(talk, "talk", q)), q[:30]
    long = await talk.get("/search", params={"q": "x" * 20_000})
    assert long.status_code == 414


async def test_text_that_is_hostile_is_indexed_or_left_out(api: httpx2.AsyncClient) -> None:
    hostile = [
        '{"type":"note","text":"lone \\ud800 surrogate marker"}',
        '{"type":"no\\ud800te","name":"\\udfff","text":"marker"}',
        '{"type":"note","text":"nul \\u0000 marker"}',
        '{"type":"note","text":"marker ' + "a" * 200_000 + '"}',
        '{"type":"note","text":"marker ' + "\\u4e2d" * 50_000 + '"}',
        '{"type":"note","text":["marker",' + "[" * 100 + "]" * 100 + "]}",
        '{"type":"note","text":"marker","n":1e308,"m":123456789012345678901234567890}',
        '{"type":"note","text":"marker ' + "\\u0300" * 5_000 + '"}',
        '{"type":"agent.tool_use","name":12,"input":"marker","is_error":"yes"}',
        '{"type":"note","text":"marker","text":"marker twice"}',
        '{"type":"note","id":"own","created_at":"rubbish","text":"marker"}',
        '{"type":"x","text":"the last marker"}',
    ]
    accepted = 0
    for event in hostile:
        answer = await api.post(
            "/sessions/s/events", content=event, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code in (204, 400), answer.text
        accepted += answer.status_code == 204
    shown = await found(api, "s", "marker", limit=100)
    assert shown["total_hits"] == accepted
    assert shown["up_to_date"] is True
    assert (await found_everywhere(api, "marker"))["total_hits"] == accepted


# Filters --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"type": "note"}, {4}),
        ({"type": "agent.*"}, {2, 5}),
        ({"types[]": ["note", "agent.message"]}, {4, 5}),
        ({"type": ["note", "user.message"]}, {0, 4}),
        ({"type": "nothing"}, set()),
        ({"role": "user"}, {0}),
        ({"role": "agent"}, {5}),
        ({"role": "tool"}, {2}),
        ({"role": "error"}, set()),
        ({"role": ["user", "tool"]}, {0, 2}),
        ({"role": "user", "type": "note"}, set()),
        ({"created_at[gte]": "2000-01-01T00:00:00Z"}, {0, 2, 4, 5}),
        ({"created_at[lt]": "2000-01-01T00:00:00Z"}, set()),
        ({"after": "2000-01-01T00:00:00Z"}, {0, 2, 4, 5}),
        ({"before": "2000-01-01T00:00:00Z"}, set()),
        ({"after": "2100-01-01T00:00:00Z"}, set()),
        ({"from": "3"}, {4, 5}),
        ({"from": "5"}, {5}),
        ({"offset": "-1"}, {0, 2, 4, 5}),
        ({"offset": at(2)}, {2, 4, 5}),
        ({"offset": "now"}, set()),
        ({"tail": "2"}, {4, 5}),
        ({"tail": "0"}, set()),
        ({"around": "3", "window": "1"}, {2, 4}),
        ({"around": "0", "window": "0"}, {0}),
        ({"around": "6", "window": "1"}, {5}),
        ({"tail": "2", "type": "note"}, {4}),
        ({"beta": "true"}, {0, 2, 4, 5}),
    ],
)
async def test_filters_and_positions_narrow_a_session_search(
    talk: httpx2.AsyncClient, parameters: dict[str, Any], expected: set[int]
) -> None:
    answer = await found(talk, "talk", "timeout", **parameters)
    assert set(positions(answer)) == expected
    assert answer["total_hits"] == len(expected)
    assert answer["up_to_date"] is True


async def test_times_are_exact(api: httpx2.AsyncClient) -> None:
    for number in range(4):
        await append(api, "s", said(f"tick {number}"))
    events = (await api.get("/sessions/s/events")).json()["data"]
    times = [event["created_at"] for event in events]
    for name, test in {
        "created_at[gt]": operator.gt,
        "created_at[gte]": operator.ge,
        "created_at[lt]": operator.lt,
        "created_at[lte]": operator.le,
        "after": operator.gt,
        "before": operator.lt,
    }.items():
        for bound in times:
            expected = {n for n, one in enumerate(times) if test(one, bound)}
            assert set(positions(await found(api, "s", "tick", **{name: bound}))) == expected, name
            assert (await found_everywhere(api, "tick", **{name: bound}))["total_hits"] == len(expected), name


async def test_a_workspace_search_is_narrowed_to_sessions(api: httpx2.AsyncClient) -> None:
    for name, agent, colour in (("a", "agent_x", "red"), ("b", "agent_x", "blue"), ("c", "agent_y", "red")):
        body = {"agent": agent, "metadata": {"colour": colour, "n": 1}}
        assert (await api.put(f"/sessions/{name}", json=body)).status_code == 201
        await append(api, name, said("timeout"), said("timeout", "agent.message"))

    async def sessions(**parameters: Any) -> set[str]:
        answer = await found_everywhere(api, "timeout", **parameters)
        named = set(grouped(answer))
        assert answer["total_sessions"] == len(named)
        return named

    assert await sessions() == {"a", "b", "c"}
    assert await sessions(session="a") == {"a"}
    assert await sessions(session=["a", "c"]) == {"a", "c"}
    assert await sessions(session="a,c") == {"a", "c"}
    assert await sessions(agent="agent_x") == {"a", "b"}
    assert await sessions(agent="agent_z") == set()
    assert await sessions(**{"metadata[colour]": "red"}) == {"a", "c"}
    assert await sessions(**{"metadata[colour]": "red", "metadata[n]": "1"}) == {"a", "c"}
    assert await sessions(**{"metadata[colour]": "red", "agent": "agent_y"}) == {"c"}
    assert await sessions(**{"metadata[colour]": "blue", "session": "a"}) == set()
    answer = await found_everywhere(api, "timeout", session="a", role="agent")
    assert grouped(answer) == {"a": [1]}
    assert answer["total_hits"] == 1


async def test_types_and_roles_narrow_a_workspace_search(talk: httpx2.AsyncClient) -> None:
    for parameters, expected in (
        ({"type": "note"}, [4]),
        ({"types[]": "agent.*"}, [2, 5]),
        ({"role": "tool"}, [2]),
        ({"role": "user,tool"}, [0, 2]),
    ):
        answer = await found_everywhere(talk, "timeout", **parameters)
        assert sorted(grouped(answer)["talk"]) == expected
        assert answer["total_hits"] == len(expected)


# Order and pages ------------------------------------------------------------------------


async def test_hits_of_a_session_come_by_score_or_position(talk: httpx2.AsyncClient) -> None:
    assert positions(await found(talk, "talk", "timeout", order="asc")) == [0, 2, 4, 5]
    assert positions(await found(talk, "talk", "timeout", order="desc")) == [5, 4, 2, 0]
    by_score = await found(talk, "talk", "timeout")
    assert positions(await found(talk, "talk", "timeout", order="score")) == positions(by_score)
    refused = await talk.get("/search", params={"q": "timeout", "order": "asc"})
    assert refused.status_code == 400
    assert "events?q=" in refused.json()["error"]["message"]
    assert (await talk.get("/search", params={"q": "timeout", "order": "score"})).status_code == 200


async def test_equal_hits_are_in_a_fixed_order(api: httpx2.AsyncClient) -> None:
    await append(api, "s", *[said("same words in each") for _ in range(100)])
    assert positions(await found(api, "s", "same", limit=100)) == list(range(100))
    walked = []
    page: dict[str, Any] = {}
    while True:
        answer = await found(api, "s", "same", limit=7, **page)
        walked += positions(answer)
        if answer["next_page"] is None:
            break
        page = {"page": answer["next_page"]}
    assert walked == list(range(100))


@pytest.mark.parametrize("parameters", [{}, {"order": "asc"}, {"order": "desc"}, {"tail": 60}, {"from": 20}])
async def test_pages_of_a_session_stay_as_they_were(
    api: httpx2.AsyncClient, parameters: dict[str, Any]
) -> None:
    """What arrives while somebody pages changes neither order nor number, and nothing is missed."""
    await append(api, "s", *[said("needle " + "hay " * (n * 7 % 13)) for n in range(80)])
    expected = await found(api, "s", "needle", limit=100, **parameters)
    walked: list[tuple[str, float]] = []
    page: dict[str, Any] = {}
    for round_number in itertools.count():
        answer = await found(api, "s", "needle", limit=9, **parameters, **page)
        assert answer["total_hits"] == expected["total_hits"]
        walked += [(hit["id"], hit["search"]["score"]) for hit in answer["data"]]
        if answer["next_page"] is None:
            break
        page = {"page": answer["next_page"]}
        await append(api, "s", *[said("needle needle hay") for _ in range(3)])
        await append(api, f"t{round_number}", said("needle needle needle"))
        await found(api, "s", "needle", limit=1)
    assert walked == [(hit["id"], hit["search"]["score"]) for hit in expected["data"]]


async def test_pages_of_a_workspace_stay_as_they_were(api: httpx2.AsyncClient) -> None:
    for n in range(30):
        await append(api, f"s{n}", *[said("needle " + "hay " * (n * 7 % 13 + m)) for m in range(3)])
    expected = await found_everywhere(api, "needle", limit=100)
    walked: list[Any] = []
    page: dict[str, Any] = {}
    while True:
        answer = await found_everywhere(api, "needle", limit=4, **page)
        assert (answer["total_hits"], answer["total_sessions"]) == (90, 30)
        walked += [(group["session"]["id"], group["hits"]) for group in answer["data"]]
        if answer["next_page"] is None:
            break
        page = {"page": answer["next_page"]}
        await append(api, "s7", said("needle needle needle"))
        await append(api, f"new{len(walked)}", said("needle needle needle"))
        await found_everywhere(api, "needle", limit=1)
    assert walked == [(group["session"]["id"], group["hits"]) for group in expected["data"]]


async def test_a_page_outlives_many_other_searches(api: httpx2.AsyncClient) -> None:
    await append(api, "s", *[said("needle " + "hay " * (n % 7)) for n in range(40)])
    whole = await found(api, "s", "needle", limit=100)
    first = await found(api, "s", "needle", limit=20)
    for n in range(100):
        await append(api, "s", said(f"needle word{n}"))
        assert (await found(api, "s", f"word{n}"))["total_hits"] == 1
    second = await found(api, "s", "needle", limit=20, page=first["next_page"])
    assert positions(first) + positions(second) == positions(whole)


async def test_a_page_ends_at_its_bytes(api: httpx2.AsyncClient) -> None:
    """Eight MiB of events are a page; the others are on the next ones."""
    for n in range(12):
        await append(api, "s", said("needle " + "x" * 900_000, n=n))
    walked: list[int] = []
    page: dict[str, Any] = {}
    while True:
        answer = await found(api, "s", "needle", order="asc", **page)
        walked += positions(answer)
        if answer["next_page"] is None:
            break
        page = {"page": answer["next_page"]}
    assert walked == list(range(12))


# Refusals -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "said_of_it"),
    [
        ({"limit": "0"}, "limit=0"),
        ({"limit": "1001"}, "1 to 1000"),
        ({"limit": "many"}, "limit=many"),
        ({"order": "sideways"}, "order=sideways"),
        ({"role": "boss"}, "user, agent, tool, system, error"),
        ({"page": "rubbish"}, "next_page"),
        ({"page": "abc-1"}, "next_page"),
        ({"page": "0123456789ab-9999999"}, "next_page"),
        ({"after": "yesterday"}, "RFC 3339"),
        ({"before": "1"}, "RFC 3339"),
        ({"created_at[gte]": "x"}, "RFC 3339"),
        ({"from": "1", "tail": "1"}, "not both"),
        ({"from": "-3"}, "from=-3"),
        ({"offset": "rubbish"}, "offset"),
        ({"live": "sse", "offset": "-1"}, "live"),
        ({"live": "long-poll", "offset": "now"}, "live"),
        ({"pairs": "keep"}, "pairs"),
    ],
)
async def test_what_a_session_search_refuses(
    talk: httpx2.AsyncClient, parameters: dict[str, str], said_of_it: str
) -> None:
    answer = await talk.get("/sessions/talk/events", params={"q": "timeout", **parameters})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert said_of_it in error["message"]


@pytest.mark.parametrize(
    ("parameters", "said_of_it"),
    [
        ({}, "q=timeout"),
        ({"q": "x", "limit": "101"}, "1 to 100"),
        ({"q": "x", "hits": "21"}, "1 to 20"),
        ({"q": "x", "hits": "0"}, "1 to 20"),
        ({"q": "x", "role": "boss"}, "user, agent, tool, system, error"),
        ({"q": "x", "page": "rubbish"}, "next_page"),
        ({"q": "x", "after": "yesterday"}, "RFC 3339"),
        ({"q": ["x", "y"]}, "twice"),
        ({"q": "x", "session": [f"s{n}" for n in range(101)]}, "100"),
    ],
)
async def test_what_a_workspace_search_refuses(
    api: httpx2.AsyncClient, parameters: dict[str, Any], said_of_it: str
) -> None:
    answer = await api.get("/search", params=parameters)
    assert answer.status_code == 400, answer.text
    assert said_of_it in answer.json()["error"]["message"]


async def test_bad_escapes_are_refused(api: httpx2.AsyncClient) -> None:
    assert (await api.get("/search?q=%ff%fe")).status_code == 400


async def test_what_is_missing_is_404_and_methods_are_checked(talk: httpx2.AsyncClient) -> None:
    assert (await talk.get("/sessions/nobody/events", params={"q": "x"})).status_code == 404
    assert (await talk.get("/search", params={"q": "x", "session": "nobody"})).status_code == 404
    assert (await talk.get("/search", params={"q": "x", "session": ["talk", "nobody"]})).status_code == 404
    assert (await talk.get("/search/more", params={"q": "x"})).status_code == 404
    assert (await talk.post("/search", params={"q": "x"})).status_code == 405
    assert (await talk.get("/sessions/nobody")).status_code == 404


async def test_head_has_the_fields_and_no_body(talk: httpx2.AsyncClient) -> None:
    answer = await talk.head("/search", params={"q": "timeout"})
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == "application/json"
    answer = await talk.head("/sessions/talk/events", params={"q": "timeout"})
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["stream-next-offset"] == at(6)


async def test_anthropics_dialect_is_tolerated(talk: httpx2.AsyncClient) -> None:
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "managed-agents-2026-04-01"}
    plain = await found(talk, "talk", "timeout")
    answer = await talk.get("/sessions/talk/events", params={"q": "timeout", "beta": "true"}, headers=headers)
    assert answer.json()["data"] == plain["data"]
    answer = await talk.get("/search", params={"q": "timeout"}, headers=headers)
    assert answer.status_code == 200
    assert answer.headers["request-id"]


# What becomes of sessions ---------------------------------------------------------------


async def test_closed_and_archived_sessions_are_found(api: httpx2.AsyncClient) -> None:
    for name in ("closed", "archived"):
        await append(api, name, said("timeout"))
    assert (await api.post("/sessions/closed/close")).status_code < 300
    assert (await api.post("/sessions/archived/archive")).status_code < 300
    answer = await found_everywhere(api, "timeout")
    assert {"closed", "archived"} == set(grouped(answer))
    assert answer["total_sessions"] == 2
    for name in ("closed", "archived"):
        assert 0 in positions(await found(api, name, "timeout"))


async def test_a_deleted_session_is_gone_at_once(api: httpx2.AsyncClient) -> None:
    for name in ("a", "b"):
        await append(api, name, said("timeout"), said("timeout again"))
    assert (await found_everywhere(api, "timeout"))["total_hits"] == 4
    assert (await api.delete("/sessions/a")).status_code < 300
    answer = await found_everywhere(api, "timeout")
    assert set(grouped(answer)) == {"b"}
    assert (answer["total_hits"], answer["total_sessions"]) == (2, 1)
    assert (await api.get("/sessions/a/events", params={"q": "timeout"})).status_code == 404
    await append(api, "a", said("timeout of the second life"))
    assert positions(await found(api, "a", "timeout")) == [0]
    assert (await found_everywhere(api, "timeout"))["total_hits"] == 3


async def test_a_session_deleted_before_it_was_indexed_is_never_found(api: httpx2.AsyncClient) -> None:
    await append(api, "a", said("timeout"))
    assert (await api.delete("/sessions/a")).status_code < 300
    answer = await found_everywhere(api, "timeout")
    assert (answer["data"], answer["total_hits"]) == ([], 0)


async def test_a_page_of_before_shows_nothing_that_was_deleted_since(api: httpx2.AsyncClient) -> None:
    for n in range(6):
        await append(api, f"s{n}", said("timeout"))
    first = await found_everywhere(api, "timeout", limit=2)
    assert (await api.delete("/sessions/s3")).status_code < 300
    rest = await found_everywhere(api, "timeout", limit=100, page=first["next_page"])
    assert set(grouped(first)) | set(grouped(rest)) == {"s0", "s1", "s2", "s4", "s5"}


# Forks ----------------------------------------------------------------------------------


async def test_a_fork_finds_what_it_inherits_where_it_stands(api: httpx2.AsyncClient) -> None:
    await append(api, "source", *[said(f"needle n{n}") for n in range(10)])
    await fork(api, "fork", "source", 4)
    await append(api, "fork", said("needle own"))
    await append(api, "source", said("needle later"))
    assert positions(await found(api, "fork", "needle", order="asc")) == [0, 1, 2, 3, 4]
    assert positions(await found(api, "fork", "own")) == [4]
    assert positions(await found(api, "fork", "n3")) == [3]
    assert positions(await found(api, "fork", "n4")) == []
    assert positions(await found(api, "fork", "later")) == []
    assert positions(await found(api, "source", "own")) == []
    assert positions(await found(api, "fork", "needle", order="asc", **{"from": 2, "type": "user.*"})) == [
        2,
        3,
        4,
    ]
    assert positions(await found(api, "fork", "needle", order="asc", tail=2)) == [3, 4]
    assert positions(await found(api, "fork", "needle", order="asc", around=2, window=1)) == [1, 2, 3]
    assert (await found(api, "fork", "needle"))["indexed_through"] == at(5)
    everywhere = await found_everywhere(api, "needle", hits=20)
    assert everywhere["total_hits"] == 12
    assert everywhere["total_sessions"] == 2
    assert {name: sorted(where) for name, where in grouped(everywhere).items()} == {
        "source": list(range(11)),
        "fork": [4],
    }


async def test_a_named_fork_has_what_it_inherits(api: httpx2.AsyncClient) -> None:
    await append(api, "source", *[said(f"needle n{n}") for n in range(6)])
    await fork(api, "fork", "source", 4)
    await append(api, "fork", said("needle own"))
    answer = await found_everywhere(api, "needle", session="fork", hits=20)
    assert {name: sorted(where) for name, where in grouped(answer).items()} == {"fork": [0, 1, 2, 3, 4]}
    assert (answer["total_hits"], answer["total_sessions"]) == (5, 1)
    both = await found_everywhere(api, "needle", session=["fork", "source"], hits=20)
    assert {name: sorted(where) for name, where in grouped(both).items()} == {
        "source": [0, 1, 2, 3, 4, 5],
        "fork": [4],
    }
    assert (both["total_hits"], both["total_sessions"]) == (7, 2)


async def test_what_a_fork_inherits_outlives_its_source(api: httpx2.AsyncClient) -> None:
    await append(api, "source", *[said(f"needle n{n}") for n in range(10)])
    await fork(api, "fork", "source", 4)
    await append(api, "fork", said("needle own"))
    assert (await api.delete("/sessions/source")).status_code < 300
    answer = await found_everywhere(api, "needle", hits=20)
    assert {name: sorted(where) for name, where in grouped(answer).items()} == {"fork": [0, 1, 2, 3, 4]}
    assert (answer["total_hits"], answer["total_sessions"]) == (5, 1)
    assert positions(await found(api, "fork", "needle", order="asc")) == [0, 1, 2, 3, 4]
    assert (await found_everywhere(api, "n7"))["total_hits"] == 0
    assert (await api.get("/sessions/source/events", params={"q": "needle"})).status_code == 404
    assert (await api.delete("/sessions/fork")).status_code < 300
    gone = await found_everywhere(api, "needle")
    assert (gone["data"], gone["total_hits"], gone["total_sessions"]) == ([], 0, 0)


async def test_forks_of_forks_and_what_is_left_of_them(api: httpx2.AsyncClient) -> None:
    await append(api, "a", *[said(f"needle a{n}") for n in range(6)])
    await fork(api, "b", "a", 4)
    await append(api, "b", *[said(f"needle b{n}") for n in range(4, 8)])
    await fork(api, "c", "b", 6)
    await append(api, "c", said("needle c6"))
    assert positions(await found(api, "c", "needle", order="asc")) == [0, 1, 2, 3, 4, 5, 6]
    assert positions(await found(api, "c", "a3")) == [3]
    assert positions(await found(api, "c", "b5")) == [5]
    assert positions(await found(api, "c", "b6")) == []
    assert (await found_everywhere(api, "needle"))["total_hits"] == 11
    assert (await api.delete("/sessions/b")).status_code < 300
    answer = await found_everywhere(api, "needle", hits=20)
    assert {name: sorted(where) for name, where in grouped(answer).items()} == {
        "a": [0, 1, 2, 3, 4, 5],
        "c": [4, 5, 6],
    }
    assert answer["total_hits"] == 9
    assert (await api.delete("/sessions/a")).status_code < 300
    answer = await found_everywhere(api, "needle", hits=20)
    assert {name: sorted(where) for name, where in grouped(answer).items()} == {"c": [0, 1, 2, 3, 4, 5, 6]}
    assert answer["total_hits"] == 7
    assert (await api.delete("/sessions/c")).status_code < 300
    assert (await found_everywhere(api, "needle"))["total_hits"] == 0


async def test_a_long_line_of_forks_is_searched(api: httpx2.AsyncClient) -> None:
    """Deeper than functions may call themselves."""
    await append(api, "f0", said("needle zero"))
    for n in range(1, 600):
        await fork(api, f"f{n}", f"f{n - 1}")
    await append(api, "f599", said("needle last"))
    for n in range(599):
        assert (await api.delete(f"/sessions/f{n}")).status_code < 300
    assert positions(await found(api, "f599", "needle", order="asc")) == [0, 1]
    assert grouped(await found_everywhere(api, "zero")) == {"f599": [0]}


# Others ---------------------------------------------------------------------------------


async def test_workspaces_never_leak(server: LocalServer) -> None:
    """Not even by scores: they are the same to the last digit whatever another workspace holds."""
    clients = []
    for name in ("alone", "crowded-a", "crowded-b"):
        secret = await make_secret(server.url, "writer", name)
        clients.append(
            httpx2.AsyncClient(base_url=server.url + "/v1", headers=bearer(secret), timeout=PATIENCE_SECONDS)
        )
    alone, ours, theirs = clients
    for client in (alone, ours):
        await append(client, "chat", *CONVERSATION, *CONVERSATION[::-1])
        await append(client, "more", said("the login"), said("timeout"))
    for n in range(5):
        await append(theirs, f"chat{n}", *[said(f"timeout login {m} gateway") for m in range(1_000)])
    await append(theirs, "secret", said("timeout of theirs alone"))

    for q in ("timeout", "login gateway", '"login timeout"', "time*", "type:note", "auth token"):
        expected = await found_everywhere(alone, q, hits=20)
        answer = await found_everywhere(ours, q, hits=20)
        assert scores(answer) == scores(expected)
        assert grouped(answer) == grouped(expected)
        assert (answer["total_hits"], answer["total_sessions"]) == (
            expected["total_hits"],
            expected["total_sessions"],
        )
        inside, other = await found(alone, "chat", q), await found(ours, "chat", q)
        assert scores(inside) == scores(other)
        assert [hit["search"] for hit in inside["data"]] == [hit["search"] for hit in other["data"]]
    assert (await found_everywhere(ours, "theirs"))["total_hits"] == 0
    assert (await ours.get("/search", params={"q": "x", "session": "secret"})).status_code == 404
    assert (await ours.get("/sessions/secret/events", params={"q": "x"})).status_code == 404

    page = (await found_everywhere(theirs, "timeout", limit=1))["next_page"]
    inner = (await found(theirs, "chat0", "timeout", limit=1))["next_page"]
    for token in (page, inner):
        shown = await ours.get("/search", params={"q": "timeout", "page": token})
        assert shown.status_code == 200
        assert "chat0" not in shown.text
        assert "of theirs" not in shown.text
        shown = await ours.get("/sessions/chat/events", params={"q": "timeout", "page": token})
        if shown.status_code == 200:
            assert shown.json()["total_hits"] == (await found(ours, "chat", "timeout"))["total_hits"]
    for client in clients:
        await client.aclose()


async def test_readers_may_search_and_others_need_a_key(server: LocalServer, api: httpx2.AsyncClient) -> None:
    writer = await make_secret(server.url, "writer", "shared")
    reader = await make_secret(server.url, "reader", "shared")
    async with httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as client:
        client.headers.update(bearer(writer))
        await append(client, "s", said("timeout"))
        client.headers.update(bearer(reader))
        assert (await found(client, "s", "timeout"))["total_hits"] == 1
        assert (await found_everywhere(client, "timeout"))["total_hits"] == 1
        del client.headers["Authorization"]
        for path in ("/search?q=x", "/sessions/s/events?q=x"):
            assert (await client.get(path)).status_code == 401
        assert (await client.get("/search?q=x", headers=bearer("wrong"))).status_code == 401


async def test_what_was_not_sent_as_a_session_event_is_not_found(api: httpx2.AsyncClient) -> None:
    """Plain streams are not searched, and the strict face of a session is the same log."""
    headers = {"Content-Type": "application/json"}
    root = str(api.base_url).rstrip("/")
    assert (
        await api.put(f"{root}/stream/plain", headers=headers, content='[{"text":"timeout"}]')
    ).status_code == 201
    await append(api, "s", said("hello"))
    content = json.dumps([said("timeout by the strict face")])
    answer = await api.post(f"{root}/stream/sessions/s", headers=headers, content=content)
    assert answer.status_code < 300, answer.text
    assert grouped(await found_everywhere(api, "timeout")) == {"s": [1]}


async def test_at_the_limits_and_beyond_them(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, search_hits_max=2, searched_sessions_max=2)
    async with (
        local_server(tmp_path, limits=limits) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
    ):
        for name, team in (("a", "x"), ("b", "x"), ("c", "y")):
            assert (await api.put(f"/sessions/{name}", json={"metadata": {"team": team}})).is_success
            await append(api, name, said("timeout"))
        assert len((await found(api, "a", "timeout", limit=2))["data"]) == 1
        refused = await api.get("/sessions/a/events", params={"q": "timeout", "limit": 3})
        assert refused.status_code == 400
        assert "from 1 to 2" in refused.text
        narrowed = {"metadata[team]": "x"}
        assert grouped(await found_everywhere(api, "timeout", **narrowed)) == {"a": [0], "b": [0]}
        assert (await api.put("/sessions/d", json={"metadata": {"team": "x"}})).is_success
        refused = await api.get("/search", params={"q": "timeout", **narrowed})
        assert refused.status_code == 400
        assert "More than 2 sessions" in refused.text


# Calls and their results ----------------------------------------------------------------


def called(name: str, call: str, **more: Any) -> dict[str, Any]:
    return {"type": "agent.tool_use", "id": call, "name": name, "input": {}, **more}


def answered(call: str, words: str, **more: Any) -> dict[str, Any]:
    return said(words, "agent.tool_result", tool_use_id=call, **more)


async def test_a_result_is_found_by_the_name_of_its_call(api: httpx2.AsyncClient) -> None:
    await append(api, "s", called("Bash", "c1"), called("Read", "c2"))
    await append(api, "s", answered("c1", "needle"), answered("c2", "needle"), answered("c3", "needle"))
    assert positions(await found(api, "s", "needle name:bash")) == [2]
    assert positions(await found(api, "s", "needle name:rea*")) == [3]
    await append(api, "other", answered("c1", "needle"))
    assert positions(await found(api, "other", "needle name:bash")) == []


async def test_a_result_in_a_fork_has_the_name_of_the_inherited_call(api: httpx2.AsyncClient) -> None:
    call = {"type": "agent.tool_use", "name": "Bash", "input": {}}
    await append(api, "s", call)
    stored = (await api.get("/sessions/s/events")).json()["data"][0]["id"]
    await fork(api, "f", "s")
    await append(api, "f", answered(stored, "needle"))
    assert positions(await found(api, "f", "needle name:bash")) == [1]


async def test_bookkeeping_of_imports_is_neither_found_nor_shown(api: httpx2.AsyncClient) -> None:
    source = {"tool": "claude-code", "record_id": "u1"}
    detail = {"cwd": "/home/me/shop", "userType": "external", "version": "2.0.1"}
    await append(api, "s", said("the shop is open", source=source, source_detail=detail))
    assert positions(await found(api, "s", "external")) == []
    (hit,) = (await found(api, "s", "shop"))["data"]
    assert hit["search"]["snippet"] == "the shop is open"


async def test_bookkeeping_is_found_after_the_failure(api: httpx2.AsyncClient) -> None:
    record = {"source": {"tool": "claude-code"}, "source_text": "permission denied"}
    long = "a long build log " * 200
    span = {"type": "span.x", "text": "permission denied"}
    await append(api, "a", {"type": "import.record", **record}, span)
    await append(api, "b", said(f"{long} open /etc/shadow: Permission denied {long}"))
    everywhere = (await api.get("/search", params={"q": "permission denied"})).json()
    assert [group["session"]["id"] for group in everywhere["data"]] == ["b", "a"]
    asked = (await api.get("/search", params={"q": "permission denied", "type": "span.*"})).json()
    assert asked["data"][0]["hits"][0]["search"]["score"] > 0.01


async def test_an_event_of_ones_own_is_not_found_if_it_says_so(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "claude.summary", "searchable": False, "data": {"text": "needle"}})
    await append(api, "s", said("needle"))
    assert positions(await found(api, "s", "needle")) == [1]
    assert positions(await found(api, "s", "type:claude.summary")) == [0]
    read = await api.get("/sessions/s/events", params={"type": "claude.summary"})
    assert read.json()["data"][0]["data"] == {"text": "needle"}


@pytest.mark.parametrize("kind", ["agent.message", "agent.tool_result", "user.message", "note"])
async def test_no_search_finds_the_text_of_an_event_that_is_not_searchable(
    api: httpx2.AsyncClient, kind: str
) -> None:
    """In a session, in all of them, and for the context of a model."""
    text = [{"type": "text", "text": "needle"}]
    await append(api, "s", {"type": kind, "searchable": False, "content": text}, said("needle in a haystack"))
    assert positions(await found(api, "s", "needle")) == [1]
    everywhere = (await api.get("/search", params={"q": "needle"})).json()
    assert everywhere["total_hits"] == 1
    await append(api, "s", *({"type": "system.message", "content": "x" * 400} for _ in range(20)))
    context = await api.get("/sessions/s/context", params={"q": "needle", "budget_tokens": 600})
    hits = [one["event"] for one in context.json()["items"] if one["kind"] == "found"]
    assert [hit["type"] for hit in hits] == [said("")["type"]]
    assert "searchable" not in hits[0]
    assert 0 in positions(await found(api, "s", f"type:{kind}")), "found by its type"


async def test_what_has_no_time_is_in_no_range_of_times(api: httpx2.AsyncClient) -> None:
    """Searches and reads agree with what is shown: an imported event without a time has none."""
    source = {"tool": "swe-agent", "record_id": "M0"}
    await append(api, "s", said("needle", source=source), said("needle"))
    ranges: tuple[dict[str, str], ...] = (
        {"before": "2100-01-01T00:00:00Z"},
        {"after": "1980-01-01T00:00:00Z"},
        {"after": "1980-01-01T00:00:00Z", "before": "2100-01-01T00:00:00Z"},
    )
    for times in ranges:
        answer = await api.get("/sessions/s/events", params={"q": "needle", **times})
        assert positions(answer.json()) == [1]
        everywhere = await api.get("/search", params={"q": "needle", **times})
        assert everywhere.json()["total_hits"] == 1
        read = await api.get("/sessions/s/events", params=times)
        assert positions(read.json()) == [1]
    assert sorted(positions(await found(api, "s", "needle"))) == [0, 1]
    stored = await api.get("/sessions/s/events", params={"created_at[gte]": "1980-01-01T00:00:00Z"})
    assert positions(stored.json()) == [0, 1]


@pytest.mark.parametrize(
    ("q", "told"),
    [("typ:note", "did you mean type:note?"), ("is:eror", "is:error"), ("role:agent", "send role=agent")],
)
async def test_a_misspelt_filter_is_refused(talk: httpx2.AsyncClient, q: str, told: str) -> None:
    for path in ("/search", "/sessions/talk/events"):
        answer = await talk.get(path, params={"q": q})
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error["details"]["error_code"] == "invalid_query"
        assert told in error["message"]


async def test_a_range_without_a_time_is_refused(talk: httpx2.AsyncClient) -> None:
    times = {"after": "2026-02-01T00:00:00Z", "before": "2026-01-01T00:00:00Z"}
    for path, q in (("/search", {"q": "x"}), ("/sessions/talk/events", {}), ("/sessions", {})):
        answer = await talk.get(path, params={**times, **q})
        assert answer.status_code == 400
        told = "No time is after 2026-02-01T00:00:00Z and before 2026-01-01T00:00:00Z"
        assert told in answer.json()["error"]["message"]
