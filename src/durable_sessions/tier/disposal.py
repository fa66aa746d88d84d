"""Frees large containers item by item in a thread.

Freeing one with millions of objects at once would hold the interpreter's lock, and block the event loop.
"""

from durable_sessions.threads import CPU


async def free_gradually(*containers: object) -> None:
    """Empty dictionaries and lists that are no longer needed, one item at a time, in a thread."""
    await CPU.run(empty, *containers)


def empty(*containers: object) -> None:
    """Empty dictionaries and lists one item at a time in this thread, which must not be the event loop's."""
    for container in containers:
        if isinstance(container, dict):
            while container:
                container.popitem()
        elif isinstance(container, list):
            while container:
                container.pop()
