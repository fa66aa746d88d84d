"""The health of the process and of a partition; both outlive the engines."""

from collections.abc import Callable
from dataclasses import dataclass

from durable_sessions.http.carrier.server import HttpServer


@dataclass(slots=True)
class Health:
    """State of the process for ``/readyz`` and ``/metrics``.

    ``name`` tells the process from others of the server, which began at ``started_ms``. ``low_space``
    says that the disk is almost full. ``forwarded`` counts requests passed on to other workers.
    ``keys_proof_age_seconds`` is how long ago the keys were confirmed; None if they are this process's
    own.
    """

    name: str = "0"
    started_ms: int = 0
    server: HttpServer | None = None
    disk_free_bytes: int | None = None
    disk_low_bytes: int | None = None
    low_space: str | None = None
    forwarded: Callable[[], int] = lambda: 0
    keys_proof_age_seconds: Callable[[], float | None] = lambda: None


@dataclass(slots=True)
class EngineHealth:
    """State of a partition; ``reopening_failure`` says why its failed log could not be opened again yet."""

    reopenings: int = 0
    reopening_failure: str | None = None
