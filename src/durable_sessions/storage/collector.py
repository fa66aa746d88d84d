"""The garbage collector, in steps that hold up nobody."""

import gc

# Requests leave no cycles behind, so there is little to find; but to find it, the collector walks through
# what was made since it last did, and holds the interpreter meanwhile. So it looks at ten thousand objects
# at a time, at those that stayed at a hundred thousand, and never at all streams at once.
_COLLECTED_AFTER = (10_000, 10, 1_000_000_000)


def bound_collections() -> None:
    """Let no collection of this process look at more than a part of what is in memory."""
    gc.set_threshold(*_COLLECTED_AFTER)
