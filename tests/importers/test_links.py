"""What was named is imported, and nothing that a link in it leads to elsewhere; that is said."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from durable_sessions.cli.main import cli
from durable_sessions.importers import directory_walk
from durable_sessions.importers.registry import TOOLS
from durable_sessions.testing import server

SECRET = '{"type":"note","text":"a secret"}\n'


def _outside(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    (outside / "deep/events").mkdir(parents=True)
    for name in (
        "s.jsonl",
        "s.json",
        "s.ndjson",
        "s.traj",
        "s.eval",
        "rollout-2026-01-01T00-00-00-0.jsonl",
        "opencode.db",
        "s.sqlite",
        ".aider.chat.history.md",
        "deep/s.jsonl",
        "deep/events/0.json",
    ):
        aider = "# aider chat started at 2026-01-01 00:00:00\n"
        (outside / name).write_text(aider if "aider" in name else SECRET)
    return outside


@pytest.mark.parametrize("tool", TOOLS)
def test_no_importer_follows_a_link_out_of_the_folder(tmp_path: Path, tool: str) -> None:
    outside, inside = _outside(tmp_path), tmp_path / "inside"
    (inside / "events").mkdir(parents=True)
    for path in outside.rglob("*"):
        if path.is_file():
            link = inside / ("events" if path.parent.name == "events" else "") / path.name
            if not link.is_symlink():
                link.symlink_to(path)
    (inside / "folder").symlink_to(outside)
    with directory_walk.collect_skipped_links() as skipped_links:
        found = TOOLS[tool].discover([inside])
    assert found == []
    assert inside / "s.jsonl" in skipped_links or any(link.parent == inside for link in skipped_links)


def test_links_within_the_folder_and_named_links_are_followed(tmp_path: Path) -> None:
    real = tmp_path / "inside/real.jsonl"
    real.parent.mkdir()
    real.write_text(SECRET)
    (tmp_path / "inside/again.jsonl").symlink_to(real)
    (tmp_path / "named.jsonl").symlink_to(real)
    (tmp_path / "folder").symlink_to(real.parent)
    found = TOOLS["jsonl"].discover([tmp_path / "inside"])
    assert {one.session for one in found} == {"real", "again"}
    assert [one.session for one in TOOLS["jsonl"].discover([tmp_path / "named.jsonl"])] == ["named"]
    assert len(TOOLS["jsonl"].discover([tmp_path / "folder"])) == 2


def test_links_that_lead_to_each_other_are_skipped_links(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").symlink_to(tmp_path / "b.jsonl")
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "a.jsonl")
    assert TOOLS["jsonl"].discover([tmp_path]) == []


def test_the_command_says_what_it_skipped_links(tmp_path: Path) -> None:
    (tmp_path / "secret.jsonl").write_text(SECRET)
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "fine.jsonl").write_text('{"type":"note","text":"fine"}\n')
    (inside / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    with server(tmp_path / "server") as running:
        arguments = ["import", "jsonl", str(inside), "--json", "--url", running.url]
        result = CliRunner(env={"XDG_STATE_HOME": str(tmp_path)}).invoke(cli, arguments)
        assert result.exit_code == 0, result.output
        assert "link.jsonl leads out of the folder" in result.stderr
        told = json.loads(result.stdout.splitlines()[-1])
        assert told["left_out"] == {"a link that leads out of the folder": 1}
        assert "secret" not in result.stdout
