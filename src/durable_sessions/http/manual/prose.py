"""A little Markdown as HTML: paragraphs, code, bold, italics."""

import re
from html import escape


def prose(text: str) -> str:
    """Return text with a little Markdown (paragraphs, code, bold, italics) as HTML."""
    return "".join(f"<p>{inline(part)}</p>" for part in text.strip().split("\n\n") if part)


def inline(text: str) -> str:
    """Return one line of such text as HTML."""
    pieces = re.split(r"(`[^`]+`)", text)
    return "".join(
        f"<code>{escape(piece[1:-1])}</code>"
        if piece.startswith("`") and len(piece) > 2
        else _emphasis(escape(piece))
        for piece in pieces
    )


def _emphasis(text: str) -> str:
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"\*(\w+)\*", r"<em>\1</em>", text)
