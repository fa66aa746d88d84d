"""Tuning of the C allocator: it serves Arrow too, reuses large buffers, and can return free memory."""

import ctypes

import pyarrow as pa

# Constants of malloc.h. By default a buffer above 128 KiB is mapped anew each time, and every page of it is
# faulted in again when it is written: reading a megabyte then takes several times as long as copying it.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_REUSED_BYTES_MAX = 32 * 1024 * 1024
_KEPT_BYTES_MAX = 64 * 1024 * 1024


def reuse_large_buffers() -> None:
    """Let the allocator keep freed large buffers for reuse, up to a limit; the rest is still returned.

    Arrow uses it as well. Its own allocator keeps what another thread freed: after a flush of 40,000 streams,
    which a thread encodes, 31 MB that :func:`release_memory` cannot return. Reads are as fast with either.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    adjust = getattr(ctypes.CDLL(None), "mallopt", None)  # only glibc is known to have it
    if adjust is not None:
        adjust(_M_MMAP_THRESHOLD, _REUSED_BYTES_MAX)
        adjust(_M_TRIM_THRESHOLD, _KEPT_BYTES_MAX)


def release_memory() -> None:
    """Return free pages to the operating system; takes a few milliseconds, without holding the GIL."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only glibc is known to have it
    if trim is not None:
        trim(0)
