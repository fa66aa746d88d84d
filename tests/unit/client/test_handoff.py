"""Files that a session hands over: written, changed by a worker that knows only files, and read back."""

import json
from pathlib import Path
from typing import Any

import pytest

from durable_sessions.client.handoff import (
    INSTRUCTIONS_MAX,
    Handoff,
    HandoffBreachError,
    HandoffChanges,
    changes,
    is_nothing,
)

FEATURES: list[dict[str, Any]] = [
    {"id": "f1", "description": "adds", "check": "pytest -q", "passes": True},
    {"id": "f2", "description": "subtracts", "check": "pytest -q", "passes": False},
    {"id": "f3", "description": "divides", "check": None, "passes": False},
]


@pytest.fixture
def handed() -> Handoff:
    return Handoff(
        {
            "feature-list.json": json.dumps(FEATURES),
            "progress.txt": "Begun.\nf1 is done.\n",
            "init.sh": "#!/bin/sh\n",
            "handoff.md": "# Go on with f2\n",
        }
    )


def features(folder: Path, changed: list[dict[str, Any]], name: str = "feature-list.json") -> None:
    (folder / name).write_text(json.dumps(changed))


def passing(*done: str) -> list[dict[str, Any]]:
    return [{**one, "passes": one["passes"] or one["id"] in done} for one in FEATURES]


def test_the_files_are_written_into_a_new_directory_and_the_script_can_be_run(
    handed: Handoff, tmp_path: Path
) -> None:
    written = handed.write(tmp_path / "deep" / "folder")
    assert {path.name: path.read_text() for path in written} == handed
    assert (tmp_path / "deep/folder/init.sh").stat().st_mode & 0o111


def test_what_was_not_changed_is_nothing(handed: Handoff, tmp_path: Path) -> None:
    handed.write(tmp_path)
    assert is_nothing(changes(tmp_path, handed, None))


def test_features_claimed_new_lines_and_another_script_are_found(handed: Handoff, tmp_path: Path) -> None:
    handed.write(tmp_path)
    features(tmp_path, passing("f2"))
    (tmp_path / "progress.txt").write_text(handed["progress.txt"] + "f2 was an off-by-one.\n")
    (tmp_path / "init.sh").write_text("#!/bin/sh\nmake\n")
    found = changes(tmp_path, handed, None)
    assert found == HandoffChanges(["f2"], "f2 was an off-by-one.", b"#!/bin/sh\nmake\n", "f3")
    assert found.events("0" * 64) == [
        {"type": "ds.artifact", "sha256": "0" * 64, "name": "init.sh", "role": "init"},
        {
            "type": "ds.checkpoint",
            "units": 1,
            "next": "f3",
            "instructions": "f2 was an off-by-one.",
            "done": ["f2"],
        },
    ]


def test_what_the_last_checkpoint_said_is_not_claimed_again(handed: Handoff, tmp_path: Path) -> None:
    handed.write(tmp_path)
    features(tmp_path, passing("f2", "f3"))
    found = changes(tmp_path, handed, {"done": ["f2"]})
    assert found.claimed == ["f3"]
    assert found.next == "Nothing is left: have it judged."
    (checkpoint,) = found.events(None)
    assert checkpoint["instructions"] == "progress.txt has no new lines."


@pytest.mark.parametrize("claim", ["yes", 1, None, "true"])
def test_only_true_claims_a_feature(handed: Handoff, tmp_path: Path, claim: object) -> None:
    handed.write(tmp_path)
    features(tmp_path, [{**one, "passes": claim} for one in FEATURES])
    assert changes(tmp_path, handed, None).claimed == []


def test_of_a_rewritten_progress_file_the_lines_that_were_not_there_are_new(
    handed: Handoff, tmp_path: Path
) -> None:
    handed.write(tmp_path)
    (tmp_path / "progress.txt").write_text("f1 is done.\nf2 is hard.\nBegun.\n")
    assert changes(tmp_path, handed, None).notes == "f2 is hard."


def test_files_that_were_removed_say_nothing(handed: Handoff, tmp_path: Path) -> None:
    handed.write(tmp_path)
    (tmp_path / "progress.txt").unlink()
    (tmp_path / "init.sh").unlink()
    assert is_nothing(changes(tmp_path, handed, None))


def test_the_list_may_have_its_other_name(handed: Handoff, tmp_path: Path) -> None:
    handed.write(tmp_path)
    (tmp_path / "feature-list.json").unlink()
    features(tmp_path, passing("f3"), "prd.json")
    assert changes(tmp_path, handed, None).claimed == ["f3"]


def test_every_breach_of_the_outcome_is_named(handed: Handoff, tmp_path: Path) -> None:
    handed.write(tmp_path)
    easier = {**FEATURES[1], "check": "true"}
    features(tmp_path, [FEATURES[0], easier, {"id": "f9", "check": None}])
    with pytest.raises(HandoffBreachError, match="Nothing was written") as raised:
        changes(tmp_path, handed, None)
    assert raised.value.problems == [
        "The check of the feature f2 was edited.",
        "The feature f3 is missing in feature-list.json.",
        "The feature f9 is not in the outcome of the session.",
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[{", r"is not JSON: look at line 1, column"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"id":"f1"}', "is no list of features"),
        (b'[{"id":7}]', "is no list of features"),
        (b"[7]", "is no list of features"),
    ],
)
def test_a_list_that_cannot_be_read_is_refused_with_its_path(
    handed: Handoff, tmp_path: Path, content: bytes, words: str
) -> None:
    handed.write(tmp_path)
    (tmp_path / "feature-list.json").write_bytes(content)
    with pytest.raises(ValueError, match=words) as raised:
        changes(tmp_path, handed, None)
    assert "feature-list.json" in str(raised.value)


def test_a_directory_without_the_files_is_refused(handed: Handoff, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="write the files there first"):
        changes(tmp_path, handed, None)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a\0b"])
def test_notes_that_are_no_text_are_refused(handed: Handoff, tmp_path: Path, content: bytes) -> None:
    handed.write(tmp_path)
    (tmp_path / "progress.txt").write_bytes(content)
    with pytest.raises(ValueError, match="is not a text"):
        changes(tmp_path, handed, None)


@pytest.mark.parametrize("more", [0, 1])
def test_of_long_notes_the_end_is_kept(more: int) -> None:
    notes = "a" * INSTRUCTIONS_MAX + "z" * more
    (checkpoint,) = HandoffChanges([], notes, None, "f2").events(None)
    said = checkpoint["instructions"]
    assert len(said) == INSTRUCTIONS_MAX
    assert said == notes if not more else (said.startswith("…\n") and said.endswith("az"))
