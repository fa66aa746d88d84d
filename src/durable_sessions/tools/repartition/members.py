"""The streams of a bucket that are divided: all but the notes of where names live, which are made anew."""

from collections.abc import Iterator, Sequence

from durable_sessions.streams.placements import NOTES, REFUSALS
from durable_sessions.streams.stream import SYSTEM_WORKSPACE
from durable_sessions.tools.repartition.assignment import FamilyMember
from durable_sessions.tools.stopped_partition import StoppedPartition


def members_of(old: Sequence[StoppedPartition]) -> Iterator[FamilyMember]:
    """Yield the streams of all partitions, as of the last flush."""
    for one in old:
        for stream in one.archive.catalog.reader.streams():
            if stream.key.workspace == SYSTEM_WORKSPACE and stream.key.folder in (NOTES, REFUSALS):
                continue
            yield FamilyMember(stream.id, stream.key, stream.parent, stream.soft_deleted, stream.freed)
