"""Memory that flushes and merges took is returned to the operating system."""

import subprocess
import sys

import pytest

_PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from durable_sessions.storage.allocator import release_memory, reuse_large_buffers


def resident_mib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmRSS"))


def encode():
    # Columns of many sizes, as those of a segment, some of which are freed before the others.
    held = [pa.array([b"x" * (100 + size % 997)] * 500) for size in range(600)]
    del held[::2]


if sys.argv[1] == "tuned":
    reuse_large_buffers()
before = resident_mib()
with ThreadPoolExecutor(1) as encoding:  # its thread stays, as that of the catalog does
    encoding.submit(encode).result()
    release_memory()
    print(pa.default_memory_pool().backend_name, resident_mib() - before)
"""


def _kept(how: str) -> tuple[str, int]:
    ended = subprocess.run([sys.executable, "-c", _PROGRAM, how], capture_output=True, text=True, check=True)
    backend, mib = ended.stdout.split()
    return backend, int(mib)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc; only glibc returns memory on demand")
def test_what_one_thread_took_for_columns_another_one_returns() -> None:
    backend, mib = _kept("tuned")
    assert backend == "system"
    assert mib < 15, f"{mib} MiB stay resident"
