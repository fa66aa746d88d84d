"""Renders Markdown of users and agents as HTML that is safe to embed."""

import re
from collections.abc import MutableMapping, Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererProtocol
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

MARKDOWN_CHARACTERS_MAX = 60_000
"""Longer texts are shown as plain text."""
_LINKS = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)


def to_html(text: str) -> str:
    """Return Markdown as HTML: raw HTML is escaped, images become links, only links to the web are kept."""
    if len(text) > MARKDOWN_CHARACTERS_MAX:
        return as_typed(text)
    rendered: str = _MARKDOWN.render(text)
    return rendered


def as_typed(text: str) -> str:
    """Return plain text as HTML."""
    return f'<div class="plain">{escape(text, quote=False)}</div>'


def _link(
    self: RendererProtocol,
    tokens: Sequence[Token],
    at: int,
    options: OptionsDict,
    env: MutableMapping[str, Any],
) -> str:
    href = str(tokens[at].attrs.get("href", ""))
    if not _LINKS.match(href):
        return "<a>"
    return f'<a href="{escape(href)}" rel="noopener noreferrer nofollow" target="_blank">'


def _heading(
    self: RendererProtocol,
    tokens: Sequence[Token],
    at: int,
    options: OptionsDict,
    env: MutableMapping[str, Any],
) -> str:
    """Render a heading below those of the page."""
    level = min(6, int(tokens[at].tag[1:]) + 3)
    return f"<h{level}>" if tokens[at].nesting == 1 else f"</h{level}>\n"


def _markdown() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "xhtmlOut": False})
    parser.enable(["table", "strikethrough"]).disable("image")
    parser.add_render_rule("link_open", _link)
    parser.add_render_rule("heading_open", _heading)
    parser.add_render_rule("heading_close", _heading)
    return parser


_MARKDOWN = _markdown()
