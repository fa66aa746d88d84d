"""When leases were renewed last. Only in memory: the log says who holds a session, not for how long still."""

from collections import OrderedDict

from durable_sessions.sessions.graph.lease import Lease


class LeaseTimes:
    """The last sign of life of each lease.

    It decides only when others may take over. After a restart every lease has its full time again, counted
    from ``started_ms``: nobody can know how much of it had passed.
    """

    def __init__(self, started_ms: int, most: int) -> None:
        self._started_ms = started_ms
        self._most = most
        self._renewed: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._beats: OrderedDict[tuple[int, int], int] = OrderedDict()

    def renew(self, stream: int, epoch: int, now_ms: int) -> None:
        """Note that the holder of a lease is alive."""
        self._renewed[stream, epoch] = now_ms
        self._renewed.move_to_end((stream, epoch))
        if len(self._renewed) > self._most:
            self._renewed.popitem(last=False)

    def beat_ms(self, stream: int, epoch: int) -> int | None:
        """Return when a lease was renewed by a request for nothing else; None if it was not, or not since
        the start.
        """
        return self._beats.get((stream, epoch))

    def beat(self, stream: int, epoch: int, now_ms: int) -> int:
        """Renew a lease by a request for nothing else; return its time, which no other beat of it has."""
        at_ms = max(now_ms, self._beats.pop((stream, epoch), -1) + 1)
        self._beats[stream, epoch] = at_ms
        if len(self._beats) > self._most:
            self._beats.popitem(last=False)
        self.renew(stream, epoch, at_ms)
        return at_ms

    def renewed_ms(self, stream: int, lease: Lease) -> int:
        """Return since when the time of a lease runs."""
        return self._renewed.get((stream, lease.epoch), max(lease.claimed_ms, self._started_ms))

    def expires_ms(self, stream: int, lease: Lease) -> int:
        """Return when others may take over."""
        return self.renewed_ms(stream, lease) + lease.seconds * 1000
