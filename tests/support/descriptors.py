"""Descriptors that this process has open."""

import os


def open_sockets() -> int:
    """Return how many sockets are open; libuv opens other things when it likes."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:  # the listing itself
            continue
    return sum(link.startswith("socket:") for link in links)
