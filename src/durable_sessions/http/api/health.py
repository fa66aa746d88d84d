"""The health of the process, which outlives its engines."""

from dataclasses import dataclass

from durable_sessions.http.carrier.server import HttpServer


@dataclass(slots=True)
class Health:
    """State for ``/readyz`` and ``/metrics``.

    ``reopening_failure`` says why a failed log could not be opened again yet, and ``low_space`` that the disk
    is almost full.
    """

    server: HttpServer | None = None
    reopenings: int = 0
    reopening_failure: str | None = None
    disk_free_bytes: int | None = None
    disk_low_bytes: int | None = None
    low_space: str | None = None
