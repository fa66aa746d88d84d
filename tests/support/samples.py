"""Where transcripts of other tools lie that are too large, or not ours, to be kept in this repository.

``TRANSCRIPTS=/a/folder make test`` names the folder; without it one beside the repository is looked for.
"""

import os
from pathlib import Path

from tests.support.skips import disabled

FOLDER = Path(
    os.environ.get("TRANSCRIPTS") or Path(__file__).parents[3] / "shared" / "data" / "transcripts"
).absolute()
ENABLE = "TRANSCRIPTS=/folder/with/transcripts make test"
"""The command that runs the tests which want them."""


def missing(what: Path) -> str:
    """Return why a test is skipped, and what would enable it."""
    return disabled(f"no transcripts at {what}", ENABLE)
