"""Events that are dropped by the very append that brings them: only what stays of them is ever stored."""

from collections.abc import Iterator, Sequence

from durable_sessions.sessions import event_ids, tombstones
from durable_sessions.sessions.drafts import Draft
from durable_sessions.sessions.slot_cover import SlotCover
from durable_sessions.threads import CPU

RECORDS_OF_RUNS = ("agent.", "user.", "span.", "session.", "system.", "ds.")
"""Events of these types are not dropped: erasing the record of a run takes an administrator."""


def drops(drafts: Sequence[Draft]) -> bool:
    """Say whether one of these events drops others."""
    return any(draft.slots is not None and draft.slots.drops for draft in drafts)


async def prepare(drafts: Sequence[Draft]) -> None:
    """Note on each event that a later one of the same append drops what would stay of it."""
    if drops(drafts):
        # Large events take long to decode, and the decision, which cannot be interrupted, must not do it.
        await CPU.run(_prepare, drafts)


def _prepare(drafts: Sequence[Draft]) -> None:
    for at, dropping in _dropped(drafts):
        draft = drafts[at]
        draft.dropped_by, draft.remains = dropping, tombstones.counted(b"{" + draft.rest, draft.type)


def replacements(
    drafts: Sequence[Draft], events: Sequence[bytes], *, are_all: bool
) -> Iterator[tuple[int, bytes]]:
    """Yield which of the new events later ones of them drop, and what is stored in their place.

    Unless they ``are_all`` events of the append, it is found out anew: those that are stored already neither
    hold nor drop anything again.
    """
    prepared = ((at, one.dropped_by) for at, one in enumerate(drafts) if one.dropped_by is not None)
    for at, dropping in prepared if are_all else _dropped(drafts):
        draft, event = drafts[at], events[at]
        assert draft.remains is not None, "repeated events only make the others fewer"
        by = event_ids.stored_id(events[dropping])
        assert by is not None
        front = event[: len(event) - len(draft.rest)]
        yield at, tombstones.dropped_at_once(event, front, draft.type, draft.remains, by)


def _dropped(drafts: Sequence[Draft]) -> Iterator[tuple[int, int]]:
    """Yield the places of events that hold no slot behind the last one, each with that of its dropper."""
    # From the last event back: what an event holds in the end depends only on those behind it.
    changed: SlotCover[int] = SlotCover()
    dropped: SlotCover[int] = SlotCover()
    for at in reversed(range(len(drafts))):
        wish = drafts[at].slots
        if wish is None:
            continue
        if not wish.empties and not drafts[at].type.startswith(RECORDS_OF_RUNS):
            droppers = [by for name in wish.names if (by := dropped.get(name)) is not None]
            if droppers and all(changed.get(name) is not None for name in wish.names):
                yield at, min(droppers)
        changed.add(wish, at)
        if wish.drops:
            dropped.add(wish, at)
