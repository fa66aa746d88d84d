"""The boot of this machine: only when the machine restarts can an unsynced file have lost pages."""

from pathlib import Path


def boot_id() -> str:
    """Return the id that the kernel made when the machine started."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
