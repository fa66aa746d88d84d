"""The floor: a bare write and ``fdatasync`` of the same bytes on the same disk, one at a time."""

import os
import time

from bench.figures import Figures, percentile
from bench.load import EVENT
from bench.place import Place

FRAMING_BYTES = 40
"""About what a log adds to an event."""


def bare_appends(place: Place, seconds: float) -> Figures:
    """Append and sync for so long, with nothing around it."""
    took = []
    data = EVENT.encode() + bytes(FRAMING_BYTES)
    file = os.open(place.fresh("bare") / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        end = time.perf_counter() + seconds
        while (start := time.perf_counter()) < end:
            os.write(file, data)
            os.fdatasync(file)
            took.append(time.perf_counter() - start)
    finally:
        os.close(file)
    took.sort()
    return {
        "requests_per_second": len(took) / seconds,
        "p50_ms": percentile(took, 0.5) * 1000,
        "p99_ms": percentile(took, 0.99) * 1000,
        "failures": 0,
        "events_per_second": len(took) / seconds,
    }
