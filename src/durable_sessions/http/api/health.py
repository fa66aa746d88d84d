"""The health of the process and of a partition; both outlive the engines."""

from dataclasses import dataclass

from durable_sessions.http.carrier.server import HttpServer


@dataclass(slots=True)
class Health:
    """State of the process for ``/readyz`` and ``/metrics``.

    ``low_space`` says that the disk is almost full.
    """

    server: HttpServer | None = None
    disk_free_bytes: int | None = None
    disk_low_bytes: int | None = None
    low_space: str | None = None


@dataclass(slots=True)
class EngineHealth:
    """State of a partition; ``reopening_failure`` says why its failed log could not be opened again yet."""

    reopenings: int = 0
    reopening_failure: str | None = None
