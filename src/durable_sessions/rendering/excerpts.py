"""The words of an event by which it is found, and which excerpts show: those of its transcript."""

from durable_sessions.rendering import markup, result_markup
from durable_sessions.rendering.events import CALLS, RESULTS


def without_markup(kind: str, text: str) -> str:
    """Return a text of an event of this type as a transcript shows it.

    What an agent gave to a tool is left as it is: it may be a file that has such markup in it.
    """
    if "<" not in text or kind in CALLS:
        return text
    return result_markup.plain(text) if kind in RESULTS else markup.plain(text)
