"""What the kernel says of a process: its memory and its sockets."""

import os
from pathlib import Path

_OPEN_STATES = ("01", "02", "08")
"""Established, being made, and closed by the other side only."""


class Vitals:
    """Reads ``/proc`` of one process."""

    def __init__(self, pid: int) -> None:
        self._proc = Path("/proc") / str(pid)

    def peak_bytes(self) -> int:
        """Return the most resident memory since :meth:`begin`."""
        return self._status("VmHWM")

    def begin(self) -> None:
        """Measure the peak from now on."""
        (self._proc / "clear_refs").write_text("5")

    def sockets(self) -> int:
        """Return how many sockets are open."""
        return sum(self._target(entry).startswith("socket:") for entry in (self._proc / "fd").iterdir())

    def connections_to(self, port: int) -> int:
        """Return how many connections to a port of this machine are being made or open."""
        rows = [line.split() for line in (self._proc / "net" / "tcp").read_text().splitlines()[1:]]
        return sum(row[2].endswith(f":{port:04X}") and row[3] in _OPEN_STATES for row in rows)

    def _status(self, name: str) -> int:
        for line in (self._proc / "status").read_text().splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return int(value.split()[0]) * 1024
        raise LookupError(name)

    @staticmethod
    def _target(entry: Path) -> str:
        try:
            return os.readlink(entry)
        except FileNotFoundError:  # closed since it was listed
            return ""
