"""Python's garbage collector, configured so that it never blocks the event loop for long."""

import asyncio
import gc
from collections.abc import Callable

# To find cycles, the collector visits objects and holds the GIL meanwhile, for about 0.2 microseconds each.
# So the youngest generation is collected at five thousand objects, the second at about five times as many,
# and the oldest one only while the process has few objects.
_COLLECTED_AFTER = (5_000, 5, 1_000_000)
_OBJECTS_MAX = 30_000
_LOOK_SECONDS = 60.0


class Collector:
    """Collects the young generations, and the oldest one only while it is small.

    Nearly everything is freed by reference counting, including connections and refusals. On a large server a
    cycle that becomes garbage in the oldest generation stays in memory, so the server must not make any.
    """

    def __init__(self) -> None:
        self._is_bound = False

    def bind(self) -> Callable[[], None]:
        """Exempt the current objects from collection, and limit all collections; return what undoes it."""
        before = gc.get_threshold()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_COLLECTED_AFTER)
        self._is_bound = True

        def undo() -> None:
            self._is_bound = False
            gc.set_threshold(*before)
            gc.unfreeze()

        return undo

    async def run(self, objects: Callable[[], int]) -> None:
        """Run full collections periodically while there are few ``objects``, by estimate."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self._is_bound and objects() <= _OBJECTS_MAX and _oldest() <= _OBJECTS_MAX:
                gc.collect()


def _oldest() -> int:
    """Return how many objects the oldest generation has; 20 times as fast as going through them."""
    # The estimate does not know what requests have at the moment, such as a graph that is being made.
    return len(gc.get_objects(generation=2))


COLLECTOR = Collector()
"""The collector of this process."""
