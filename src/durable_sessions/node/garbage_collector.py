"""The collector of reference cycles, kept from holding up anybody."""

import asyncio
import gc
from collections.abc import Callable

# To find cycles, the collector walks through objects and holds the interpreter meanwhile, for about a fifth
# of a microsecond each. So it looks at five thousand new ones at a time, and at those that stayed at about
# five times as many. At those that stayed again it looks only when they are few.
_COLLECTED_AFTER = (5_000, 5, 1_000_000)
_OBJECTS_MAX = 30_000
_LOOK_SECONDS = 60.0


class Collector:
    """Looks at what is new, and at what is old only while that is little.

    Nearly everything is freed by counting references, what belongs to a connection or a refusal too: a cycle
    that dies old stays in memory, on a server that is never small.
    """

    def __init__(self) -> None:
        self._is_bound = False

    def bind(self) -> Callable[[], None]:
        """Leave out what there is now for good, and bound all collections. Returns what undoes it."""
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
        """Look at all, again and again, while there are few ``objects``, as far as that is known."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self._is_bound and objects() <= _OBJECTS_MAX:
                gc.collect()


COLLECTOR = Collector()
"""The one of this process."""
