"""The HTML page: nothing in an event is taken for HTML, and nothing is loaded from elsewhere."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

from hypothesis import given, settings

from durable_sessions.exporters import html, prose
from durable_sessions.rendering.text import clean
from tests.unit.exporters import hostile
from tests.unit.exporters.golden import exported, sample

EMPTY = {"meta", "img", "input", "br", "hr"}
TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "dl", "div", "dt", "dd", "main",
    "article", "section", "noscript",
    "details", "summary", "span", "p", "pre", "code", "b", "a", "time", "figure", "img", "figcaption",
    "nav", "label",
    "input", "ol", "ul", "li", "button", "footer", "script", "em", "strong", "s", "blockquote", "hr", "br",
    "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "title", "datetime", "src",
    "alt",
    "loading", "aria-label", "type", "checked", "rel", "target", "style", "start", "open",
}  # fmt: skip


class Page(HTMLParser):
    """Reads a page and refuses what must not be in one."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.scripts = 0
        self.in_typed = False
        self.typed: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        assert tag in TAGS
        assert given.keys() <= ATTRIBUTES
        assert given.get("style") in (None, "text-align:left", "text-align:right", "text-align:center")
        self.scripts += tag == "script"
        if "href" in given:
            self.links.append(given["href"] or "")
            assert re.match(r"#e\d+$|https?://|mailto:", given["href"] or "", re.IGNORECASE)
        if "src" in given:
            assert (given["src"] or "").startswith("data:image/")
        if "id" in given:
            self.ids.append(given["id"] or "")
        if given.get("class") == "plain":
            self.typed.append("")
            self.in_typed = True
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.in_typed = False

    def handle_data(self, data: str) -> None:
        if self.in_typed:
            self.typed[-1] += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


@settings(max_examples=200, deadline=None)
@given(hostile.lines)
def test_events_are_never_html(lines: list[bytes]) -> None:
    page = Page(exported("html", lines))
    assert page.scripts == 1


@settings(max_examples=150, deadline=None)
@given(hostile.texts)
def test_what_a_user_typed_is_shown_as_it_was(text: str) -> None:
    event = {"type": "user.message", "content": [{"type": "text", "text": text}]}
    page = Page(exported("html", [json.dumps(event).encode()]))
    shown = clean(text)
    if shown.strip() and "```" not in shown:
        assert page.typed == [shown]


def test_only_the_pages_own_script_may_run() -> None:
    page = exported("html")
    script = re.search(r"<script>(.*?)</script>\n</body>", page, re.DOTALL)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in page
    )


def test_links_lead_to_entries_that_are_there() -> None:
    page = Page(exported("html"))
    inner = [link[1:] for link in page.links if link.startswith("#")]
    assert inner
    assert set(inner) <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)
    assert {f"e{number}" for number in range(len(sample()))} <= set(page.ids)


def test_images_are_taken_from_artifacts_by_what_they_are() -> None:
    png = b"\x89PNG\r\n\x1a\n" + bytes(20)
    held = {"a" * 64: png, "b" * 64: b"<svg onload=alert(1)>"}

    def shown(digest: str) -> str:
        source = {"type": "url", "url": f"/v1/artifacts/{digest}", "media_type": "image/svg+xml"}
        event = {"type": "user.message", "content": [{"type": "image", "source": source}]}
        return exported("html", [json.dumps(event).encode()], artifact=held.get)

    assert f"data:image/png;base64,{base64.b64encode(png).decode()}" in shown("a" * 64)
    for digest in ("b" * 64, "c" * 64):
        assert "<img" not in shown(digest)
        assert f"artifact {digest[:12]}" in shown(digest)


def test_a_page_holds_a_bounded_amount_of_images() -> None:
    held = b"\x89PNG\r\n\x1a\n" + bytes(html.PICTURES_BYTES_MAX // 2)
    source = {"type": "url", "url": f"/v1/artifacts/{'a' * 64}"}
    event = {"type": "user.message", "content": [{"type": "image", "source": source}] * 3}
    page = exported("html", [json.dumps(event).encode()], artifact=lambda _: held)
    assert page.count("<img") == 1


def test_long_output_is_folded_and_nothing_is_lost() -> None:
    output = "\n".join(f"line {number}" for number in range(300))
    events = [
        {"id": "c", "type": "agent.tool_use", "name": "bash", "input": {"command": "seq"}},
        {"id": "r", "type": "agent.tool_result", "tool_use_id": "c", "content": output},
    ]
    page = exported("html", [json.dumps(event).encode() for event in events])
    assert "Show all 300 lines" in page
    assert all(f"line {number}" in page for number in range(300))
    assert page.count("line 23\n") + page.count("line 23<") == 1


def test_a_long_change_is_folded_and_nothing_is_lost() -> None:
    lines = 2 * html.FOLDED_LINES
    for old, folds in (("x", False), ("\n".join(["x"] * lines), True)):
        edit = {"file_path": "a.py", "old_string": old, "new_string": "<b>\n*y"}
        event = {"type": "agent.tool_use", "id": "c", "name": "Edit", "input": edit}
        page = exported("html", [json.dumps(event).encode()])
        assert ('<details class="fold"><summary><pre class="diff">' in page) is folds
        assert '<span class="a">+&lt;b&gt;</span>' in page
        assert page.count('<span class="r">-x</span>') == old.count("x")


def test_a_long_message_is_folded_and_a_huge_one_is_not_markdown() -> None:
    def page(words: str) -> str:
        event = {"type": "agent.message", "content": [{"type": "text", "text": words}]}
        return exported("html", [json.dumps(event).encode()])

    assert "<strong>b</strong>" in page("**b** " + "w " * 100)
    assert "Show all" not in page("w" * html.FOLDED_PROSE_CHARACTERS)
    assert "Show all 12,001 characters" in page("w" * (html.FOLDED_PROSE_CHARACTERS + 1))
    huge = page("**b** " + "w " * prose.MARKDOWN_CHARACTERS_MAX)
    assert "<strong>" not in huge
    assert '<div class="plain">**b** ' in huge


def test_an_image_is_what_its_bytes_are() -> None:
    def page(data: str) -> str:
        source = {"type": "base64", "media_type": "image/png", "data": data}
        event = {"type": "user.message", "content": [{"type": "image", "source": source}]}
        return exported("html", [json.dumps(event).encode()])

    webp = base64.b64encode(b"RIFF\0\0\0\0WEBP" + bytes(8)).decode()
    assert f'<img src="data:image/webp;base64,{webp}"' in page(webp)
    sound = base64.b64encode(b"RIFF\0\0\0\0WAVE" + bytes(8)).decode()
    for data in (sound, "no base64!", "A", base64.b64encode(b"<svg onload=x>").decode()):
        assert "<img" not in page(data)
