"""Letting go of much at once, in a thread: in one go that would hold the interpreter, and so everybody."""

from durable_sessions.threads import CPU


async def let_go(*containers: object) -> None:
    """Empty dictionaries and lists that nobody needs any more, one thing after the other."""
    await CPU.run(empty, *containers)


def empty(*containers: object) -> None:
    """Do the same in this thread, which is not the event loop's."""
    for container in containers:
        if isinstance(container, dict):
            while container:
                container.popitem()
        elif isinstance(container, list):
            while container:
                container.pop()
