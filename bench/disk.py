"""The floor: a bare write and ``fdatasync`` of the same bytes on the same disk, one at a time."""

import os
import tempfile
import time
from statistics import median

from bench.load import EVENT, Measured


def bare_appends(seconds: float) -> Measured:
    took = []
    with tempfile.TemporaryDirectory() as folder:
        file = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        data = EVENT.encode() + bytes(40)
        end = time.perf_counter() + seconds
        while (start := time.perf_counter()) < end:
            os.write(file, data)
            os.fdatasync(file)
            took.append(time.perf_counter() - start)
        os.close(file)
    took.sort()
    return Measured(len(took) / seconds, median(took) * 1000, took[len(took) * 99 // 100] * 1000, 0)
