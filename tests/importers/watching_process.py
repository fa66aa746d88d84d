"""A watching importer in a process of its own, which a test can kill: path, URL, state."""

import sys
from pathlib import Path

from durable_sessions.client import Client
from durable_sessions.importers.claude_code.store import discover
from durable_sessions.importers.destination import ServerDestination
from durable_sessions.importers.engine import ImportEngine
from durable_sessions.importers.live_capture import Watcher
from durable_sessions.importers.state import ImportState


def main() -> None:
    path, url, state_path = sys.argv[1:]
    state = ImportState(Path(state_path), url)
    with Client(url) as client:
        engine = ImportEngine(ServerDestination(client), state)
        roots = [Path(path)]
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        Watcher(
            engine,
            lambda: discover(roots),
            roots,
            lambda report: None,
            lambda trouble: None,
            quiet_seconds=3_600,
        ).run()


if __name__ == "__main__":
    main()
