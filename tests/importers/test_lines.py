"""Tolerant reading: whatever a crash, an editor or an attacker did to a file of JSON lines."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.importers.lines import NESTING_MAX, LineReader, SourceRecord


def read(data: bytes, *, ending: bool = False, line_bytes_max: int = 1 << 20) -> list[SourceRecord]:
    return list(LineReader(line_bytes_max).read(io.BytesIO(data), ending=ending))


def values(records: list[SourceRecord]) -> list[Any]:
    return [record.value for record in records]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
objects = st.dictionaries(
    texts, st.one_of(texts, st.integers(-(2**60), 2**60), st.none(), st.booleans()), max_size=4
)
endings = st.sampled_from([b"\n", b"\r\n", b"\0\0\n", b" \n", b"\n\n", b"\n\0\0\0\n"])


@given(st.lists(st.tuples(objects, endings)), st.booleans())
def test_padding_is_not_content(lines: list[tuple[dict[str, Any], bytes]], mark: bool) -> None:
    data = b"".join(json.dumps(value).encode() + ending for value, ending in lines)
    assert values(read((b"\xef\xbb\xbf" if mark else b"") + data)) == [value for value, _ in lines]


@given(st.lists(objects, min_size=2, max_size=5))
def test_objects_on_one_line(several: list[dict[str, Any]]) -> None:
    records = read(b"".join(json.dumps(value).encode() for value in several) + b"\n")
    assert values(records) == several
    assert len({record.place for record in records}) == len(several)


@given(st.lists(objects, min_size=1, max_size=6), st.data())
def test_read_in_any_pieces(several: list[dict[str, Any]], data: st.DataObject) -> None:
    """However a file grows between reads, every object is read once, with the same place."""
    whole = b"".join(json.dumps(value).encode() + b"\n" for value in several)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    reader = LineReader()
    pieces = [record for end in [*cuts, len(whole)] for record in reader.read(io.BytesIO(whole[:end]))]
    assert [(one.place, one.value) for one in pieces] == [(one.place, one.value) for one in read(whole)]


@given(st.binary(max_size=200))
def test_anything_is_read_without_loss(data: bytes) -> None:
    """Bytes are never an error: they are objects, or records that keep them."""
    for record in read(data, ending=True):
        if record.damage:
            assert record.remains()


@given(objects, st.integers(0, 5))
def test_last_line_waits(value: dict[str, Any], missing: int) -> None:
    line = json.dumps(value).encode()
    cut = line[: len(line) - missing]
    assert read(b'{"a":1}\n' + cut) == read(b'{"a":1}\n')
    complete = read(b'{"a":1}\n' + cut, ending=True)
    assert values(complete) == ([{"a": 1}, value] if missing == 0 else [{"a": 1}])


def test_lone_surrogates_are_replaced_and_kept() -> None:
    (record,) = read(b'{"a":"\\ud800x"}\n')
    assert record.value == {"a": "���x"} or record.value["a"].endswith("x")
    assert record.repaired == '{"a":"\\ud800x"}'


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none(number: str) -> None:
    (record,) = read(f'{{"a":{number}}}\n'.encode())
    assert record.damage == "not JSON"
    assert record.remains() == {"source_text": f'{{"a":{number}}}'}


def test_bytes_that_are_no_text() -> None:
    (record,) = read(b'{"a":"\xff"}\n')
    assert record.damage == "not UTF-8"
    assert record.remains() == {"source_base64": "eyJhIjoi/yJ9"}


def test_nesting_at_the_limit_and_beyond() -> None:
    deep = b"[" * NESTING_MAX + b"]" * NESTING_MAX
    assert read(deep + b"\n")[0].damage is None
    assert read(b"[" + deep + b"]\n")[0].damage == "nested too deeply"
    assert read(b'{"a":"' + b"[" * 500 + b'"}\n')[0].damage is None


def test_line_at_the_limit_and_beyond() -> None:
    line = json.dumps({"a": "x" * 80}).encode()
    assert read(line + b'\n{"b":1}\n', line_bytes_max=len(line))[0].damage is None
    long, after = read(line * 30_000 + b'\n{"b":1}\n', line_bytes_max=len(line))
    assert long.damage == "line too long"
    assert json.loads(long.remains()["source_text"])["bytes"] == len(line) * 30_000
    assert (after.value, after.line) == ({"b": 1}, 2)
