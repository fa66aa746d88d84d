"""Walking through pages, and searching: what is asked, and what is made of the answers."""

from datetime import UTC, datetime
from typing import Any

import pytest

from durable_sessions.client import errors
from tests.unit.client.stub import LOST, Stub, said
from tests.unit.client.test_retry import SESSION

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def page(*numbers: int, next_page: str | None = None) -> Any:
    return said(200, {"data": [{"n": number} for number in numbers], "next_page": next_page})


def asked(stub: Stub, index: int = 0) -> list[tuple[str, str]]:
    return list(stub.requests[index].url.params.multi_items())


def test_all_pages_are_followed_also_empty_ones() -> None:
    stub = Stub(page(0, 1, next_page="p1"), page(next_page="p2"), LOST, page(2))
    events = stub.client().session("s").events(types=["a", "b.*"], after=WHEN, order="desc")
    assert not stub.requests, "nothing is read before it is wanted"
    assert [event["n"] for event in events] == [0, 1, 2]
    first = asked(stub)
    assert ("order", "desc") in first
    assert ("types[]", "a") in first
    assert ("types[]", "b.*") in first
    assert ("after", "2026-01-01T00:00:00.000Z") in first
    assert asked(stub, 1) == [*first, ("page", "p1")]
    assert asked(stub, 2) == asked(stub, 3) == [*first, ("page", "p2")]


def test_a_limit_is_for_all_pages_together() -> None:
    stub = Stub(page(*range(1000), next_page="p"), page(*range(1000, 1500), next_page="q"))
    assert len(list(stub.client().session("s").events(limit=1_500))) == 1_500
    assert [dict(asked(stub, index))["limit"] for index in (0, 1)] == ["1000", "500"]
    assert list(stub.client().session("s").events(limit=0)) == []
    assert len(stub.requests) == 2
    with pytest.raises(ValueError, match="limit"):
        stub.client().session("s").events(limit=-1)


def test_the_last_events_stay_the_last_while_others_arrive() -> None:
    stub = Stub(page(5, 6, next_page="p"), page(7, 8, 9))
    assert [event["n"] for event in stub.client().session("s").events(tail=3)] == [5, 6, 7]


def test_pairs_are_not_parted_by_a_limit() -> None:
    stub = Stub(page(1, 2, 3, next_page="p"))
    assert len(list(stub.client().session("s").events(limit=2, pairs="keep"))) == 3


def test_positions_are_offsets() -> None:
    stub = Stub(page())
    list(stub.client().session("ä/b").events(offset=7))
    for name in ("", ".", "..", ".x"):
        with pytest.raises(ValueError, match="id"):
            stub.client().session(name).info()
        with pytest.raises(ValueError, match=r"id|SHA-256"):
            stub.client().artifacts.exists(name)
    with pytest.raises(ValueError, match="is no id"):
        stub.client().session("s").event("..")
    assert dict(asked(stub))["offset"] == "0000000000000000_0000000000000007"
    assert stub.requests[0].url.raw_path.startswith(b"/v1/sessions/%C3%A4%2Fb/events?")


def test_lists_of_sessions() -> None:
    stub = Stub(said(200, {"data": [SESSION], "next_page": None}))
    found = stub.client().sessions.list(
        q="x", metadata={"k": "v"}, lifecycle=["open", "active"], statuses="idle", include_archived=True
    )
    assert [one.id for one in found] == ["s"]
    for parameter in (
        ("metadata[k]", "v"),
        ("lifecycle", "open"),
        ("lifecycle", "active"),
        ("statuses[]", "idle"),
    ):
        assert parameter in asked(stub)


def test_an_answer_of_another_shape_is_noticed() -> None:
    for shape in ({}, {"data": None}, {"data": [{"id": 1}]}):
        with pytest.raises(errors.UnexpectedAnswerError):
            list(Stub(said(200, shape)).client().sessions.list())


HIT = {"id": "e1", "type": "note", "search": {"score": 1.5, "snippet": "a <b>", "highlights": ["b"]}}
GROUPS = {
    "data": [{"session": SESSION, "hits": [HIT]}],
    "total_hits": 7,
    "total_sessions": 1,
    "indexed_through": "x",
    "up_to_date": True,
    "next_page": "p",
}


def test_searching_everywhere() -> None:
    stub = Stub(said(200, GROUPS))
    found = stub.client().search(
        '+"a b" -c', session="s", role="tool", agent="a", metadata={"k": "v"}, types="agent.*", after=WHEN
    )
    assert (found.total_hits, found.total_sessions, found.indexed_through) == (7, 1, "x")
    assert found.up_to_date
    assert found.next_page == "p"
    (group,) = found.groups
    assert group.session.id == "s"
    (hit,) = group.hits
    assert (hit.event.id, hit.score, hit.snippet, hit.highlights) == ("e1", 1.5, "a <b>", ["b"])
    assert "search" not in hit.event
    assert stub.requests[0].url.path == "/v1/search"
    assert dict(asked(stub)) == {
        "q": '+"a b" -c',
        "limit": "20",
        "session": "s",
        "role": "tool",
        "agent": "a",
        "metadata[k]": "v",
        "hits": "3",
        "types[]": "agent.*",
        "after": "2026-01-01T00:00:00.000Z",
    }


def test_searching_one_session() -> None:
    stub = Stub(said(200, {"data": [HIT], "next_page": None, "indexed_through": "x", "up_to_date": False}))
    found = stub.client().session("s").search("b", limit=3, order="desc", before=WHEN)
    assert [hit.event.id for hit in found.hits] == ["e1"]
    assert not found.up_to_date
    assert stub.requests[0].url.path == "/v1/sessions/s/events"
    assert dict(asked(stub)) == {
        "q": "b",
        "limit": "3",
        "order": "desc",
        "before": "2026-01-01T00:00:00.000Z",
    }


@pytest.mark.anyio
async def test_the_async_client_does_the_same() -> None:
    stub = Stub(page(0, 1, next_page="p1"), LOST, page(2))
    async with stub.async_client() as client:
        assert [event["n"] async for event in client.session("s").events()] == [0, 1, 2]
    async with Stub(said(200, GROUPS)).async_client() as client:
        assert (await client.search("x")).groups[0].hits[0].event.id == "e1"
