"""What a process knows of itself as a whole, whichever engine it has."""

from dataclasses import dataclass

from durable_sessions.http.carrier.server import HttpServer


@dataclass(slots=True)
class Health:
    """Facts for ``/readyz`` and ``/metrics``.

    ``reopening_failure`` says why a log that has failed could not be opened again yet, ``low_space``
    how little space is left on the disk, if it is little.
    """

    server: HttpServer | None = None
    reopenings: int = 0
    reopening_failure: str | None = None
    disk_free_bytes: int | None = None
    disk_low_bytes: int | None = None
    low_space: str | None = None
