"""What clients of NATS cannot see: whether its servers sync before they acknowledge."""

import re
from typing import Any

import httpx2
import msgspec

VERSION_MIN = (2, 12, 3)
"""Earlier versions lose acknowledged messages in some crashes."""
_SECONDS_MAX = 5.0


def server_problems(monitoring: str) -> list[str]:
    """Return what is wrong with the server whose monitoring is at this address."""
    try:
        answer = httpx2.get(monitoring.rstrip("/") + "/varz", timeout=_SECONDS_MAX)
        said: dict[str, Any] = msgspec.json.decode(answer.content)
    except (httpx2.HTTPError, msgspec.MsgspecError, OSError) as error:
        return [f"its monitoring cannot be read: {error!r}"]
    problems = []
    version = tuple(int(part) for part in re.findall(r"\d+", str(said.get("version", "")))[:3])
    if version < VERSION_MIN:
        wanted = ".".join(map(str, VERSION_MIN))
        problems.append(f"it is version {said.get('version')}; use {wanted} or later")
    config = (said.get("jetstream") or {}).get("config") or {}
    if not config:
        problems.append("JetStream is not enabled")
    elif not config.get("sync_always"):
        problems.append("it acknowledges before it syncs: set sync_interval: always in its jetstream block")
    return problems
