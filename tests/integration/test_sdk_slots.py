"""Slots and conditions from Python and from the command line."""

import pytest

from durable_sessions import AsyncClient, Client
from durable_sessions.client import errors
from durable_sessions.testing import BackgroundServer, LocalServer
from tests.support.commands import Commands


def test_slots_are_read_by_name_and_by_prefix_as_of_one_moment(sdk: Client) -> None:
    session = sdk.session("s")
    session.append([{"type": "row", "n": number, "slot": ["head", f"w/{number}"]} for number in range(5)])
    head = session.slot("head")
    assert head is not None
    assert head["n"] == 4
    assert session.slot("none") is None
    before = session.slot("head", at=2)
    assert before is not None
    assert before["n"] == 1
    assert [held.name for held in session.slots(["w/3", "head", "none"])] == ["w/3", "head"]
    assert [held.event["n"] for held in session.slots(prefix="w/", order="desc", limit=2)] == [4, 3]
    assert len(list(session.slots())) == 6
    sdk.session("other").append({"type": "row"})
    found = list(sdk.sessions.list(holding="head", show="head"))
    assert [(info.id, info.raw["slots"]["head"]["n"]) for info in found] == [("s", 4)]
    with pytest.raises(ValueError, match="at most 200"):
        session.slots([str(number) for number in range(201)])


def test_an_append_can_have_conditions_and_say_what_its_session_is(sdk: Client) -> None:
    session = sdk.session("s")
    assert session.holds({"exists": False})
    session.append({"type": "row", "slot": "head"}, if_={"slots": {"head": None}}, session={"title": "Rows"})
    assert session.info().title == "Rows"
    head = session.slot("head")
    assert head is not None
    with pytest.raises(errors.PreconditionFailedError) as refused:
        session.append({"type": "row", "slot": "head"}, if_={"slots": {"head": None}})
    assert refused.value.details["slots"] == {"head": head.id}
    assert not session.holds({"slots": {"head": None}})
    assert session.holds({"slots": {"head": head.id}, "exists": True})
    session.append({"type": "row", "slot": "head"}, if_={"slots": {"head": head.id}})
    assert session.info().event_count == 2


def test_the_command_shows_who_holds_what(sdk: Client, running: BackgroundServer) -> None:
    sdk.session("s").append([{"type": "row", "slot": "head"}, {"type": "row", "slot": ["w/1", "w/2"]}])
    ds = Commands(running.url)
    said = ds.run("slots", "s").stdout.splitlines()
    assert [line.split()[:3] for line in said[1:]] == [
        ["head", "0", "row"],
        ["w/1", "1", "row"],
        ["w/2", "1", "row"],
    ]
    told = ds.lines("slots", "s", "head", "--prefix", "w/", "--desc", "--json")
    assert [one["slot"] for one in told] == ["head", "w/2", "w/1"]
    assert "No event of s holds the slot none" in ds.run("slots", "s", "none", status=3).stderr
    assert "no event holds" in ds.run("slots", "s", "--prefix", "none").output


@pytest.mark.anyio
async def test_the_async_client_does_the_same(server: LocalServer) -> None:
    async with AsyncClient(server.url) as client:
        session = client.session("s")
        await session.append(
            {"type": "row", "slot": "head"}, if_={"exists": False}, session={"title": "Rows"}
        )
        head = await session.slot("head")
        assert head is not None
        assert [held.event.id async for held in session.slots(prefix="h")] == [head.id]
        assert await session.holds({"slots": {"head": head.id}})
        assert not await session.holds({"slots": {"head": None}})
        assert [info.title async for info in client.sessions.list(holding="head")] == ["Rows"]
