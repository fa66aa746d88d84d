"""The tables of the catalog for slots: every change with its position, and who holds what now.

``slots`` and ``emptied_prefixes`` are the changes; ``held_slots`` follows from them, whatever the order in
which they are added. It is the index for lists of sessions that hold a slot. ``forked_slots`` are the slots
that a stream with forks has ever held: what its forks may have inherited.
"""

import heapq
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager

from durable_sessions.streams.effects import EMPTIED_PREFIX, HELD, SlotChange
from durable_sessions.streams.slots import NameRange, SlotState

SCHEMA = """
create table slots (
  stream integer not null, name text not null, position integer not null, held integer not null,
  primary key (stream, name, position)
) without rowid;
create table emptied_prefixes (
  stream integer not null, position integer not null, prefix text not null, primary key (stream, position)
) without rowid;
create index emptied_prefixes_by_prefix on emptied_prefixes (stream, prefix, position);
create table held_slots (
  workspace text not null, name text not null, stream integer not null,
  primary key (workspace, name, stream)
) without rowid;
create index held_slots_by_stream on held_slots (stream, name);
create table forked_slots (
  workspace text not null, name text not null, stream integer not null,
  primary key (workspace, name, stream)
) without rowid;
create index forked_slots_by_stream on forked_slots (stream);
create index streams_by_fork on streams (workspace, id) where parent is not null;
"""

TABLES = ("slots", "emptied_prefixes", "held_slots", "forked_slots")
FAMILY_MAX = 1_000
"""How many streams a list looks up below those that held a slot, before it looks at all forks instead."""
_NO_END = b""  # greater than every text
_NUMBER_MAX = 2**63 - 1
_HOLD = """
insert into held_slots
select streams.workspace, slots.name, slots.stream from slots join streams on streams.id = slots.stream
where slots.stream = ?1 and slots.name = ?2 and slots.held
and slots.position = (select max(position) from slots where stream = ?1 and name = ?2)
and not exists (
  select 1 from emptied_prefixes where stream = ?1 and position > slots.position
  and substr(slots.name, 1, length(prefix)) = prefix
)
"""
_NEXT_NAMES = """
with recursive found (name) as (
  select {least}(name) from slots where stream = ?1 and name {above} ?2 and name {below} ?3
  union all
  select (select {least}(name) from slots where stream = ?1 and name {beyond} found.name and name {below} ?3)
  from found where found.name is not null
)
select name from found where name is not null limit ?4
"""
# The first step may take its own bound; each later one begins beyond the name before it.
_ASCENDING = _NEXT_NAMES.format(least="min", above=">=", beyond=">", below="<")
_DESCENDING = _NEXT_NAMES.format(least="max", above="<", beyond="<", below=">=")
_HELD_ASCENDING = (
    "select name from held_slots where stream = ? and name >= ? and name < ? order by name limit ?"
)
_HELD_DESCENDING = _HELD_ASCENDING.replace("order by name", "order by name desc")
_FORKED = """
insert or ignore into forked_slots select workspace, ?2, id from streams
where id = ?1 and exists (select 1 from streams as forks where forks.parent = ?1)
"""
_FIRST_FORK = """
insert or ignore into forked_slots select distinct streams.workspace, slots.name, slots.stream
from slots join streams on streams.id = slots.stream where slots.stream = ?1 and slots.held
"""
_FAMILY = """
with recursive family (id) as (
  select stream from forked_slots where workspace = ?1 and name = ?2
  union
  select streams.id from family join streams on streams.parent = family.id
)
select id from family limit ?3
"""
_OWN = (
    "select stream from held_slots where workspace = ?1 and name = ?2 and stream {way} ?3 order by 1 {order}"
)
_ALL = (
    "select stream from held_slots where workspace = ?1 and name = ?2 and stream {way} ?3"
    " union select id from streams where workspace = ?1 and parent is not null and id {way} ?3"
    " order by 1 {order}"
)
_OLDEST, _NEWEST = {"way": ">", "order": ""}, {"way": "<", "order": "desc"}


def add(connection: sqlite3.Connection, changes: Iterable[tuple[int, SlotChange]]) -> None:
    """Add changes of slots, each with its stream; the streams must be there already."""
    named: dict[tuple[int, str], None] = {}
    prefixes: list[tuple[int, int, str]] = []
    rows: list[tuple[int, str, int, int]] = []
    for stream, change in changes:
        if change.kind == EMPTIED_PREFIX:
            prefixes.append((stream, change.position, change.name))
        else:
            rows.append((stream, change.name, change.position, change.kind))
            named[stream, change.name] = None
    connection.executemany("insert or replace into slots values (?, ?, ?, ?)", rows)
    connection.executemany("insert or replace into emptied_prefixes values (?, ?, ?)", prefixes)
    for stream, position, prefix in prefixes:
        _empty(connection, stream, position, prefix)
    connection.executemany("delete from held_slots where stream = ? and name = ?", named)
    connection.executemany(_HOLD, named)
    connection.executemany(_FORKED, ((stream, name) for stream, name, _, kind in rows if kind == HELD))


def add_fork(connection: sqlite3.Connection, parent: int) -> None:
    """Note what a stream has held when it gets its first fork; later changes of it are noted as they come."""
    forks = connection.execute(
        "select count(*) from (select 1 from streams where parent = ? limit 2)", (parent,)
    )
    if forks.fetchone() == (1,):
        connection.execute(_FIRST_FORK, (parent,))


def _empty(connection: sqlite3.Connection, stream: int, position: int, prefix: str) -> None:
    high = NameRange(prefix).high
    connection.execute(
        "delete from held_slots where stream = ?1 and name >= ?2 and name < ?3 and not exists (select 1 from"
        " slots where slots.stream = ?1 and slots.name = held_slots.name and slots.position > ?4)",
        (stream, prefix, _NO_END if high is None else high, position),
    )


def remove(connection: sqlite3.Connection, stream: int) -> None:
    """Remove all slots of a stream."""
    for table in TABLES:
        connection.execute(f"delete from {table} where stream = ?", (stream,))  # noqa: S608


class SlotView:
    """Queries on the slots, through one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._slots = connection

    def load_slot(self, stream: int, name: str, end: int) -> SlotState | None:
        """Return the last change of this very slot before an end."""
        found = self._slots.execute(
            "select position, held from slots where stream = ? and name = ? and position < ?"
            " order by position desc limit 1",
            (stream, name, end),
        ).fetchone()
        return None if found is None else SlotState(found[0], bool(found[1]))

    def load_emptied_prefix(self, stream: int, name: str, end: int) -> int | None:
        """Return where a prefix of this name was emptied last before an end."""
        prefixes = [name[:length] for length in range(len(name) + 1)]
        query = (
            f"select max(position) from emptied_prefixes where stream = ? and prefix in"  # noqa: S608
            f" ({','.join('?' * len(prefixes))}) and position < ?"
        )
        found: int | None = self._slots.execute(query, (stream, *prefixes, end)).fetchone()[0]
        return found

    def load_slot_names(self, stream: int, names: NameRange, limit: int, *, held: bool) -> Sequence[str]:
        """Return the next names that ever changed, in order; with ``held`` those that are held now."""
        low, high = names.low, _NO_END if names.high is None else names.high
        # One more, because a range may begin with the name that it is behind of.
        if held:
            query = _HELD_DESCENDING if names.descends else _HELD_ASCENDING
            found = self._slots.execute(query, (stream, low, high, limit + 1))
        elif names.descends:
            found = self._slots.execute(_DESCENDING, (stream, high, low, limit + 1))
        else:
            found = self._slots.execute(_ASCENDING, (stream, low, high, limit + 1))
        return [name for (name,) in found if name != names.after][:limit]

    @contextmanager
    def slot_holders(
        self, workspace: str, name: str, after: int | None, *, newest_first: bool
    ) -> Iterator[Iterator[int]]:
        """Yield the numbers of streams that may hold a slot, in order: by themselves, or from their sources.

        Below the streams that have held it, all forks are candidates. If these are many, the forks of the
        workspace are gone through in order instead: then most of them hold the slot, and a page needs few.
        """
        start = after if after is not None else _NUMBER_MAX if newest_first else 0
        way = _NEWEST if newest_first else _OLDEST
        found = self._slots.execute(_FAMILY, (workspace, name, FAMILY_MAX + 1))
        family = [number for (number,) in found]
        is_small = len(family) <= FAMILY_MAX
        query = (_OWN if is_small else _ALL).format(**way)
        forks = (one for one in family if (one < start if newest_first else one > start))
        with closing(self._slots.execute(query, (workspace, name, start))) as rows:
            own = (number for (number,) in rows)
            inherited = sorted(forks, reverse=newest_first) if is_small else ()
            yield heapq.merge(own, inherited, reverse=newest_first)
