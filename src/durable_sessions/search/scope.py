"""Where to search."""

import msgspec

POSITION_MAX = 2**40
"""A part of a chain that reaches so far has no end."""


class Scope(msgspec.Struct, frozen=True, array_like=True):
    """Where to search; what is not said is not narrowed down."""

    chain: tuple[tuple[int, int, int], ...] | None = None
    """Parts (stream, from position, before position): a session and what it inherits. An end of
    :data:`POSITION_MAX` or more is none, which is faster than a real one."""
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
