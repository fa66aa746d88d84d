"""The scope of a search: which streams, types, roles and times."""

import msgspec

POSITION_MAX = 2**40
"""A part of a chain that ends here or later is open-ended."""


class Scope(msgspec.Struct, frozen=True, array_like=True):
    """Which events are searched; a member that is not set does not restrict the search."""

    chain: tuple[tuple[int, int, int], ...] | None = None
    """Parts (stream, from position, before position): a session and what it inherits. Use an end of
    :data:`POSITION_MAX` where none is needed: a search without one is faster."""
    streams: tuple[int, ...] | None = None
    """Only these streams."""
    types: tuple[str, ...] = ()
    """Any of these types, exact or as ``agent.*``."""
    roles: tuple[str, ...] = ()
    """Any of these roles; ``error`` stands for all events that are errors."""
    errors_only: bool = False
    after_ms: int | None = None
    """Not before this time."""
    before_ms: int | None = None
    """Before this time, which is not included."""
