"""The files that a session hands over: written for a worker that knows only files, and read back."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from durable_sessions.client.errors import ClientError

FEATURES, PROGRESS, INIT = "feature-list.json", "progress.txt", "init.sh"
FEATURES_ALIAS = "prd.json"
INSTRUCTIONS_MAX = 16_000
"""As many characters as the instructions of a checkpoint may have."""
_NO_NOTES = "progress.txt has no new lines."
_NOTHING_LEFT = "Nothing is left: have it judged."
_CUT = "…\n"


class HandoffBreachError(ClientError):
    """The files ask for something that a worker may not change: the features, or how they are checked."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(
            f"{' '.join(problems)} A worker does not change the outcome: put it back, or have a judge append "
            "another ds.outcome.defined. Nothing was written."
        )
        self.problems = problems


class Handoff(dict[str, str]):
    """The files by name; ``handoff.md`` says what the next worker must know."""

    def write(self, directory: Path | str) -> list[Path]:
        """Write all files into a directory, which is created if it is not there."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        written = [folder / name for name in self]
        for path in written:
            path.write_text(self[path.name], encoding="utf-8")
        (folder / INIT).chmod(0o755)
        return written


@dataclass(frozen=True, slots=True)
class HandoffChanges:
    """What a worker changed in the files: features it claims to have done, its notes, and its init script.

    ``init`` is None if the script is the same.
    """

    claimed: list[str]
    notes: str
    init: bytes | None
    next: str

    def events(self, init_sha256: str | None) -> list[dict[str, Any]]:
        """Return the events that say it; ``init_sha256`` is the digest under which the script is stored."""
        attached = {"type": "ds.artifact", "sha256": init_sha256, "name": INIT, "role": "init"}
        checkpoint: dict[str, Any] = {
            "type": "ds.checkpoint",
            "units": len(self.claimed),
            "next": self.next,
            "instructions": _cut(self.notes) or _NO_NOTES,
        }
        if self.claimed:
            checkpoint["done"] = self.claimed
        return [checkpoint] if init_sha256 is None else [attached, checkpoint]


def changes(directory: Path | str, handed: Handoff, checkpoint: Mapping[str, Any] | None) -> HandoffChanges:
    """Return what differs from what the session hands over now, given its last checkpoint.

    Raises HandoffBreachError if features are missing or new, or their checks were edited.
    """
    folder = Path(directory)
    wanted = {one["id"]: one for one in json.loads(handed[FEATURES])}
    found = {one["id"]: one for one in _features(folder)}
    problems = list(_breaches(wanted, found))
    if problems:
        raise HandoffBreachError(problems)
    # A claim stands in the checkpoint until it is judged, and reading the files again must not repeat it.
    told = [] if checkpoint is None else checkpoint["done"]
    open_ = [name for name, one in wanted.items() if not one["passes"]]
    claimed = [name for name in open_ if found[name].get("passes") is True]
    left = (name for name in open_ if name not in claimed)
    init = _bytes(folder / INIT)
    return HandoffChanges(
        [name for name in claimed if name not in told],
        _new_lines(handed[PROGRESS], _text(folder / PROGRESS)),
        init if init not in (b"", handed[INIT].encode()) else None,
        next(left, _NOTHING_LEFT),
    )


def is_nothing(found: HandoffChanges) -> bool:
    """Say whether nothing was changed."""
    return not found.claimed and not found.notes and found.init is None


def _features(folder: Path) -> list[dict[str, Any]]:
    path = folder / FEATURES
    if not path.exists() and (folder / FEATURES_ALIAS).exists():
        path = folder / FEATURES_ALIAS
    try:
        listed = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ValueError(f"There is no {FEATURES} in {folder}: write the files there first.") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: look at line {error.lineno}, column {error.colno}.") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON.") from error
    if not isinstance(listed, list) or not all(
        isinstance(one, dict) and isinstance(one.get("id"), str) for one in listed
    ):
        raise ValueError(f"{path} is no list of features, each an object with an id.")
    return listed


def _breaches(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    for name, one in wanted.items():
        if name not in found:
            yield f"The feature {name} is missing in {FEATURES}."
        elif found[name].get("check") != one["check"]:
            yield f"The check of the feature {name} was edited."
    for name in found:
        if name not in wanted:
            yield f"The feature {name} is not in the outcome of the session."


def _new_lines(before: str, after: str) -> str:
    """Return the lines that were added."""
    if after.startswith(before):
        return after[len(before) :].strip()
    known = set(before.splitlines())
    return "\n".join(line for line in after.splitlines() if line not in known).strip()


def _text(path: Path) -> str:
    """Return a file's text, nothing if it is not there. What is no text must not get into the log."""
    try:
        text = _bytes(path).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text in UTF-8. Nothing was written.") from error
    if "\0" in text:
        raise ValueError(f"{path} is not a text: it has null characters. Nothing was written.")
    return text


def _cut(text: str) -> str:
    """Return the end of a text that is too long for a checkpoint."""
    return text if len(text) <= INSTRUCTIONS_MAX else _CUT + text[-INSTRUCTIONS_MAX + len(_CUT) :]


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
