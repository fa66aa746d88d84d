"""Checks that each stream has all its records exactly once, from its base to its tail."""

from collections import Counter
from collections.abc import Iterable, Iterator

from durable_sessions.streams.stream import Stream
from durable_sessions.tools.verify.findings import Findings
from durable_sessions.tools.verify.inventory import Inventory, SegmentExtent

Range = tuple[int, int]
"""First position, and the position after the last."""


def gaps(stream: Stream, extents: Iterable[SegmentExtent]) -> list[Range]:
    """Return the positions of a stream that no extent covers; the extents are in order."""
    found: list[Range] = []
    expected = stream.base
    for extent in extents:
        if extent.first > expected:
            found.append((expected, min(extent.first, stream.tail)))
        expected = max(expected, extent.next)
    if expected < stream.tail:
        found.append((expected, stream.tail))
    return [gap for gap in found if gap[0] < gap[1]]


def check_coverage(inventory: Inventory, findings: Findings) -> None:
    """Report gaps, overlaps, and forks whose source lacks the records before them."""
    for numbers in inventory.shared_paths():
        findings.add(f"stream {numbers[0]}", f"its path is also that of {numbers[1:]}")
    forks: Counter[int] = Counter()
    stated: dict[int, int] = {}
    for stream, extents in inventory.streams():
        where = f"stream {stream.id} ({stream.key.workspace}/{stream.key.path})"
        findings.checked["extents"] += len(extents)
        for first, following in gaps(stream, extents):
            findings.add(where, f"no segment holds the positions {first} to {following}")
        for problem in _overlaps(stream, extents):
            findings.add(where, problem)
        if stream.forks:
            stated[stream.id] = stream.forks
        if stream.parent is not None:
            forks[stream.parent] += 1
            parent = inventory.load_id(stream.parent)
            if parent is None:
                findings.add(where, f"stream {stream.parent}, which it was forked from, is missing")
            elif parent.tail < stream.base:
                findings.add(where, f"it was forked at {stream.base}, but its source ends at {parent.tail}")
    for number in sorted(stated.keys() | forks.keys()):
        if stated.get(number, 0) != forks[number] and inventory.load_id(number) is not None:
            found = f"it says that it has {stated.get(number, 0)} forks, but there are {forks[number]}"
            findings.add(f"stream {number}", found)


def _overlaps(stream: Stream, extents: list[SegmentExtent]) -> Iterator[str]:
    before: SegmentExtent | None = None
    for extent in extents:
        if before is not None and extent.first < before.next:
            end = min(before.next, extent.next)
            yield f"{before.segment} and {extent.segment} both hold the positions {extent.first} to {end}"
        if before is None or extent.next > before.next:
            before = extent
    if extents and extents[0].first < stream.base:
        yield f"{extents[0].segment} holds positions from {extents[0].first}, before its base {stream.base}"
    if before is not None and before.next > stream.tail:
        yield f"{before.segment} holds positions up to {before.next}, past its end {stream.tail}"
