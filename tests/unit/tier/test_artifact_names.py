"""Which digests a text and an append have."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.bucket.records import AppendRun
from durable_sessions.tier.artifact_names import digests_in, names_in

DIGEST = hashlib.sha256(b"").hexdigest().encode()
HEX = b"0123456789abcdef"


def digests(text: bytes) -> list[bytes]:
    return [digest for _, digest in digests_in(text)]


def test_a_digest_is_64_hex_digits_and_nothing_longer_or_shorter() -> None:
    assert digests(b'"' + DIGEST + b'"') == [DIGEST]
    assert digests(DIGEST) == [DIGEST]
    assert digests(DIGEST.upper()) == [DIGEST]
    assert digests(DIGEST[1:]) == []
    assert digests(b"0" + DIGEST) == []
    assert digests(b"sha256:" + DIGEST + b",x" + DIGEST + b"g") == [DIGEST, DIGEST]
    escaped = b"".join(b"\\u%04X" % digit for digit in DIGEST[:3]) + DIGEST[3:]
    assert digests(b'{"a":"' + escaped + b'"}') == [DIGEST]


PIECES = st.lists(
    st.one_of(
        st.just(DIGEST),
        st.binary(min_size=32, max_size=32).map(lambda raw: raw.hex().encode()),
        st.text(alphabet="0123456789abcdefg \\u", max_size=200).map(str.encode),
        st.just(b"x" * 300_000),
        st.just(b"\\u0061"),
    ),
    max_size=4,
).map(b" ".join)


@given(st.lists(PIECES, min_size=1, max_size=6), st.integers(0, 10**9))
def test_an_append_names_what_its_records_name_each_at_its_position(values: list[bytes], first: int) -> None:
    records = [value + b"," for value in values]
    run = AppendRun(first, 0, tuple(map(len, records)), b"".join(records))
    expected = {
        (int(digest[:16], 16) - 2**63, first + at)
        for at, record in enumerate(records)
        for digest in digests(record)
    }
    assert set(names_in(run)) == expected


def test_an_append_of_bytes_is_one_record() -> None:
    run = AppendRun(7, 0, (), b"x " + DIGEST + b" y")
    assert [position for _, position in names_in(run)] == [7]
