"""The files of the web page: vendored ones are unchanged, none makes HTML of text, colours can be read."""

import hashlib
import itertools
import json
import re
from pathlib import Path

import pytest

import durable_sessions

UI = Path(durable_sessions.__file__).parent / "ui"
OURS = sorted(path for path in UI.rglob("*.js") if "vendor" not in path.parts)
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|\beval\(|\bFunction\(|document\.write|dangerouslySetInnerHTML"
    r"|[\"'`]https?://|\bstyle=\""
)
TEXT = ("ink", "soft", "faint", "accent", "agent", "good", "bad", "warn", "thinking", "info")
SURFACES = ("paper", "card", "sunken", "wash", "bad-wash", "warn-wash", "good-wash")


def test_vendored_modules_are_those_of_the_manifest() -> None:
    manifest = json.loads((UI / "vendor" / "MANIFEST.json").read_text())
    named = {file["file"]: file["sha256"] for one in manifest for file in one["files"]}
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (UI / "vendor").glob("*.mjs")
    }
    assert found == named
    licences = (UI / "vendor" / "LICENSES.txt").read_text()
    for one in manifest:
        assert f"{one['name']} {one['version']} ({one['licence']})" in licences


@pytest.mark.parametrize("path", OURS, ids=lambda path: str(path.relative_to(UI)))
def test_a_module_makes_no_html_of_text_and_looks_down_only(path: Path) -> None:
    text = path.read_text()
    assert FORBIDDEN.search(text) is None
    if path.parent.name != "parts":
        assert "localStorage" not in text
    imported = set(re.findall(r'from "\.\./(\w+)/', text))
    if path.parent.name in ("api", "reading", "list", "parts"):
        assert "views" not in imported
    if path.parent.name == "reading":
        assert not imported
        assert "preact" not in text


def test_every_text_can_be_read_on_every_surface_in_both_themes() -> None:
    told = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", (UI / "tokens.css").read_text())
    for theme in (0, 1):
        colours = {name: both[theme] for name, *both in told}
        for text, surface in itertools.product(TEXT, SURFACES):
            assert contrast(colours[text], colours[surface]) >= 4.5, (theme, text, surface)
        for surface in SURFACES:
            assert contrast(colours["edge"], colours[surface]) >= 3, (theme, surface)


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
