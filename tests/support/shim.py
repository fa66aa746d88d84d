"""Faults in a real process: a library loaded before all others, ruled by the test through shared memory."""

import ctypes
import errno
import mmap
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
UNBOUNDED = -1


class Control(ctypes.Structure):
    """The same memory as ``struct control`` in ``shim.c``."""

    _fields_ = (
        ("clock_offset_ns", ctypes.c_int64),
        ("space_bytes", ctypes.c_int64),
        ("sync_delay_us", ctypes.c_int64),
        ("hold_syncs", ctypes.c_int32),
        ("sync_errno", ctypes.c_int32),
        ("sync_failures", ctypes.c_int32),
        ("change_errno", ctypes.c_int32),
        ("syncs", ctypes.c_int64),
        ("directory", ctypes.c_char * 1024),
    )


def compile_shim(directory: Path) -> Path:
    """Compile the library and return where it is."""
    library = directory / "shim.so"
    command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", str(SOURCE)]
    subprocess.run([*command, "-o", str(library), "-ldl"], check=True, timeout=120)
    return library


class Shim:
    """The faults of the processes that run with :attr:`environment`, in ``target`` and below."""

    def __init__(self, library: Path, control: Path, target: Path) -> None:
        control.write_bytes(bytes(ctypes.sizeof(Control)))
        with control.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self.control = Control.from_buffer(self._memory)
        self.control.space_bytes = UNBOUNDED
        self.control.directory = str(target).encode()
        self.environment = {"LD_PRELOAD": str(library), "SHIM_CONTROL": str(control)}

    def limit_space(self, space_bytes: int) -> None:
        """Let only so much more be written; the write that meets the end is short, later ones fail."""
        self.control.space_bytes = space_bytes

    def free_space(self) -> None:
        """Let everything be written again."""
        self.control.space_bytes = UNBOUNDED

    def fail_syncs(self, times: int, error: int = errno.EIO) -> None:
        """Let the next syncs fail."""
        self.control.sync_errno = error
        self.control.sync_failures = times

    def slow_syncs(self, seconds: float) -> None:
        """Let every sync take this much longer."""
        self.control.sync_delay_us = int(seconds * 1e6)

    def hold_syncs(self, held: bool) -> None:
        """Let no sync return, or let them all go on."""
        self.control.hold_syncs = held

    def refuse_changes(self, error: int = 0) -> None:
        """Let creating, opening for writing and removing fail with this error; 0 lets them work."""
        self.control.change_errno = error

    def move_clock(self, seconds: float) -> None:
        """Let the time of day be this far from the real one."""
        self.control.clock_offset_ns = int(seconds * 1e9)
