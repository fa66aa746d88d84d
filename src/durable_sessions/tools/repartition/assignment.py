"""Which partition each stream goes to when a bucket is divided anew: a pure function of all streams.

A stream and its forks are a family, which stays together: reading a fork walks up to its source. The path of
the root decides. If the root was deleted and is only kept for its forks, the path of the living member with
the lowest number decides instead.
"""

from collections.abc import Iterable
from typing import NamedTuple

from durable_sessions.streams.partition_map import home_partition
from durable_sessions.streams.stream import Key


class FamilyMember(NamedTuple):
    """A stream as far as its place depends on it.

    ``parent`` is the number of the stream that it is a fork of. A ``deleted`` one is kept for its forks;
    if it is ``freed``, its path may be that of another stream.
    """

    number: int
    key: Key
    parent: int | None = None
    deleted: bool = False
    freed: bool = False


class Assignment(NamedTuple):
    """The numbers of the streams of each partition, and where the names are that do not live at home."""

    streams: dict[int, list[int]]
    placed: dict[Key, int]


def assign(members: Iterable[FamilyMember], partitions: int) -> Assignment:
    """Return where all streams of a bucket go if it is divided into this many partitions."""
    known = {member.number: member for member in members}
    families: dict[int, list[FamilyMember]] = {}
    for member in known.values():
        families.setdefault(_root(member, known).number, []).append(member)
    streams: dict[int, list[int]] = {}
    placed: dict[Key, int] = {}
    for root, family in families.items():
        partition = home_partition(*_decider(known[root], family).key, of=partitions)
        streams.setdefault(partition, []).extend(member.number for member in family)
        for member in family:
            if not member.freed and home_partition(*member.key, of=partitions) != partition:
                placed[member.key] = partition
    return Assignment(streams, placed)


def _root(member: FamilyMember, known: dict[int, FamilyMember]) -> FamilyMember:
    while member.parent is not None and member.parent in known:
        member = known[member.parent]
    return member


def _decider(root: FamilyMember, family: list[FamilyMember]) -> FamilyMember:
    """Return the member whose path decides where its family is."""
    if not root.deleted:
        return root
    living = (member for member in family if not member.deleted)
    return min(living, key=lambda member: member.number, default=root)
