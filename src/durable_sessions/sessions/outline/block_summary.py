"""What is said of a whole block: how many rows of which role, and marks of 16 events each for a strip."""

from collections.abc import Sequence

import msgspec

from durable_sessions.sessions.outline.block import EventBlock, is_row
from durable_sessions.sessions.outline.facts import AGENT, COMPACTION, FAILED, QUIET, ROLES, TOOL, USER
from durable_sessions.times import rfc3339

MARK_EVENTS = 16
Point = tuple[int, int, int, int, int, int, int, int]
"""Where a point begins; rows of users, agents and tools; failed rows; compactions, context, time."""


class Marks(msgspec.Struct, array_like=True):
    """Counts for every 16 events: rows by role, failed rows, compactions, context and time."""

    user: bytes
    agent: bytes
    tool: bytes
    failed: bytes
    compactions: bytes
    context: list[int]
    at_ms: list[int]


class BlockSummary(msgspec.Struct, array_like=True):
    """A block in numbers; ``roles`` counts rows, ``context`` is what the last model request read."""

    first: int
    roles: list[int]
    quiet: int
    failed: int
    bytes: int
    characters: int
    first_ms: int
    last_ms: int
    context: int
    tokens_out: int
    compactions: int
    marks: Marks
    names: list[str]
    threads: list[str]

    def shown(self) -> dict[str, object]:
        """Return it as it is sent."""
        return {
            "roles": self.roles,
            "quiet": self.quiet,
            "failed": self.failed,
            "bytes": self.bytes,
            "characters": self.characters,
            "first_at": rfc3339(self.first_ms),
            "last_at": rfc3339(self.last_ms),
            "context": self.context,
            "tokens_out": self.tokens_out,
            "compactions": self.compactions,
        }


def summary_of(block: EventBlock) -> BlockSummary:
    """Return a block in numbers."""
    columns = block.columns
    roles = [0] * len(ROLES)
    size = -(-block.count // MARK_EVENTS)
    user, agent, tool, failed, compactions = (bytearray(size) for _ in range(5))
    by_role = {USER: user, AGENT: agent, TOOL: tool}
    quiet = 0
    for index, (role, flags, pair) in enumerate(
        zip(columns["role"], columns["flags"], columns["pair"], strict=True)
    ):
        mark = index // MARK_EVENTS
        quiet += bool(flags & QUIET)
        if flags & COMPACTION:
            compactions[mark] += 1
        if is_row(role, flags, pair, QUIET):
            roles[role] += 1
            if role in by_role:
                by_role[role][mark] += 1
            if flags & FAILED:
                failed[mark] += 1
    context = [0] * size
    for request in block.requests:
        if request.context:
            context[request.index // MARK_EVENTS] = request.context
    # Between two requests the context is what the last one read.
    for mark in range(1, size):
        context[mark] = context[mark] or context[mark - 1]
    at = columns["at"]
    marks = Marks(
        bytes(user),
        bytes(agent),
        bytes(tool),
        bytes(failed),
        bytes(compactions),
        context,
        [block.t0 + at[mark * MARK_EVENTS] for mark in range(size)],
    )
    return BlockSummary(
        block.first,
        roles,
        quiet,
        sum(failed),
        sum(columns["bytes"]),
        sum(columns["characters"]),
        block.t0 + min(at, default=0),
        block.t0 + max(at, default=0),
        context[-1] if context else 0,
        sum(request.output for request in block.requests),
        sum(compactions),
        marks,
        block.names,
        block.threads,
    )


def points(summaries: Sequence[BlockSummary], events: int, most: int) -> list[Point]:
    """Return up to this many points over all events, from the blocks that are known, in order."""
    if not most or not events:
        return []
    # Rounded up: never more points than asked for, even if the last one then stands for fewer marks.
    marks_per_point = max(1, -(-events // (MARK_EVENTS * most)))
    found: list[Point] = []
    context = 0
    for summary in summaries:
        marks = summary.marks
        begin = 0
        while begin < len(marks.user):
            # Points lie on one grid for the whole session, so that they do not move when blocks become known.
            number = (summary.first // MARK_EVENTS + begin) // marks_per_point
            end = min(len(marks.user), (number + 1) * marks_per_point - summary.first // MARK_EVENTS)
            context = max(marks.context[begin:end]) or context
            counts = (
                sum(marks.user[begin:end]),
                sum(marks.agent[begin:end]),
                sum(marks.tool[begin:end]),
                sum(marks.failed[begin:end]),
                sum(marks.compactions[begin:end]),
            )
            start = summary.first + begin * MARK_EVENTS
            if found and found[-1][0] // MARK_EVENTS // marks_per_point == number:
                last = found[-1]
                summed = [one + other for one, other in zip(last[1:6], counts, strict=True)]
                found[-1] = (last[0], *summed, max(last[6], context), last[7])  # type: ignore[assignment]
            else:
                found.append((start, *counts, context, marks.at_ms[begin]))
            begin = end
    return found
