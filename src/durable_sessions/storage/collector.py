"""The garbage collector, in steps that hold up nobody."""

import gc
from collections.abc import Callable

# To find cycles, the collector walks through what was made since it last did, and holds the interpreter
# meanwhile. So it looks at five thousand objects at a time, at those that stayed at fifty thousand, and at
# those that stayed again at about twice as many.
_COLLECTED_AFTER = (5_000, 10, 1)


def bound_collections() -> Callable[[], None]:
    """Let no collection of this process look at more than what was made since the last ones.

    What has stayed through a collection of the oldest generation is not looked at again: it is freed when
    nobody refers to it, which is how streams, connections and subscriptions go. Returns what undoes it.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.collect()  # of nothing: else the next one would wait for a quarter of what this one has seen
    gc.set_threshold(*_COLLECTED_AFTER)
    gc.callbacks.append(_set_aside)

    def undo() -> None:
        gc.callbacks.remove(_set_aside)
        gc.set_threshold(*before)
        gc.unfreeze()

    return undo


def _set_aside(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
