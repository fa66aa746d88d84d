"""What the commands that write one event about the work say of it."""

from durable_sessions.cli.terminal import Output
from durable_sessions.client import Appended, Session


def appended(output: Output, session: Session, done: Appended, said: str) -> None:
    """Say that an event is durable: where the session ends now, and ``said`` for people."""
    if output.json:
        output.tell({"session": session.id, "next_offset": done.next_offset})
    else:
        output.note(f"{session.id}: {said}")
