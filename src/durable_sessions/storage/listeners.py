"""Listeners for durable changes: none of them can fail an append, and one that fails reconciles."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Sequence

import structlog

from durable_sessions.errors import DurableSessionsError
from durable_sessions.storage.door import StreamListener
from durable_sessions.streams.stream import Stream

logger = structlog.get_logger(__name__)


class Listeners:
    """Notifies listeners one after the other; ``failures`` counts by name how often one has failed.

    ``appended`` has the streams with new records that they were not told of yet, and from where on.

    Listeners maintain derived state of what is durable already, so a failure is no reason to stop: it is
    logged and counted, and the listener reconciles after a pause.
    """

    def __init__(self, pause_seconds: float) -> None:
        self._pause_seconds = pause_seconds
        self._listeners: list[StreamListener] = []
        self._failed = asyncio.Event()
        self.appended: list[tuple[Stream, int]] = []
        self.failing: dict[str, str] = {}
        self.failures: Counter[str] = Counter()

    def add(self, listener: StreamListener) -> None:
        """Notify a listener of every durable change from now on."""
        self._listeners.append(listener)
        self.failures[listener.name] += 0

    def created(self, stream: Stream) -> None:
        """Notify that a stream was created."""
        self.tell_appended()
        for listener in self._listeners:
            try:
                listener.stream_created(stream)
            except Exception as error:
                self._note(listener, error)

    def tell_appended(self) -> None:
        """Notify of ``appended``: of the records of a batch together, and before anything that came later."""
        if not self.appended:
            return
        appended, self.appended = self.appended, []
        for listener in self._listeners:
            try:
                listener.streams_appended(appended)
            except Exception as error:
                self._note(listener, error)

    def removed(self, stream: Stream) -> None:
        """Notify that a stream was removed."""
        self.tell_appended()
        for listener in self._listeners:
            try:
                listener.stream_removed(stream)
            except Exception as error:
                self._note(listener, error)

    def erased(self, stream: Stream, positions: Sequence[int]) -> None:
        """Notify that records of a stream were erased."""
        self.tell_appended()
        for listener in self._listeners:
            try:
                listener.stream_erased(stream, positions)
            except Exception as error:
                self._note(listener, error)

    async def run(self) -> None:
        """Let failed listeners reconcile, after a pause: a listener may fail at every event."""
        while True:
            await self._failed.wait()
            await asyncio.sleep(self._pause_seconds)
            self._failed.clear()
            for listener in self._listeners:
                if listener.name in self.failing:
                    self._reconcile(listener)

    def _reconcile(self, listener: StreamListener) -> None:
        try:
            listener.reconcile()
        except Exception as error:
            self._note(listener, error)
            return
        del self.failing[listener.name]
        logger.info("listener_reconciles", listener=listener.name)

    def _note(self, listener: StreamListener, error: Exception) -> None:
        self.failures[listener.name] += 1
        if listener.name not in self.failing:
            expected = isinstance(error, DurableSessionsError | OSError | sqlite3.Error)
            logger.error(
                "listener_failed",
                listener=listener.name,
                reason=str(error) or repr(error),
                exc_info=None if expected else error,
            )
        self.failing[listener.name] = str(error) or repr(error)
        self._failed.set()
