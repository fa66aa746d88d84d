import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.errors import InvalidOffsetError
from durable_sessions.streams import offsets

positions = st.integers(0, 10**16 - 1)


@given(positions)
def test_round_trip(position: int) -> None:
    assert offsets.decode(offsets.encode(position)) == position


@given(positions, positions)
def test_offsets_sort_as_their_positions(one: int, other: int) -> None:
    assert (offsets.encode(one) < offsets.encode(other)) == (one < other)


def test_an_offset_of_another_epoch_lies_beyond_every_position() -> None:
    assert offsets.decode("9999999999999999_9999999999999999") > 10**16 - 1


@pytest.mark.parametrize(
    "offset",
    [
        "",
        "0",
        "-1",
        "now",
        " 0000000000000000_0000000000000000",
        "0000000000000000_0000000000000000\n",
        "0000000000000000_000000000000000",
        "0000000000000000_00000000000000000",
        "0000000000000000-0000000000000000",
        "0000000000000000_000000000000000a",
        "٠000000000000000_0000000000000000",
        "0000000000000000_0000000000000000,1",
    ],
)
def test_what_we_never_minted_is_refused(offset: str) -> None:
    with pytest.raises(InvalidOffsetError):
        offsets.decode(offset)
