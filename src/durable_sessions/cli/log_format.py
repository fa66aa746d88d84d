"""Log lines: JSON for machines, aligned text for a terminal."""

import logging
import sys

import structlog

from durable_sessions.settings import Settings


def configure_logs(settings: Settings, worker: int | None = None) -> None:
    """Write structured log lines to stderr, in the configured format and from the configured level.

    Those of a worker say which one it is.
    """

    def add_worker(_: object, __: str, said: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return said if worker is None else {**said, "worker": worker}

    console = settings.log_format == "console" or (settings.log_format == "auto" and sys.stderr.isatty())
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if console else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            add_worker,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[settings.log_level.upper()]
        ),
        # A line and its end in one write: workers share stderr, and with print() lines could run together.
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
