"""Slots over HTTP: the latest event of a name, by name and by prefix, at any offset, and conditions."""

from typing import Any

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import LocalServer
from tests.support.sessions import append, at, code, read

pytestmark = pytest.mark.anyio

THEIRS = {"anthropic-version": "2026-10-21"}


def row(number: int, *slots: str, **members: object) -> dict[str, object]:
    named: object = slots[0] if len(slots) == 1 else list(slots)
    return {"type": "row", "n": number, **({"slot": named} if slots else {}), **members}


async def slots(api: httpx2.AsyncClient, session: str, **asked: Any) -> dict[str, Any]:
    answer = await api.get(f"/sessions/{session}/slots", params=asked)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert answer.headers["stream-next-offset"] == found["next_offset"]
    assert answer.headers["session-incarnation"] == found["incarnation"]
    return found


async def held(api: httpx2.AsyncClient, session: str, **asked: Any) -> dict[str, int]:
    return {one["slot"]: one["event"]["n"] for one in (await slots(api, session, **asked))["data"]}


async def flushed(server: LocalServer) -> None:
    while await server.node.engine.partition.flush():
        pass


async def test_the_latest_event_of_a_name_holds_its_slot(api: httpx2.AsyncClient) -> None:
    await append(api, "s", row(0, "a"), row(1, "a", "b"), row(2), row(3, "c"))
    assert await held(api, "s") == {"a": 1, "b": 1, "c": 3}
    assert await held(api, "s", slot=["c", "none", "a"]) == {"c": 3, "a": 1}
    assert await held(api, "s", at=1) == {"a": 0}
    assert await held(api, "s", at=at(2)) == {"a": 1, "b": 1}
    await append(api, "s", row(4, "a", slot_empty="keep"), row(5, "b"))
    assert await held(api, "s") == {"b": 5, "c": 3}
    assert await held(api, "s", at=4) == {"a": 1, "b": 1, "c": 3}
    assert await held(api, "s", order="desc") == {"c": 3, "b": 5}
    for wrong, said in (({"at": 7}, "offset_beyond_tail"), ({"at": "x"}, "invalid_offset")):
        answer = await api.get("/sessions/s/slots", params=wrong)
        assert (answer.status_code, code(answer)) == (400, said)
    assert (await api.get("/sessions/none/slots")).status_code == 404
    assert (await api.get("/sessions/s/slots", params={"prefx": "a"})).status_code == 400


async def test_prefixes_pages_and_places(api: httpx2.AsyncClient) -> None:
    await append(
        api, "s", *(row(number, f"w/{number:02}") for number in range(12)), row(20, "v"), row(21, "x")
    )
    first = await slots(api, "s", prefix="w/", limit=5)
    assert [one["slot"] for one in first["data"]] == [f"w/{number:02}" for number in range(5)]
    assert first["next_after"] == "w/04"
    await append(api, "s", row(30, "w/05"), row(31, "w/00a"))
    second = await slots(api, "s", prefix="w/", limit=5, after="w/04", at=first["next_offset"])
    assert [one["event"]["n"] for one in second["data"]] == [5, 6, 7, 8, 9]
    last = await slots(api, "s", prefix="w/", limit=5, after="w/09", at=first["next_offset"])
    assert (len(last["data"]), last["next_after"]) == (2, None)
    newest = await slots(api, "s", prefix="w/", order="desc", limit=1)
    assert [one["slot"] for one in newest["data"]] == ["w/11"]
    both = await slots(api, "s", slot=["x", "w/03"], prefix="w/", limit=4)
    assert [one["slot"] for one in both["data"]] == ["x", "w/03", "w/00", "w/00a"]
    rest = await slots(api, "s", slot=["x", "w/03"], prefix="w/", after="w/00a", limit=100)
    assert [one["slot"] for one in rest["data"]][:3] == ["w/01", "w/02", "w/04"]
    between = await slots(api, "s", slot=["x", "w/03"], prefix="w/", after="x", limit=2)
    assert [one["slot"] for one in between["data"]] == ["w/03", "w/00"]
    places = await slots(api, "s", slot="x", values="false")
    event = (await read(api, "s"))[13]
    assert places["data"][0] == {
        "slot": "x",
        "id": event["id"],
        "offset": at(13),
        "type": "row",
        "bytes": len((await api.get(f"/sessions/s/events/{event['id']}")).content),
    }
    await append(api, "s", {"type": "done", "slot_prefix": "w/", "slot_empty": "keep"}, row(40, "w/07"))
    assert await held(api, "s") == {"v": 20, "w/07": 40, "x": 21}
    assert len(await held(api, "s", prefix="w/", at=first["next_offset"])) == 12


async def test_members_that_do_not_fit_are_plain_payload(api: httpx2.AsyncClient) -> None:
    wrong: list[object] = [
        "",
        "a\n",
        "é" * 257,
        7,
        None,
        [],
        ["a", 7],
        ["a", ""],
        [f"a{n}" for n in range(9)],
    ]
    await append(api, "s", *({"type": "row", "slot": one} for one in wrong))
    await append(api, "s", {"type": "row", "slot_prefix": "a"}, {"type": "row", "slot_empty": "keep"})
    assert await held(api, "s") == {}
    assert [event.get("slot", 0) for event in await read(api, "s")][: len(wrong)] == wrong
    await append(api, "s", row(1, "é" * 256), row(2, *(f"a{n}" for n in range(8))), row(3, "b", slot_empty=1))
    assert await held(api, "s", prefix="é") == {"é" * 256: 1}
    assert len(await held(api, "s", prefix="a")) == 8
    assert await held(api, "s", prefix="b") == {"b": 3}
    for asked in ({"slot": "é" * 257}, {"slot": ""}, {"prefix": "é" * 257}, {"limit": 1001}, {"order": "up"}):
        assert (await api.get("/sessions/s/slots", params=asked)).status_code == 400, asked
    many = {"slot": [f"s{n}" for n in range(DEFAULT_LIMITS.slots_asked_max + 1)]}
    assert (await api.get("/sessions/s/slots", params=many)).status_code == 400
    many["slot"].pop()
    assert await held(api, "s", **many) == {}


async def test_forks_inherit_as_of_their_offset(server: LocalServer, api: httpx2.AsyncClient) -> None:
    await append(api, "s", row(0, "a"), row(1, "b"), row(2, "a"))
    fork = {"Stream-Forked-From": "/v1/sessions/s", "Stream-Fork-Offset": at(2)}
    assert (await api.put("/sessions/f", headers=fork)).status_code == 201
    await append(api, "s", row(3, "b"), row(4, "c"))
    await append(api, "f", row(5, "b", slot_empty="keep"), row(6, "d"))
    for _ in range(2):
        assert await held(api, "f") == {"a": 0, "d": 6}
        assert await held(api, "f", at=2) == {"a": 0, "b": 1}
        assert await held(api, "f", at=1) == {"a": 0}
        assert await held(api, "s") == {"a": 2, "b": 3, "c": 4}
        await flushed(server)
        await server.restart()
        await api.delete("/sessions/s")
        await append(api, "s", row(2, "a"), row(3, "b"), row(4, "c"))
    server.data.joinpath("catalog.sqlite").unlink(missing_ok=True)
    await server.restart()
    assert await held(api, "f") == {"a": 0, "d": 6}


async def test_conditions_are_decided_together_with_the_append(api: httpx2.AsyncClient) -> None:
    url = "/sessions/s/events"

    async def sent(wanted: dict[str, object], *events: dict[str, object], **more: Any) -> httpx2.Response:
        return await api.post(url, json={"events": list(events), "if": wanted}, **more)

    assert (await sent({"exists": True}, row(0))).status_code == 412
    tested = await sent({"exists": False})
    assert tested.status_code == 204, "a test"
    assert "session-incarnation" not in tested.headers, "there is none"
    assert (await api.get("/sessions/s")).status_code == 404, "it creates nothing"
    assert (
        await sent({"exists": False, "slots": {"head": None}}, row(1, "head", id="one"))
    ).status_code == 204
    life = (await api.get("/sessions/s")).json()["incarnation"]
    held_by = {"slots": {"head": "one", "other": None}, "tail": at(1), "exists": True, "incarnation": life}
    assert (await sent(held_by)).status_code == 204
    wrongs: list[dict[str, object]] = [
        {"slots": {"head": None}},
        {"slots": {"head": "two"}},
        {"slots": {"head": "one", "other": "one"}},
        {"tail": at(0)},
        {"exists": False},
        {"incarnation": "0" * 12},
    ]
    for wrong in wrongs:
        answer = await sent(wrong, row(9))
        assert (answer.status_code, code(answer)) == (412, "precondition_failed"), wrong
        details = answer.json()["error"]["details"]
        assert (details["tail"], details["exists"], details["incarnation"]) == (at(1), True, life)
        asked = wrong.get("slots", {})
        assert isinstance(asked, dict)
        assert details["slots"] == {name: "one" if name == "head" else None for name in asked}
    assert len(await read(api, "s")) == 1
    answer = await sent(held_by, row(2, "head"), headers={"Prefer": "return=representation"})
    made = answer.json()["data"][0]["id"]
    assert (await sent({"slots": {"head": made}})).status_code == 204
    theirs = {
        "events": [{"type": "agent.message", "slot": "head", "content": []}],
        "if": {"slots": {"head": made}},
    }
    assert (await api.post(url, json=theirs, headers=THEIRS)).status_code == 200
    assert (await api.post(url, json=theirs, headers=THEIRS)).status_code == 412
    await api.post("/sessions/s/close")
    closed = await sent({"slots": {"head": None}}, row(3))
    assert (closed.status_code, code(closed)) == (409, "stream_closed"), "closed is told first"
    assert (await sent({"exists": True})).status_code == 409


async def test_a_condition_names_as_many_slots_as_it_may(api: httpx2.AsyncClient) -> None:
    slots = {f"s{n}": None for n in range(DEFAULT_LIMITS.condition_slots_max)}
    body = {"events": [{"type": "a"}], "if": {"slots": slots}}
    assert (await api.post("/sessions/s/events", json=body)).status_code == 204


@pytest.mark.parametrize(
    "wrong",
    [
        {"slot": {}},
        {"slots": {"a": 7}},
        {"slots": {"": None}},
        {"slots": {f"s{n}": None for n in range(DEFAULT_LIMITS.condition_slots_max + 1)}},
        {"tail": "7"},
        {"exists": "yes"},
        {"incarnation": "me"},
        [],
        None,
    ],
)
async def test_a_condition_that_is_not_understood_is_refused(api: httpx2.AsyncClient, wrong: object) -> None:
    for headers in ({}, THEIRS):
        answer = await api.post(
            "/sessions/s/events", json={"events": [{"type": "a"}], "if": wrong}, headers=headers
        )
        assert (answer.status_code, code(answer)) == (400, "invalid_event"), answer.text
    assert (await api.get("/sessions/s")).status_code == 404


async def test_a_repeat_is_answered_before_its_conditions(api: httpx2.AsyncClient) -> None:
    body = {"events": [row(1, "head")], "if": {"slots": {"head": None}}}
    for headers in (
        {"Idempotency-Key": "k"},
        {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"},
    ):
        url = f"/sessions/{next(iter(headers))}/events"
        for _ in range(2):
            assert (await api.post(url, json=body, headers=headers)).status_code in (200, 204)
        assert (await api.post(url, json=body)).status_code == 412
    answer = await api.post("/sessions/s/events", json={"events": [row(1, "h", id="x")]})
    repeated = {"events": [row(1, "h", id="x")], "if": {"slots": {"h": None}}}
    assert answer.status_code == 204
    again = await api.post("/sessions/s/events", json=repeated)
    assert (again.status_code, again.headers["events-repeated"]) == (204, "0")


async def test_what_is_said_of_a_session_counts_if_the_append_creates_it(api: httpx2.AsyncClient) -> None:
    said = {"title": "One", "metadata": {"adapter": "x", "n": 7}}
    body = {"events": [row(1)], "session": said}
    assert (await api.post("/sessions/s/events", json=body)).status_code == 204
    shown = (await api.get("/sessions/s")).json()
    assert (shown["title"], shown["metadata"]) == ("One", said["metadata"])
    body["session"] = {"title": "Two"}
    assert (await api.post("/sessions/s/events", json=body)).status_code == 204
    assert (await api.get("/sessions/s")).json()["title"] == "One"
    assert (await api.put("/sessions/s", json=said)).status_code == 200
    begun = await api.put("/sessions/s", json={"initial_events": [row(1)]})
    assert (begun.status_code, code(begun)) == (409, "session_exists")
    wrongs: list[object] = [{"id": "t"}, {"initial_events": []}, {"titel": "x"}, [], "x"]
    for wrong in wrongs:
        answer = await api.post("/sessions/t/events", json={"events": [row(1)], "session": wrong})
        assert answer.status_code == 400, wrong
    assert (await api.get("/sessions/t")).status_code == 404


GOAL = {"goal": "Mend it", "budget": {"tool_calls": 1}, "outcome": {"features": [{"id": "f1", "text": "t"}]}}


async def test_an_append_that_creates_a_session_says_what_it_is_for(api: httpx2.AsyncClient) -> None:
    """Budget, outcome and goal become the first events, as if the session had been created by itself."""
    await api.put("/sessions/alone", json=GOAL)
    call = {"type": "agent.tool_use", "name": "ls"}
    shown = {"Prefer": "return=representation", "Idempotency-Key": "k"}
    body = {"events": [call], "session": GOAL, "if": {"exists": False}}
    answers = [await api.post("/sessions/s/events", json=body, headers=shown) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    data = answers[0].json()["data"]
    assert ([one["type"] for one in data], data) == (["agent.tool_use"], answers[1].json()["data"])
    types = [one["type"] for one in (await api.get("/sessions/s/events")).json()["data"]]
    opening = ["ds.budget.set", "ds.outcome.defined", "ds.fact"]
    assert types == [*opening, "agent.tool_use", "ds.budget.tripped", "session.status_idle"]
    states = [(await api.get(f"/sessions/{name}/state?at=3")).json() for name in ("alone", "s")]
    for member in ("goal", "outcome", "budget"):
        assert _without_ids(states[0][member]) == _without_ids(states[1][member]), member
    refused = await api.post("/sessions/s/events", json={"events": [call], "session": GOAL})
    assert (refused.status_code, code(refused)) == (409, "budget_exceeded")
    assert (await api.put("/sessions/s", json=GOAL)).status_code == 200
    other = await api.put("/sessions/s", json={**GOAL, "goal": "Break it"})
    assert (other.status_code, code(other)) == (409, "session_exists")


async def test_what_a_new_session_is_for_counts_for_the_events_beside_it(api: httpx2.AsyncClient) -> None:
    """The events are decided behind the first ones: a limit that they raise is one that there is."""
    raised = {"type": "ds.budget.set", "tool_calls": 2}
    work = {"type": "agent.message"}
    body = {"events": [work, raised], "session": GOAL}
    refused = await api.post("/sessions/s/events", json=body)
    assert (refused.status_code, code(refused)) == (403, "not_independent")
    assert (await api.get("/sessions/s")).status_code == 404, "all or nothing"
    pair = {"tokens": 5, "type": "limit", "max_list_cost": {"amount": "2500", "currency": "USD"}}
    for budget in (pair, {"tokens": 0}, {"tokens": "5"}, {}):
        body = {"events": [work], "session": {"budget": budget}}
        assert (await api.post("/sessions/s/events", json=body)).status_code == 400, budget
        assert (await api.put("/sessions/s", json={"budget": budget})).status_code == 400, budget
    assert (await api.get("/sessions/s")).status_code == 404


def _without_ids(value: object) -> object:
    if isinstance(value, dict):
        return {
            name: _without_ids(one) for name, one in value.items() if name not in ("id", "used", "set_by")
        }
    return [_without_ids(one) for one in value] if isinstance(value, list) else value


async def test_if_none_match_lets_only_a_new_session_be(api: httpx2.AsyncClient) -> None:
    new = {"If-None-Match": "*"}
    assert (await api.post("/sessions/s/events", json=row(1), headers=new)).status_code == 204
    assert (await api.put("/sessions/t", headers=new)).status_code == 201
    for method, path, body in (
        ("POST", "s/events", row(1)),
        ("PUT", "s", None),
        ("PUT", "t", None),
        ("POST", "s", {"title": "x"}),
        ("DELETE", "s", None),
        ("POST", "s/archive", None),
        ("POST", "s/close", None),
        ("POST", "s/close", {"outcome": "completed"}),
    ):
        answer = await api.request(method, f"/sessions/{path}", json=body, headers=new)
        assert (answer.status_code, code(answer)) == (412, "precondition_failed"), (method, path)
        assert answer.json()["error"]["details"]["exists"] is True
    other = await api.post("/sessions/s/events", json=row(1), headers={"If-None-Match": '"x"'})
    assert (other.status_code, code(other)) == (400, "invalid_header")
    assert (await api.delete("/sessions/s", headers={"If-Match": "*"})).status_code == 200
    assert (await api.delete("/sessions/s", headers={"If-Match": "*"})).status_code == 404


async def test_a_refused_condition_tells_what_is_so(api: httpx2.AsyncClient) -> None:
    life = (await api.post("/sessions/s/events", json=row(1))).headers["session-incarnation"]
    elsewhere = {"If-Match": '"0000000000000000_0000000000000009"'}
    refused = await api.post("/sessions/none/events", json=row(1), headers=elsewhere)
    assert (refused.status_code, refused.json()["error"]["details"]["exists"]) == (412, False)
    told = {"error_code": "precondition_failed", "exists": True, "incarnation": life}
    told["tail"] = "0000000000000000_0000000000000001"
    for path, body in (("events", row(1)), ("wake", {}), ("archive", None), ("close", None)):
        refused = await api.post(f"/sessions/s/{path}", json=body, headers=elsewhere)
        assert (refused.status_code, refused.json()["error"]["details"]) == (412, told), path
    fork = {"Stream-Forked-From": "/v1/sessions/s?incarnation=aaaaaaaaaaaa"}
    refused = await api.put("/sessions/f", headers=fork)
    assert (refused.status_code, refused.json()["error"]["details"]) == (412, told), "of the source"


async def test_lists_by_what_is_held_and_what_is_shown(server: LocalServer, api: httpx2.AsyncClient) -> None:
    for number, name in enumerate("abcd"):
        await append(api, name, row(number, "head", f"own-{name}"))
    await append(api, "b", row(9, "head", slot_empty="keep"))
    for source in "ab":
        fork = {"Stream-Forked-From": f"/v1/sessions/{source}", "Stream-Fork-Offset": at(1)}
        await api.put(f"/sessions/{source}-fork", headers=fork)
    await api.put("/sessions/empty")

    async def listed(**asked: Any) -> list[dict[str, Any]]:
        answer = await api.get("/sessions", params=asked)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["data"]
        return found

    for _ in range(2):
        names = [one["id"] for one in await listed(holding="head", order="asc")]
        assert names == ["a", "c", "d", "a-fork", "b-fork"], "what forks inherit counts, too"
        assert [one["id"] for one in await listed(holding=["head", "own-b"])] == ["b-fork"]
        assert await listed(holding="none") == []
        shown = await listed(show=["head", "own-c"], order="asc")
        assert [one["slots"]["head"] and one["slots"]["head"]["n"] for one in shown] == [
            0,
            None,
            2,
            3,
            0,
            1,
            None,
        ]
        assert [one["id"] for one in shown if one["slots"]["own-c"]] == ["c"]
        first = await api.get("/sessions", params={"holding": "head", "limit": 2, "order": "asc"})
        page = await api.get(
            "/sessions",
            params={"holding": "head", "limit": 2, "page": first.json()["next_page"], "order": "asc"},
        )
        assert [one["id"] for one in page.json()["data"]] == ["d", "a-fork"]
        await flushed(server)
        await server.restart()
    many = [f"s{n}" for n in range(DEFAULT_LIMITS.slots_shown_max + 1)]
    assert (await api.get("/sessions", params={"show": many[:-1]})).status_code == 200
    for wrong in ({"holding": ""}, {"show": "a\n"}, {"show": many}):
        assert (await api.get("/sessions", params=wrong)).status_code == 400
    assert len(await listed(show=[f"s{n}" for n in range(10)])) == 7


async def test_pages_of_large_values_end_in_time(api: httpx2.AsyncClient) -> None:
    for number in range(10):
        await append(api, f"s{number}", row(number, "big", text="x" * 1_000_000))
        await append(api, "one", row(number, f"w/{number}", text="x" * 1_000_000))
    first = await slots(api, "one", prefix="w/")
    assert (len(first["data"]), first["next_after"]) == (8, "w/7")
    assert len((await slots(api, "one", prefix="w/", after="w/7"))["data"]) == 2
    page = (await api.get("/sessions", params={"show": "big", "holding": "big"})).json()
    assert len(page["data"]) == 8
    rest = (
        await api.get("/sessions", params={"show": "big", "holding": "big", "page": page["next_page"]})
    ).json()
    assert (len(rest["data"]), rest["next_page"]) == (2, None)
