"""What is said of JSON that is not what it should be."""

from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from durable_sessions.json_problems import path, problem
from durable_sessions.json_wanted import as_words

LETTERS = as_words("letters from a to z")


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class Body(msgspec.Struct):
    title: Annotated[str, Meta(max_length=3)] | None = None
    count: Annotated[int, Meta(ge=1)] = 1
    rate: float = 1.0
    is_on: bool = False
    many: list[Inner] = []
    order: Literal["asc", "desc"] = "asc"
    given: dict[str, str] = {}
    name: Annotated[str, Meta(min_length=1, max_length=9)] = "x"
    word: Annotated[str, Meta(pattern="^[a-z]*$", extra=LETTERS)] = "x"
    limit: Annotated[int, Meta(gt=0)] | Annotated[float, Meta(gt=0)] | None = None
    share: Annotated[float, Meta(ge=0, le=1)] = 0
    few: Annotated[list[Annotated[int, Meta(ge=0, le=7)]], Meta(min_length=1, max_length=2)] = []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"title":7}', "title is a whole number; send a text or null"),
        (b'{"title":"long"}', "title is too long; send a text of at most 3 characters"),
        (b'{"name":""}', "name is empty; send a text of 1 to 9 characters"),
        (b'{"word":"a b"}', "word is not usable; send letters from a to z"),
        (b'{"limit":-1}', "limit is too small; send a number above 0"),
        (b'{"limit":-0.5}', "limit is too small; send a number above 0"),
        (b'{"limit":"x"}', "limit is a text; send a number or null"),
        (b'{"share":2}', "share is too large; send a number from 0 to 1"),
        (b'{"few":[]}', "few is empty; send a list of 1 to 2 entries"),
        (b'{"few":[1,2,3]}', "few is too long; send a list of 1 to 2 entries"),
        (b'{"few":[-5]}', "few[0] is too small; send a whole number from 0 to 7"),
        (b'{"count":"7"}', "count is a text; send a whole number"),
        (b'{"count":0}', "count is too small; send a whole number from 1"),
        (b'{"count":null}', "count is null; send a whole number"),
        (b'{"rate":"x"}', "rate is a text; send a number"),
        (b'{"is_on":1}', "is_on is a whole number; send true or false"),
        (b'{"many":{}}', "many is an object; send a list"),
        (b'{"many":[{}]}', "many[0].name is missing"),
        (b'{"many":[{"name":"x","nme":1}]}', "many[0].nme is not known here"),
        (b'{"order":"up"}', 'order is "up", which is not one of its values; send asc or desc'),
        (b'{"given":{"a":1}}', "a value of given is a whole number; send a text"),
        (b"[]", "it is a list; send an object"),
        (b'{"rate":1e999}', "rate is out of range; send a smaller number"),
    ],
)
def test_problems_are_told_in_plain_words(body: bytes, said: str) -> None:
    with pytest.raises(msgspec.DecodeError) as raised:
        msgspec.json.decode(body, type=Body)
    assert problem(raised.value, Body) == said


def test_what_nests_too_deeply_is_told() -> None:
    with pytest.raises(RecursionError) as raised:
        msgspec.json.decode(b"[" * 100_000)
    assert problem(raised.value) == "it nests too deeply"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"many":[{"name":"a"},{"name":1}]}', "many[1].name"),
        (b'{"many":[{}]}', "many[0].name"),
        (b'{"many":[{"name":"a","odd":1}]}', "many[0].odd"),
        (b'{"given":{"a":1}}', "given"),
        (b'{"title":"long"}', "title"),
    ],
)
def test_the_place_is_a_path(body: bytes, expected: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(body, type=Body)
    assert path(caught.value) == expected
