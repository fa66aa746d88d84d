"""The text from which the excerpt of a hit is taken: what a transcript shows, without the markup of tools."""

from durable_sessions.rendering import markup, result_markup
from durable_sessions.rendering.events import CALLS, RESULTS


def without_markup(kind: str, text: str) -> str:
    """Return the searchable text of an event of this type as a transcript would show it.

    What an agent gave to a tool is left as it is: it may be a file that has such markup in it.
    """
    if kind in CALLS:
        return text
    return result_markup.plain(text) if kind in RESULTS else markup.plain(text)
