"""Odd JSON is taken as far as it goes, and never goes over the rest."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from durable_sessions import lenient

ANY = msgspec.json.Decoder()

_exponents = st.one_of(st.integers(-400, 400), st.integers(-(10**20), 10**20))
_numbers = st.one_of(
    st.integers(0, 4400).map(lambda count: "1" + "0" * count),
    st.builds(lambda digits, exponent: f"-{digits}e{exponent}", st.integers(0, 10**30), _exponents),
    st.builds(lambda count, exponent: f"{'7' * count}.5E{exponent:+d}", st.integers(1, 400), _exponents),
    st.integers(-(2**80), 2**80).map(str),
)
_texts = st.text().map(json.dumps)
_scalars = st.one_of(_numbers, _texts, st.sampled_from(["true", "null", r'"\ud800"', r'"\\" ', '"1e999"']))
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner).map(lambda values: f"[{' , '.join(values)}]"),
        st.lists(st.tuples(_texts, inner), unique_by=lambda pair: json.loads(pair[0])).map(
            lambda pairs: "{" + ",".join(f"{key}: {value}" for key, value in pairs) + "}"
        ),
    ),
    max_leaves=20,
)


def _expected(value: str) -> Any:
    """Return what the standard library makes of a value, with null for a number out of range."""

    def whole(digits: str) -> int | None:
        return int(digits) if len(digits) <= 4300 else None

    def fraction(digits: str) -> float | None:
        return None if float(digits) in (float("inf"), float("-inf")) else float(digits)

    def paired(loaded: Any) -> Any:
        match loaded:
            case str():
                return loaded.replace("\ud800", "\0")
            case list():
                return [paired(item) for item in loaded]
            case dict():
                return {paired(key): paired(item) for key, item in loaded.items()}
            case _:
                return loaded

    return paired(json.loads(value, parse_int=whole, parse_float=fraction))


@given(_values)
@example(r'{"\ud800\udc00": ["\ud800", 1e999]}')
def test_numbers_out_of_range_are_null_and_the_rest_is_as_it_was(value: str) -> None:
    assert lenient.decode(ANY, value.encode()) == _expected(value)


@given(_values)
def test_what_is_loaded_is_encoded_as_it_came(value: str) -> None:
    if "ud800" in value:
        return
    again = msgspec.json.encode(lenient.loads(value))
    kept = json.JSONDecoder(parse_int=str, parse_float=_exactly)
    assert kept.decode(again.decode()) == kept.decode(value)


def _exactly(digits: str) -> object:
    return digits if float(digits) in (float("inf"), float("-inf")) else float(digits)


@pytest.mark.parametrize(
    ("raw", "count"),
    [
        (b"0", 0),
        (b"7", 7),
        (b"%d" % lenient.COUNT_MAX, lenient.COUNT_MAX),
        (b"%d" % (lenient.COUNT_MAX + 1), 0),
        (b"-1", 0),
        (b"1.0", 0),
        (b"1e3", 0),
        (b"1e999", 0),
        (b"9" * 5000, 0),
        (b'"7"', 0),
        (b"true", 0),
        (b"null", 0),
        (b"{}", 0),
    ],
)
def test_counts(raw: bytes, count: int) -> None:
    assert lenient.count(msgspec.Raw(raw)) == count


def test_texts() -> None:
    assert lenient.text(msgspec.Raw(b'"a"')) == "a"
    assert lenient.text(msgspec.Raw(rb'"\ud800"')) == "\0"
    for other in (b"1", b"1e999", b"null", b"[]", b"{}"):
        assert lenient.text(msgspec.Raw(other)) is None
    assert lenient.text(None) is None


def test_what_is_wrong_otherwise_stays_wrong() -> None:
    with pytest.raises(msgspec.ValidationError, match="str"):
        lenient.decode(msgspec.json.Decoder(dict[str, str]), b'{"a": 1, "b": 1e999}')
    with pytest.raises(msgspec.DecodeError):
        lenient.decode(ANY, b'{"a": 1e999')
