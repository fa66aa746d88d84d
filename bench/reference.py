"""The reference server of the protocol, on Node.js: file-backed or in memory."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench import feeding
from bench.place import Place
from bench.process import Process, free_port, listens

VERSION = "0.3.7"
KINDS = ("file-backed", "in memory")
INSTALL_SECONDS_MAX = 180.0


def missing() -> str:
    """Return what must be installed before it can be measured, or nothing."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "install Node.js 20 or later with npm (Debian: apt-get install nodejs npm)"
    try:
        _folder()
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return f"npm could not install @durable-streams/server@{VERSION}; its message is above"
    return ""


@contextlib.contextmanager
def reference(place: Place, kind: str, *, streams: int = 0) -> Iterator[tuple[Process, str]]:
    """Run the reference server with the streams ``bench-N``."""
    port = free_port()
    name = "reference-" + kind.replace(" ", "-")
    data = [str(place.fresh(name))] if kind == "file-backed" else []
    with Process(["node", str(_folder() / "reference.mjs"), str(port), *data], place.log(name)) as process:
        process.wait_until(lambda: listens(port))
        url = f"http://127.0.0.1:{port}"
        feeding.create_streams(url, streams)
        yield process, url


def _folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = cache / "durable-sessions" / f"bench-reference-{VERSION}"
    if not (folder / ".ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        subprocess.run(
            [*install, f"@durable-streams/server@{VERSION}"],
            cwd=folder,
            check=True,
            timeout=INSTALL_SECONDS_MAX,
        )
        (folder / ".ready").touch()
    shutil.copy(Path(__file__).with_name("reference.mjs"), folder)
    return folder
