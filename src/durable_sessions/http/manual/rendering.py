"""Pages of the documentation as HTML that needs nothing from elsewhere."""

import posixpath
import re
from collections.abc import Mapping
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

from durable_sessions.http.manual.contents import GROUPS, ROOT, ManualPage
from durable_sessions.http.manual.page import frame

API = f"{ROOT}/api"

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_PAGE_FILE = re.compile(r"(?P<path>[^#]+)\.md(?P<anchor>#.*)?")


def index(pages: Mapping[str, ManualPage]) -> bytes:
    """Return the page that leads to all others."""
    groups = "".join(
        f"<h2>{escape(group)}</h2><ul>{''.join(_item(pages[name]) for name in names if name in pages)}</ul>"
        for group, names in GROUPS.items()
        if any(name in pages for name in names)
    )
    body = (
        f'<h1>Durable Sessions</h1><p class="lead">The append-only event log for AI agents.</p>'
        f'<p><a href="{API}">The HTTP interface</a>: every request, parameter and answer.</p>{groups}'
    )
    return _framed("Documentation", body, pages, "")


def page(shown: ManualPage, pages: Mapping[str, ManualPage]) -> bytes:
    """Return one page."""
    tokens = _MARKDOWN.parse(shown.text)
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _slug(tokens[at + 1].content))
        for child in token.children or ():
            if child.type == "link_open":
                _lead_within(child, shown.name, pages)
    body = str(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))
    return _framed(shown.title, body, pages, shown.name)


def _framed(title: str, body: str, pages: Mapping[str, ManualPage], here: str) -> bytes:
    groups = "".join(
        f'<div class="group"><h2>{escape(group)}</h2><ul>'
        + "".join(_entry(pages[name], here) for name in names if name in pages)
        + "</ul></div>"
        for group, names in GROUPS.items()
        if any(name in pages for name in names)
    )
    return frame(
        f"{title} · Durable Sessions",
        f"""\
<a class="skip" href="#content">To the content</a>
<div class="layout">
<nav aria-label="Documentation">
<a class="brand" href="{ROOT}">Durable Sessions</a>
<p class="version"><a href="{API}">The HTTP interface</a></p>
<div class="sections">{groups}</div>
</nav>
<main id="content" class="manual">
{body}
</main>
</div>""",
    )


def _item(one: ManualPage) -> str:
    return f'<li><a href="{ROOT}/{one.name}">{escape(one.title)}</a></li>'


def _entry(one: ManualPage, here: str) -> str:
    mark = ' class="here" aria-current="page"' if one.name == here else ""
    return f'<li><a{mark} href="{ROOT}/{one.name}">{escape(one.title)}</a></li>'


def _lead_within(link: Token, here: str, pages: Mapping[str, ManualPage]) -> None:
    """Let a link to a file of the documentation lead to its page; one to another file leads nowhere."""
    target = str(link.attrGet("href") or "")
    if "://" in target or target.startswith(("#", "/", "mailto:")):
        return
    match = _PAGE_FILE.fullmatch(target)
    name = "" if match is None else posixpath.normpath(posixpath.join(posixpath.dirname(here), match["path"]))
    if match is not None and name in pages:
        link.attrSet("href", f"{ROOT}/{name}{match['anchor'] or ''}")
    else:
        link.attrs.pop("href", None)


def _slug(heading: str) -> str:
    """Return the anchor that links name a heading by, as GitHub makes it."""
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.replace(" ", "-")
