"""Outlines in answers."""

from typing import Annotated, Any

import msgspec

from durable_sessions.schema_notes import Offset, Time, Whole, about
from durable_sessions.sessions.outline.outlines import OutlinedThread

_Numbers = Annotated[list[Any], about(items={"type": ["integer", "null"]})]


class OutlineBlock(msgspec.Struct):
    """A block of a session's outline, in numbers.

    `roles` counts rows: what is neither quiet nor a result that its call has taken in.
    """

    roles: Annotated[
        list[Whole],
        about("Of users, agents, thinking, tools, results, system, errors, statuses, others."),
    ]
    quiet: Annotated[Whole, about("Events that are bookkeeping.")]
    failed: Annotated[Whole, about("Rows that failed, or whose results did.")]
    bytes: Annotated[Whole, about("How large the events are together.")]
    characters: Annotated[Whole, about("How long their texts are together.")]
    first_at: Time
    last_at: Time
    context: Annotated[Whole, about("What the last model request read, in tokens.")]
    tokens_out: Annotated[Whole, about("What all model requests wrote, in tokens.")]
    compactions: Whole


class OutlineAnswer(msgspec.Struct):
    """A session's outline in short."""

    session: str
    offset: Offset
    events: Whole
    block: Annotated[Whole, about("Events in a block.")]
    through: Annotated[Whole, about("How many events are outlined; ask again for more.")]
    complete: bool
    blocks: Annotated[list[OutlineBlock | None], about("In order; null is not made yet.")]
    points: Annotated[
        list[_Numbers],
        about("Each: from, user, agent, tool, failed, compactions, context, at_ms."),
    ]
    names: Annotated[list[str], about("Names of tools; only grows. Columns count from 1.")]
    threads: Annotated[list[OutlinedThread], about("Only grows. Columns count from 1.")]


class OutlineColumns(msgspec.Struct):
    """The columns of a block, one entry for each event."""

    bytes: Annotated[list[Whole], about("Its size as stored.")]
    pair: Annotated[list[int], about("How far away the other end of a tool call is; 0 is none.")]
    at: Annotated[list[Whole], about("Milliseconds after `t0`, as the event says it.")]
    key: Annotated[list[Whole], about("CRC-32 of a call's name and input, of the text of messages.")]
    name: Annotated[list[Whole], about("Which of the `names`; 0 is none.")]
    characters: Annotated[list[Whole], about("65,535 is that many or more.")]
    thread: Annotated[list[Whole], about("Which of the `threads`; 0 is the primary one.")]
    role: Annotated[list[Whole], about("Which of the roles, counted from 0.")]
    flags: Annotated[
        list[Whole],
        about(
            "1 failed, 2 quiet, 4 has its result, 8 compaction, 16 image, 32 redacted, 64 inherited, "
            "128 hidden characters."
        ),
    ]


class OutlineBlockAnswer(msgspec.Struct, rename={"first": "from"}):
    """One block of an outline."""

    first: Whole
    count: Whole
    t0: Annotated[Whole, about("Milliseconds since 1970.")]
    columns: OutlineColumns
    requests: Annotated[
        list[_Numbers],
        about("Model requests: index, input, cache_read, cache_write, output, cost_micros."),
    ]
