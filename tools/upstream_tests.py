"""Download the frameworks' own tests for `make test-adapters`: ``python -m tools.upstream_tests``.

They come from source distributions, in the versions and with the hashes of `requirements-adapters.lock`, and
from commits where no distribution has them. What is there already is not asked for again. What cannot be had
is named; the tests that need it are skipped, and it is asked for again at the next run.
"""

import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tools.install_each import requirements

FOLDER = Path(sys.prefix) / "upstream"
LOCK = Path(__file__).parents[1] / "requirements-adapters.lock"
DISTRIBUTIONS = ("claude-agent-sdk", "langgraph", "langgraph-checkpoint-sqlite", "openai-agents")
COMMITS = {
    "langchain-ai/langgraph": "f09cfe8ffc1eeffd68f4b628ed69c30f7cad229f",
}
DOWNLOAD_SECONDS_MAX = 120
_ADDRESS = "https://codeload.github.com/{repository}/tar.gz/{commit}"


def distribution(package: str, version: str) -> Path:
    """Return where the source distribution of a package is, or would be."""
    return FOLDER / f"{package.replace('-', '_')}-{version}.tar.gz"


def commit(repository: str) -> Path:
    """Return where the files of the pinned commit of a repository are, or would be."""
    return FOLDER / f"{repository.partition('/')[2]}-{COMMITS[repository]}.tar.gz"


def _download_distribution(requirement: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(requirement + "\n")
        file.flush()
        words = ("download", "--quiet", "--no-deps", "--no-binary", ":all:", "--require-hashes")
        place = ("--dest", str(FOLDER), "--requirement", file.name)
        subprocess.run([sys.executable, "-m", "pip", *words, *place], check=False)  # noqa: S603


def _download_commit(repository: str, place: Path) -> None:
    address = _ADDRESS.format(repository=repository, commit=COMMITS[repository])
    try:
        with urllib.request.urlopen(address, timeout=DOWNLOAD_SECONDS_MAX) as answer:  # noqa: S310
            data = answer.read()
    except OSError as failure:
        sys.stderr.write(f"{address}: {failure}\n")
        return
    partial = place.with_suffix(".partial")
    partial.write_bytes(data)
    partial.rename(place)


def _missing() -> Iterator[str]:
    """Download what is not there yet, and yield what cannot be had."""
    for requirement in requirements(LOCK.read_text()):
        package, _, version = requirement.split()[0].partition("==")
        place = distribution(package, version)
        if package in DISTRIBUTIONS and not place.exists():
            _download_distribution(requirement)
            if not place.exists():
                yield f"the source distribution of {package} {version}"
    for repository, pinned in COMMITS.items():
        place = commit(repository)
        if not place.exists():
            _download_commit(repository, place)
            if not place.exists():
                yield f"the commit {pinned[:12]} of {repository}"


def main() -> None:
    """Download all that can be had; succeed in any case, and name the rest."""
    FOLDER.mkdir(exist_ok=True)
    for name in _missing():
        sys.stderr.write(f"NOT TESTED: {name} cannot be had; what needs it is skipped\n")


if __name__ == "__main__":
    main()
