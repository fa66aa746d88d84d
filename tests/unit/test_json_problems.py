"""What is said of JSON that is not what it should be."""

from typing import Annotated, Literal

import msgspec
import pytest

from durable_sessions.json_problems import problem


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class Body(msgspec.Struct):
    title: Annotated[str, msgspec.Meta(max_length=3)] | None = None
    count: Annotated[int, msgspec.Meta(ge=1)] = 1
    rate: float = 1.0
    is_on: bool = False
    many: list[Inner] = []
    order: Literal["asc", "desc"] = "asc"
    given: dict[str, str] = {}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"title":7}', "title is a whole number; send a text or null"),
        (b'{"title":"long"}', "title is of another length; send a text of length <= 3"),
        (b'{"count":"7"}', "count is a text; send a whole number"),
        (b'{"count":0}', "count is not usable; send a whole number >= 1"),
        (b'{"count":null}', "count is null; send a whole number"),
        (b'{"rate":"x"}', "rate is a text; send a number"),
        (b'{"is_on":1}', "is_on is a whole number; send true or false"),
        (b'{"many":{}}', "many is an object; send a list"),
        (b'{"many":[{}]}', "many[0].name is missing"),
        (b'{"many":[{"name":"x","nme":1}]}', "many[0].nme is not known here"),
        (b'{"order":"up"}', 'order is "up", which is not one of its values'),
        (b'{"given":{"a":1}}', "a value of given is a whole number; send a text"),
        (b"[]", "it is a list; send an object"),
        (b'{"rate":1e999}', "rate is out of range; send a smaller number"),
    ],
)
def test_problems_are_told_in_plain_words(body: bytes, said: str) -> None:
    with pytest.raises(msgspec.DecodeError) as raised:
        msgspec.json.decode(body, type=Body)
    assert problem(raised.value) == said


def test_what_nests_too_deeply_is_told() -> None:
    with pytest.raises(RecursionError) as raised:
        msgspec.json.decode(b"[" * 100_000)
    assert problem(raised.value) == "it nests too deeply"
