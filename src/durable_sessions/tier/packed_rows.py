"""Rows of the catalog as bytes, decoded a few at a time: neither making nor freeing them is one long step."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

import msgspec

from durable_sessions.streams.effects import Name, SlotChange

Row = TypeVar("Row")

_ROWS = 500
"""How many rows are encoded together."""
_encode = msgspec.msgpack.Encoder().encode


def pack(rows: Iterable[object]) -> list[bytes]:
    """Return rows as bytes, some in each."""
    left = iter(rows)
    return [_encode(some) for some in iter(lambda: list(islice(left, _ROWS)), [])]


class PackedRows(Generic[Row]):
    """The rows that were packed; they can be gone through any number of times."""

    def __init__(self, packed: list[bytes], decode: Callable[[bytes], list[Row]]) -> None:
        self._packed = packed
        self._decode = decode

    def __iter__(self) -> Iterator[Row]:
        for some in self._packed:
            yield from self._decode(some)


named = msgspec.msgpack.Decoder(list[tuple[int, Name]]).decode
"""Decodes names of records, each with its stream."""
slot_changes = msgspec.msgpack.Decoder(list[tuple[int, SlotChange]]).decode
"""Decodes what records did with slots, each with its stream."""
positions = msgspec.msgpack.Decoder(list[tuple[int, int]]).decode
"""Decodes positions of records, each after its stream."""
runs = msgspec.msgpack.Decoder(list[tuple[int, int, int]]).decode
"""Decodes consecutive records: a stream, the first position, and the one after the last."""
