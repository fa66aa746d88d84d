"""How long callbacks hold an event loop, in processor time of its thread, and where they were then.

Processor time, because a busy machine takes turns away from a thread without that being its fault. The loop
must be asyncio's own and run in the main thread: there a profiling signal tells the stack of what takes long.
"""

import asyncio
import gc
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import msgspec

_SAMPLE_SECONDS = 0.004
_STACKS_MAX = 12


@dataclass(slots=True)
class Hold:
    """One callback: how long it took, and some of the stacks that it was seen with."""

    milliseconds: float = 0.0
    callback: str = ""
    stacks: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        seen = "\n".join(self.stacks) or "(no stack was seen)"
        return f"{self.milliseconds:.1f} ms in {self.callback}\n{seen}"


class HoldMeter:
    """Measures every callback of the loops in this thread."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._began: float | None = None
        self._stacks: list[str] = []
        self._collecting_since = 0.0
        self.longest = Hold()
        self.holds: list[Hold] = []

    def reset(self) -> None:
        """Forget what was measured."""
        self.longest = Hold()

    @contextmanager
    def installed(self) -> Iterator["HoldMeter"]:
        """Measure inside of the block."""
        run = asyncio.events.Handle._run
        meter = self

        def measured(handle: asyncio.Handle) -> None:
            if threading.get_ident() != meter._thread:
                run(handle)
                return
            meter._stacks = []
            began = meter._began = time.thread_time()
            try:
                run(handle)
            finally:
                took = (time.thread_time() - began) * 1000
                meter._began = None
                if took > meter.longest.milliseconds:
                    meter.longest = Hold(took, repr(handle)[:300], meter._stacks)

        before = signal.signal(signal.SIGPROF, self._sample)
        signal.siginterrupt(signal.SIGPROF, False)
        gc.callbacks.append(self._collected)
        asyncio.events.Handle._run = measured  # type: ignore[method-assign,assignment]
        signal.setitimer(signal.ITIMER_PROF, _SAMPLE_SECONDS, _SAMPLE_SECONDS)
        try:
            yield self
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            asyncio.events.Handle._run = run  # type: ignore[method-assign]
            gc.callbacks.remove(self._collected)
            signal.signal(signal.SIGPROF, before)

    def _sample(self, _: int, frame: FrameType | None) -> None:
        began = self._began
        if began is None or len(self._stacks) >= _STACKS_MAX:
            return
        at = (time.thread_time() - began) * 1000
        if at > 5:
            innermost = [line for line in traceback.format_stack(frame)[-9:] if "support/holds" not in line]
            self._stacks.append(f"  after {at:.1f} ms:\n{''.join(innermost[-6:])}")

    def _collected(self, phase: str, info: dict[str, Any]) -> None:
        if threading.get_ident() != self._thread or self._began is None:
            return
        if phase == "start":
            self._collecting_since = time.thread_time()
        elif (took := (time.thread_time() - self._collecting_since) * 1000) > 1:
            self._stacks.append(f"  garbage collection of generation {info['generation']}: {took:.1f} ms")


def slowness() -> float:
    """Return how much more processor time this machine takes now than the one that the limit was set on.

    The slower of two counts: computing, and copying into memory that the system must provide first, which is
    most of what a request with megabytes does, and slow where many processes ask for memory.
    """
    return max(1.0, _shortest(_compute) / _COMPUTING_SECONDS, _shortest(_copy) / _COPYING_SECONDS)


def _shortest(act: Callable[[], None]) -> float:
    def once() -> float:
        began = time.thread_time()
        act()
        return time.thread_time() - began

    return min(once() for _ in range(5))


def _compute() -> None:
    for _ in range(20):
        msgspec.json.decode(_SAMPLE)
        sum(len(str(number)) for number in range(2_000))


def _copy() -> None:
    b"".join([_PIECE] * 16)


_SAMPLE = msgspec.json.encode([{"name": f"key-{n}", "value": [n] * 10, "text": "x" * 50} for n in range(200)])
_PIECE = b"x" * 1_048_576
_COMPUTING_SECONDS = 0.005
_COPYING_SECONDS = 0.002
