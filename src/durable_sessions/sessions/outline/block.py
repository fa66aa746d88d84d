"""A block of an outline: columns with one entry for each of up to 4,096 events, and how it is made."""

import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import NamedTuple

import msgspec

from durable_sessions.sessions.outline.facts import (
    FAILED,
    HAS_RESULT,
    INHERITED,
    RESULT,
    TOOL,
    Facts,
    OutlinedRequest,
    facts_of,
)

BLOCK_EVENTS = 4_096
LATE_PAIRS_MAX = 4_096
"""How many results of calls in earlier blocks a block remembers."""
MAGIC = b"DSO1"
_HEAD = Struct("<4sIIId")
_U16_MAX, _U32_MAX = 2**16 - 1, 2**32 - 1
COLUMNS = {
    "bytes": "I",
    "pair": "i",
    "at": "I",
    "key": "I",
    "name": "H",
    "characters": "H",
    "thread": "H",
    "role": "B",
    "flags": "B",
}
"""The columns in the order of the wire, with the types of their entries: 24 bytes for an event."""
FindCall = Callable[[str], int | None]
"""Returns the position of the event with an id, before the block; None if there is none."""


class LatePair(NamedTuple):
    """A result whose call is in an earlier block: both positions, and whether the result is a failure."""

    call: int
    result: int
    failed: bool


class EventBlock(msgspec.Struct):
    """The outline of the events from ``first`` on; ``names`` and ``threads`` are those that occur in it.

    In the columns both are numbered from 1; 0 is no name, and the primary thread.
    """

    first: int
    t0: int
    columns: dict[str, array]  # type: ignore[type-arg]  # of the types in COLUMNS
    names: list[str]
    threads: list[str]
    requests: list[OutlinedRequest]
    late: list[LatePair] = []

    @property
    def count(self) -> int:
        """How many events it has."""
        return len(self.columns["role"])


class _Stored(msgspec.Struct, array_like=True):
    """A block as it is stored: the columns as little-endian bytes."""

    first: int
    t0: int
    columns: list[bytes]
    names: list[str]
    threads: list[str]
    requests: list[OutlinedRequest]
    late: list[tuple[int, int, bool]]


class BlockFold:
    """Makes a block of events, one after the other; it needs no other block."""

    def __init__(self, first: int, find_call: FindCall) -> None:
        self._first = first
        self._find_call = find_call
        self._columns = {name: array(kind) for name, kind in COLUMNS.items()}
        self._times: list[int | None] = []
        self._ids: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._threads: dict[str, int] = {}
        self._requests: list[OutlinedRequest] = []
        self._late: list[LatePair] = []

    def add(self, stored: bytes) -> None:
        """Add the next event as it is stored."""
        columns = self._columns
        index = len(self._times)
        facts = facts_of(stored, index)
        self._times.append(facts.at_ms)
        if facts.id:
            self._ids.setdefault(facts.id, index)
        columns["bytes"].append(min(len(stored), _U32_MAX))
        columns["key"].append(facts.key)
        columns["characters"].append(min(facts.characters, _U16_MAX))
        columns["role"].append(facts.role)
        columns["flags"].append(facts.flags)
        columns["name"].append(_numbered(self._names, facts.name))
        columns["thread"].append(_numbered(self._threads, facts.thread))
        columns["pair"].append(0 if facts.call is None else self._pair(facts, index))
        if facts.request is not None:
            self._requests.append(facts.request)

    def _pair(self, facts: Facts, index: int) -> int:
        """Return how far away the call of a result is, and let the call know; 0 if there is none."""
        assert facts.call is not None
        call = self._ids.get(facts.call)
        if call is not None:
            if call != index:
                join(self._columns, call, index - call, failed=bool(facts.flags & FAILED))
            return call - index
        position = self._find_call(facts.call)
        if position is None or len(self._late) == LATE_PAIRS_MAX:
            return 0
        here = self._first + index
        self._late.append(LatePair(position, here, bool(facts.flags & FAILED)))
        return position - here

    def finish(self) -> EventBlock:
        """Return the block of all events that were added."""
        known = [at_ms for at_ms in self._times if at_ms is not None]
        t0 = min(known, default=0)
        # An event of which nobody knows when it happened is put beside the one before it.
        last = known[0] if known else t0
        for at_ms in self._times:
            last = last if at_ms is None else at_ms
            self._columns["at"].append(min(last - t0, _U32_MAX))
        return EventBlock(
            self._first,
            t0,
            self._columns,
            list(self._names),
            list(self._threads),
            self._requests,
            self._late,
        )


def join(columns: dict[str, array], call: int, distance: int, *, failed: bool) -> None:  # type: ignore[type-arg]
    """Tell a call of its result, unless it has one already or is none."""
    if columns["role"][call] == TOOL and columns["pair"][call] == 0:
        columns["pair"][call] = distance
        columns["flags"][call] |= HAS_RESULT | (FAILED if failed else 0)


def _numbered(known: dict[str, int], text: str) -> int:
    if not text:
        return 0
    if len(known) >= _U16_MAX and text not in known:
        return 0
    return known.setdefault(text, len(known) + 1)


def folded(first: int, events: Iterable[bytes], find_call: FindCall) -> EventBlock:
    """Return the block of some events."""
    fold = BlockFold(first, find_call)
    for stored in events:
        fold.add(stored)
    return fold.finish()


def merged(block: EventBlock, late: Iterable[LatePair], base: int) -> EventBlock:
    """Return a block with the results in later blocks, and with what is before ``base`` as inherited."""
    columns = {name: array(kind, block.columns[name]) for name, kind in COLUMNS.items()}
    for pair in late:
        join(columns, pair.call - block.first, pair.result - pair.call, failed=pair.failed)
    flags = columns["flags"]
    for index in range(min(block.count, max(0, base - block.first))):
        flags[index] |= INHERITED
    return msgspec.structs.replace(block, columns=columns)


def renumbered(block: EventBlock, names: Sequence[int], threads: Sequence[int]) -> EventBlock:
    """Return a block whose names and threads have the numbers that they have in the tables of the session."""
    columns = dict(block.columns)
    for column, numbers in (("name", names), ("thread", threads)):
        mapping = (0, *numbers)
        columns[column] = array("H", [mapping[number] for number in block.columns[column]])
    return msgspec.structs.replace(block, columns=columns)


def is_row(role: int, flags: int, pair: int, quiet: int) -> bool:
    """Say whether an event is a row for a reader: not quiet, and no result that its call has taken in."""
    return not flags & quiet and not (role == RESULT and pair)


def encode(block: EventBlock) -> bytes:
    """Return a block as it is stored."""
    return msgspec.msgpack.encode(
        _Stored(
            block.first,
            block.t0,
            [_little(block.columns[name]) for name in COLUMNS],
            block.names,
            block.threads,
            block.requests,
            [(pair.call, pair.result, pair.failed) for pair in block.late],
        )
    )


_decode = msgspec.msgpack.Decoder(_Stored).decode


def decode(data: bytes) -> EventBlock:
    """Return the block that :func:`encode` was given."""
    stored = _decode(data)
    columns = {}
    for (name, kind), written in zip(COLUMNS.items(), stored.columns, strict=True):
        columns[name] = array(kind)
        columns[name].frombytes(written)
        if sys.byteorder == "big":
            columns[name].byteswap()
    late = [LatePair(*pair) for pair in stored.late]
    return EventBlock(stored.first, stored.t0, columns, stored.names, stored.threads, stored.requests, late)


def to_binary(block: EventBlock) -> bytes:
    """Return a block as it is sent: ``DSO1``, columns, little-endian, then the requests as JSON."""
    tail = msgspec.json.encode(block.requests)
    head = _HEAD.pack(MAGIC, block.first, block.count, len(tail), float(block.t0))
    return b"".join((head, *(_little(block.columns[name]) for name in COLUMNS), tail))


def to_json(block: EventBlock) -> bytes:
    """Return a block as it is sent in JSON."""
    return msgspec.json.encode(
        {
            "from": block.first,
            "count": block.count,
            "t0": block.t0,
            "columns": {name: block.columns[name].tolist() for name in COLUMNS},
            "requests": block.requests,
        }
    )


def _little(column: "array[int]") -> bytes:
    if sys.byteorder == "little":
        return column.tobytes()
    swapped = array(column.typecode, column)
    swapped.byteswap()
    return swapped.tobytes()
