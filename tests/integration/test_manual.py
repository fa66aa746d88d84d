"""The documentation as the server shows it: every page, and no link that leads nowhere."""

import re
from pathlib import Path

import httpx2
import pytest

from durable_sessions.http.manual.contents import GROUPS, pages
from durable_sessions.testing.server import local_server

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.anyio


def test_every_page_has_its_place() -> None:
    written = {str(file.relative_to(ROOT / "docs")).removesuffix(".md") for file in ROOT.glob("docs/**/*.md")}
    named = {name for names in GROUPS.values() for name in names}
    assert written == named
    assert named == set(pages())


async def test_pages_lead_to_each_other(tmp_path: Path) -> None:
    async with local_server(tmp_path) as server, httpx2.AsyncClient(base_url=server.url) as reader:
        texts: dict[str, str] = {}
        left = ["/docs"]
        while left:
            path = left.pop()
            if path in texts:
                continue
            answer = await reader.get(path)
            assert answer.status_code == 200, path
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            texts[path] = answer.text
            left += re.findall(r'href="(/docs[^"#]*)', answer.text)
        assert {f"/docs/{name}" for name in pages()} < set(texts)
        for path, text in texts.items():
            assert "<h1" in text
            assert "&lt;!--" not in text
            for page, anchor in re.findall(r'href="(/docs[^"#]*)?#([^"]+)"', text):
                assert f'id="{anchor}"' in texts[page or path], (path, page, anchor)


async def test_other_paths_and_methods_are_refused(tmp_path: Path) -> None:
    async with local_server(tmp_path) as server, httpx2.AsyncClient(base_url=server.url) as reader:
        assert (await reader.post("/docs/sessions")).status_code == 405
        for path in ("/docs/nothing", "/docs/..%2fREADME", "/docs/sessions.md", "/docs/"):
            assert (await reader.get(path)).status_code == 404, path
