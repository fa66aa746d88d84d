"""The garbage collector, in steps that hold up nobody, and rarely in one go."""

import gc
from collections.abc import Callable

# To find cycles, the collector walks through what was made since it last did, and holds the interpreter
# meanwhile. So it looks at five thousand objects at a time, at those that stayed at fifty thousand, and at
# those that stayed again at about twice as many.
_COLLECTED_AFTER = (5_000, 10, 1)
_SET_ASIDE_MAX = 300_000
"""Objects set aside since all were last looked at; a quarter of all, if that is more."""


class Collector:
    """Sets aside what stays, so that it is not looked at again, until much has been set aside.

    Nearly everything is freed by counting references. But a cycle that dies after it was set aside, such as
    that of a cancelled task and its exception, is found only when all is looked at. So that happens, too,
    once for every few hundred thousand objects: it takes tenths of a second at 100,000 streams in memory.
    """

    def __init__(self) -> None:
        self._settled = 0
        self._is_bound = False

    def bind(self) -> Callable[[], None]:
        """Let no collection look at more than what was made since the last ones. Returns what undoes it."""
        before = gc.get_threshold()
        self._look_at_all()
        gc.collect()  # of nothing: else the next one would wait for a quarter of what this one has seen
        gc.set_threshold(*_COLLECTED_AFTER)
        gc.callbacks.append(_set_aside)
        self._is_bound = True

        def undo() -> None:
            self._is_bound = False
            gc.callbacks.remove(_set_aside)
            gc.set_threshold(*before)
            gc.unfreeze()

        return undo

    def settle(self) -> bool:
        """Look at all objects if many were set aside since that was last done; say whether it was."""
        aside = gc.get_freeze_count() - self._settled
        if not self._is_bound or aside <= max(_SET_ASIDE_MAX, self._settled // 4):
            return False
        self._look_at_all()
        return True

    def _look_at_all(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._settled = gc.get_freeze_count()


COLLECTOR = Collector()
"""The one of this process."""


def _set_aside(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
