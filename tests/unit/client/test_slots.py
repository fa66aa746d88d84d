"""Reading slots page by page: all pages are as of the moment of the first."""

import pytest

from durable_sessions.client.slots import SLOTS_PER_PAGE, slots
from tests.unit.client.shells import Shell
from tests.unit.client.stub import Stub, said

pytestmark = pytest.mark.anyio

FIRST = "0000000000000000_0000000000000009"
LATER = "0000000000000000_0000000000000012"


def page(*names: str, after: str | None = None, offset: str = FIRST) -> object:
    data = [{"slot": name, "event": {"id": f"of-{name}", "type": "t"}} for name in names]
    return said(200, {"data": data, "next_after": after, "next_offset": offset})


async def read(shell: Shell, stub: Stub, **asked: object) -> list[tuple[str, str]]:
    client = shell.client(stub)
    found = await shell.all(lambda: client.session("s").slots(**asked))
    await shell.run(client.close)
    return [(one.name, one.event.id) for one in found]


async def test_later_pages_are_as_of_the_first_even_if_the_session_has_grown(shell: Shell) -> None:
    stub = Stub(page("a", "b", after="b"), page("c", after="c", offset=LATER), page(offset=LATER))  # type: ignore[arg-type]
    assert await read(shell, stub, prefix="", order="desc") == [("a", "of-a"), ("b", "of-b"), ("c", "of-c")]
    asked = [dict(request.url.params) for request in stub.requests]
    assert asked[0] == {"prefix": "", "order": "desc", "limit": str(SLOTS_PER_PAGE)}
    assert [one.get("at") for one in asked] == [None, FIRST, FIRST]
    assert [one.get("after") for one in asked] == [None, "b", "c"]


async def test_a_moment_that_was_asked_for_stays(shell: Shell) -> None:
    stub = Stub(page("a", after="a"), page())  # type: ignore[arg-type]
    await read(shell, stub, names="a", at=4)
    moments = [request.url.params.get_list("at") for request in stub.requests]
    assert moments == [["0000000000000000_0000000000000004"]] * 2


async def test_no_more_than_the_limit_is_asked_for_and_returned(shell: Shell) -> None:
    stub = Stub(page("a", "b", after="b"), page("c", "d", after="d"))  # type: ignore[arg-type]
    assert [name for name, _ in await read(shell, stub, limit=3)] == ["a", "b", "c"]
    assert [request.url.params["limit"] for request in stub.requests] == ["3", "1"]


def test_names_are_asked_for_in_their_order_and_in_bounded_number() -> None:
    names = [f"n{number}" for number in range(200)]
    parameters = slots("s", names).call().parameters
    assert [value for name, value in parameters if name == "slot"] == names
    with pytest.raises(ValueError, match="at most 200"):
        slots("s", [*names, "one more"])
