"""The program with other limits: ``python -m tests.support.limited '{"name": value}' serve …``.

Some limits are no settings, because no operator needs to move them; a test that wants merges,
sweeps and evictions every moment does.
"""

import json
import sys
from dataclasses import replace
from unittest import mock

from durable_sessions.cli.main import main
from durable_sessions.limits import Limits
from durable_sessions.settings import Settings


def _run(changed: dict[str, float]) -> None:
    as_set = Settings.limits

    def limits(settings: Settings) -> Limits:
        return replace(as_set(settings), **changed)  # type: ignore[arg-type]  # the names are the caller's

    with mock.patch.object(Settings, "limits", limits):
        main()


if __name__ == "__main__":
    _run(json.loads(sys.argv.pop(1)))
