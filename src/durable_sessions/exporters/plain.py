"""The texts of events as they came, for programs."""

from durable_sessions.rendering.content import parts_of, text_of
from durable_sessions.rendering.text import whole


def plain_text(content: object) -> str:
    """Return the text of a content member: texts as they came, other blocks as people read them."""
    found = []
    for block in content if isinstance(content, list) else [content]:
        text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else block
        found.append(text if isinstance(text, str) else text_of(tuple(parts_of(block, prose=False))))
    return whole("\n\n".join(filter(None, found)))
