"""Large buffers and the allocator: which it keeps for the next one, and which it gives back."""

import ctypes

import pyarrow as pa

# As malloc.h has them. By default a buffer above 128 KiB is mapped anew each time, and every page of it is
# faulted in again when it is written: a read of a megabyte then takes several times as long as its copying.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_REUSED_BYTES_MAX = 32 * 1024 * 1024
_KEPT_BYTES_MAX = 64 * 1024 * 1024


def reuse_large_buffers() -> None:
    """Let the memory of large buffers be used again; what is free beyond some of it is still given back."""
    adjust = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc has it, others need not
    if adjust is not None:
        adjust(_M_MMAP_THRESHOLD, _REUSED_BYTES_MAX)
        adjust(_M_TRIM_THRESHOLD, _KEPT_BYTES_MAX)


def release_memory() -> None:
    """Return free pages to the operating system; takes some milliseconds, outside of the interpreter lock."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, others need not
    if trim is not None:
        trim(0)
