"""What opening a stopped server's data needs."""

from pathlib import Path

from durable_sessions.clock import SystemClock
from durable_sessions.ids import RandomIds
from durable_sessions.settings import Settings
from durable_sessions.tools.stopped_partition import Stopped


def stopped(data: Path) -> Stopped:
    settings = Settings(data=data)
    return Stopped(settings, settings.limits(), SystemClock(), RandomIds())
