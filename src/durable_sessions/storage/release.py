"""Giving memory back: what was freed in small pieces stays with the allocator until it is asked."""

import ctypes

import pyarrow as pa


def release_memory() -> None:
    """Return free pages to the operating system; takes some milliseconds, outside of the interpreter lock."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, others need not
    if trim is not None:
        trim(0)
