"""Behaves like the command ``docker``, with directories for containers, and notes what it was asked.

``fake_docker.py FOLDER words…``: each container is a directory below FOLDER; commands run on
this machine, in that directory whatever ``--workdir`` says, with the environment that a container has.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

VALUED = {"--name", "--label", "--workdir", "--network", "--cap-drop", "--security-opt", "--entrypoint"}
VALUED |= {"--pids-limit", "--memory", "--format", "--env"}


def parsed(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the options before the first plain word, and the rest."""
    options: dict[str, list[str]] = {}
    while words and words[0].startswith("--"):
        name = words.pop(0)
        options.setdefault(name, []).append(words.pop(0) if name in VALUED else "")
    return options, words


def main() -> int:
    folder, verb, *words = sys.argv[1:]
    home = Path(folder)
    with (home / "asked.jsonl").open("a") as asked:
        asked.write(json.dumps([verb, *words]) + "\n")
    options, rest = parsed(words)
    if verb == "run":
        if rest[0] == "no-such-image":
            sys.stderr.write("Unable to find image 'no-such-image:latest' locally\n")
            sys.stderr.write("docker: Error response from daemon: pull access denied\n")
            return 125
        (home / options["--name"][0]).mkdir()
        print("c0ffee" * 10)
        return 0
    name = rest[0]
    container = home / name
    if not container.is_dir():
        sys.stderr.write(f"Error response from daemon: No such container: {name}\n")
        return 1
    if verb == "inspect":
        print("sha256:" + "ab" * 32 if "Image" in options["--format"][0] else "true")
        return 0
    if verb in ("pause", "unpause"):
        return 0
    if verb == "rm":
        shutil.rmtree(container)
        return 0
    assert verb == "exec", verb
    variables = dict(one.split("=", 1) for one in options.get("--env", []))
    stdin = None if "--interactive" in options else subprocess.DEVNULL
    # As with docker, the end of this program is not the end of what it has started.
    environment = {"PATH": os.environ["PATH"], **variables}
    code = subprocess.run(rest[1:], cwd=container, stdin=stdin, env=environment, check=False).returncode
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
