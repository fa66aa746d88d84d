"""Every command in the README, the tutorial and the guides is run, in order, as a reader would."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.skips import disabled
from tests.support.walkthrough import ROOT, Walk, blocks

BEGIN = [ROOT / "README.md", ROOT / "docs" / "tutorial.md", ROOT / "docs" / "long-running-agents.md"]
GUIDES = sorted(ROOT.glob("docs/howto/*.md"))

CLAUDE_CODE_SESSION = "3f0c2f4e-9a51-4f0b-8f39-6d1f1f6f3a10"


def leave_history(home: Path) -> None:
    """Put a session of Claude Code where it keeps them."""
    common = {
        "sessionId": CLAUDE_CODE_SESSION,
        "cwd": "/work/shop",
        "gitBranch": "main",
        "version": "2.1.220",
        "isSidechain": False,
        "userType": "external",
    }
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "make test"}}
    failed = "FAILED test_checkout.py::test_total - connection refused"
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": failed, "is_error": True}
    answer = {"type": "text", "text": "The payment stub is not running."}
    records = [
        {"type": "user", "message": {"role": "user", "content": "Why does the checkout test fail?"}},
        {"type": "assistant", "requestId": "req_1", "message": said("msg_1", call, "tool_use")},
        {"type": "user", "message": {"role": "user", "content": [result]}},
        {"type": "assistant", "requestId": "req_2", "message": said("msg_2", answer, "end_turn")},
    ]
    folder = home / ".claude" / "projects" / "-work-shop"
    folder.mkdir(parents=True)
    with (folder / f"{CLAUDE_CODE_SESSION}.jsonl").open("w") as file:
        for number, record in enumerate(records):
            link = {"uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None}
            time = {"timestamp": f"2026-11-02T09:00:{number:02}.000Z"}
            file.write(json.dumps({**record, **common, **link, **time}) + "\n")


def said(id: str, block: Mapping[str, object], stop_reason: str) -> dict[str, object]:  # noqa: A002
    """Return a message of the model as Claude Code keeps it."""
    usage = {"input_tokens": 12, "output_tokens": 34}
    head = {"id": id, "type": "message", "role": "assistant", "model": "claude-sonnet-5"}
    return {**head, "content": [block], "stop_reason": stop_reason, "usage": usage}


@pytest.mark.parametrize("page", [*BEGIN, *GUIDES], ids=lambda page: page.stem)
def test_every_block_does_what_the_page_says(page: Path, tmp_path: Path) -> None:
    for program in ("bash", "curl"):
        if shutil.which(program) is None:
            why = f"{program} is missing: nothing of {page.name} was run"
            pytest.skip(disabled(why, f"apt-get install {program}"))
    with Walk(tmp_path / "walk") as walk:
        leave_history(walk.home)
        count = walk.run(page)
    assert count == sum(block.is_run for block in blocks(page))


def in_order() -> list[Path]:
    """Return the pages as the table of contents of the README has them."""
    named = re.findall(
        r"\((docs/(?:tutorial|long-running-agents|howto/[\w-]+)\.md)\)", (ROOT / "README.md").read_text()
    )
    return [ROOT / "README.md", *(ROOT / name for name in dict.fromkeys(named))]


def test_all_pages_work_in_one_place_in_order_and_backwards(tmp_path: Path) -> None:
    pages = in_order()
    assert {*pages} >= {*BEGIN, *(page for page in GUIDES if any(block.is_run for block in blocks(page)))}
    with Walk(tmp_path / "walk") as walk:
        leave_history(walk.home)
        for page in (*pages, *reversed(pages)):
            walk.run(page)
    assert_ignored(walk)


def assert_ignored(walk: Walk) -> None:
    """See that nothing that a reader's work left in the clone is seen by git."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", *walk.left],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(asked.stdout.split()) == set(walk.left)
    assert len(walk.left) >= 5


COMMANDS = [
    ROOT / "docs" / f"{name}.md"
    for name in (
        "cli",
        "importing",
        "search",
        "exporting",
        "evidence",
        "graph",
        "mcp",
        "opentelemetry",
        "ai-sdk",
    )
]


@pytest.mark.parametrize("page", COMMANDS, ids=lambda page: page.stem)
def test_a_page_on_commands_works_alone(page: Path, tmp_path: Path) -> None:
    with Walk(tmp_path / "walk") as walk:
        leave_history(walk.home)
        assert walk.run(page) >= 2


def test_pages_on_commands_work_in_any_order_and_again(tmp_path: Path) -> None:
    with Walk(tmp_path / "walk") as walk:
        leave_history(walk.home)
        for page in (*reversed(COMMANDS), ROOT / "README.md", *COMMANDS):
            walk.run(page)
    assert_ignored(walk)


@pytest.mark.parametrize("page", BEGIN, ids=lambda page: page.stem)
def test_there_is_something_to_run(page: Path) -> None:
    assert sum(block.is_run for block in blocks(page)) >= 5


@pytest.mark.parametrize(
    "text",
    [
        "```sh\nfalse\n```\n",
        "```sh\ncurl http://127.0.0.1:4437/v1/sessions/missing\n```\n",
        "<!-- shows: done -->\n```sh\necho well begun\n```\n",
        "<!-- runs until interrupted -->\n<!-- shows: done -->\n```sh\necho well begun\n```\n",
        "<!-- shows: two -->\n```sql\nselect 1 as one\n```\n",
        "```python\nraise SystemExit(1)\n```\n",
        "<!-- runs beside the next block -->\n```sh\nsleep 600\n```\n",
        "<!-- something new -->\n```sh\ntrue\n```\n",
    ],
)
def test_a_page_that_is_wrong_is_found(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with Walk(tmp_path / "walk") as walk, pytest.raises(AssertionError):
        walk.run(page)


def test_second_servers_of_pages_do_not_get_in_each_others_way() -> None:
    ports = [
        (port, page.name)
        for page in [*BEGIN, *GUIDES]
        for port in {*re.findall(r"serve --port (\d+)", page.read_text())}
    ]
    assert len({port for port, _ in ports}) == len(ports) >= 2, ports
